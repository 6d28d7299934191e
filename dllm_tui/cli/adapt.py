"""The command ``adapt`` as typer reads it; what it does is imported when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from dllm_tui.cli.options import Device, Dtype, settings_with

EXAMPLES = """\b
[bold]Examples[/]
  dllm-chat adapt smol -o my-smol --selfmade 400000 --minutes 600
  dllm-chat adapt Qwen/Qwen3-0.6B -o my-qwen --selfmade 1000000 --tokens 20000000
  dllm-chat adapt smol -o my-chats --data chats.jsonl --measure 20
  dllm-chat --model my-smol                    chat with it

[bold]A line of a chat file[/]
  {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]}
"""

RECIPE = "Recipe"


def adapt(
    base: Annotated[str, typer.Argument(metavar="BASE", help="smol, a hub id, a directory or a GGUF file.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where the adapter goes.", show_default=False)
    ],
    *,
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Chats (.jsonl) or plain text; may be given several times."),
    ] = None,
    selfmade: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Let the base write answers of N tokens.", show_default=False),
    ] = 0,
    tokens: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stop after N window positions, all runs together.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, metavar="M", help="Stop this run after M minutes.")
    ] = None,
    start: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An adapter to begin with.", show_default=False)
    ] = None,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole", help="Train all weights, into a checkpoint of the Fast-dLLM v2 kind (Qwen2 alone)."
        ),
    ] = False,
    measure: Annotated[
        int, typer.Option(min=0, metavar="N", help="Then decode N held-out prompts.", show_default=False)
    ] = 0,
    device: Device = None,
    dtype: Dtype = None,
    rank: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Of the factors. [dim]32[/]", rich_help_panel=RECIPE),
    ] = None,
    scale: Annotated[
        float | None, typer.Option(metavar="X", help="Of their product. [dim]2[/]", rich_help_panel=RECIPE)
    ] = None,
    targets: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Modules: q_proj,v_proj,… [dim]all[/]", rich_help_panel=RECIPE),
    ] = None,
    block_sizes: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,…", help="To learn, equally often. [dim]4,8,16,32[/]", rich_help_panel=RECIPE
        ),
    ] = None,
    leading: Annotated[
        float | None,
        typer.Option(
            metavar="0…1",
            help="Share of blocks known from the left up to some token. [dim]0.8[/]",
            rich_help_panel=RECIPE,
        ),
    ] = None,
    copies: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Noised copies of a chat at a time. [dim]2[/]", rich_help_panel=RECIPE
        ),
    ] = None,
    distil: Annotated[
        float | None,
        typer.Option(
            metavar="0…1",
            help="Share of the target that the base's distribution is. [dim]0.3[/]",
            rich_help_panel=RECIPE,
        ),
    ] = None,
    by_ratio: Annotated[
        bool,
        typer.Option(
            "--by-ratio", help="Weigh the loss by 1/t, as masked diffusion does.", rich_help_panel=RECIPE
        ),
    ] = False,
    learning_rate: Annotated[
        float | None, typer.Option(metavar="X", help="[dim]0.001[/]", rich_help_panel=RECIPE)
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Window positions a step. [dim]160[/]", rich_help_panel=RECIPE),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="[dim]0[/]", rich_help_panel=RECIPE)] = None,
) -> None:
    """Make a block-diffusion model of an autoregressive one (Llama, Qwen2, Qwen3).

    An adapter is trained for masked positions; what is decided is read by the base as it is.
    The directory holds everything: the same command goes on where it was stopped, from the last checkpoint.
    """
    settings = settings_with(device=device, dtype=dtype)
    from dllm_tui.cli.adapting import adapt, numbers

    sizes = numbers(block_sizes, "--block-sizes")
    recipe = {
        "rank": rank,
        "scale": scale,
        "targets": tuple(targets.split(",")) if targets else None,
        "sizes": sizes,
        "shares": (1.0,) * len(sizes) if sizes else None,
        "leading": leading,
        "copies": copies,
        "distil": distil,
        "by_ratio": by_ratio or None,
        "learning_rate": learning_rate,
        "rows": rows,
        "seed": seed,
    }
    plan = {
        "data": tuple(data or ()),
        "selfmade": selfmade,
        "tokens": tokens,
        "seconds": None if minutes is None else 60 * minutes,
        "start": start,
        "whole": whole,
    }
    said = {name: value for name, value in recipe.items() if value is not None}
    adapt(settings, base, out, plan=plan, recipe=said, measured=measure)
