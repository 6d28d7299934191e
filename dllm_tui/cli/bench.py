"""``dllm-chat bench``: how fast this engine is on this machine."""

import json

from dllm_tui.cli.console import progress
from dllm_tui.settings import Settings


def bench(settings: Settings, *, as_json: bool) -> None:
    """Measure, and print the figures.

    Raises:
        DllmError: the model can't be loaded, or can't chat.
    """
    from dllm_tui.engine.bench import CONTEXT, measure

    with progress() as told:
        report = measure(settings.model, settings.device, settings.dtype, progress=told)
    if as_json:
        print(json.dumps(report.to_dict(), indent=2))
        return
    print(f"{report.model} on {report.device}, {report.dtype}, {report.threads} threads")
    print(f"loaded in {report.load_seconds:.1f} s\n")
    print(f"a forward with {CONTEXT} cached positions")
    for size, milliseconds in report.forward_ms.items():
        print(f"  {size:3} positions  {milliseconds:7.1f} ms")
    if report.step_ratio is not None:
        print(f"a denoising step takes {report.step_ratio:.2f} times its forward\n")
    width = max((len(speed.name) for speed in report.speeds), default=0)
    print(f"{'':{width}}    tok/s  tok/forward  against transformers")
    for speed in report.speeds:
        ratio = "" if speed.ratio is None else f"{speed.ratio:.2f}×"
        figures = f"{speed.tokens_per_second:9.1f}  {speed.tokens_per_forward:11.2f}  {ratio:>20}"
        print(f"{speed.name:{width}}{figures}")
    if report.verify_is_exact is not None:
        same = "the very tokens" if report.verify_is_exact else "OTHER TOKENS than those"
        print(f"\nverify gave {same} of greedy autoregressive decoding")
