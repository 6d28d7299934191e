"""Decoding against the references' traces: the canvas after every forward, the forwards' kinds, their number.

Our side is rebuilt from ``step`` events alone, as anybody who reads a trace would do it.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from dllm_tui.engine.load import load_checkpoint
from dllm_tui.engine.loop import Decoder
from dllm_tui.engine.model import Model
from dllm_tui.events import BlockStart, Canvas, Done, Step
from dllm_tui.knobs import LiveKnobs
from tests.golden.cases import Case
from tests.golden.knob_map import MAPS, Setting, Trace


@cache
def model_in(folder: Path) -> Model:
    return load_checkpoint(folder, torch.device("cpu"), torch.float32)


def run(model: Model, setting: Setting) -> tuple[Trace, Done]:
    """Our trace, prompt and masks included, and the last event."""
    family = replace(model.family, **setting.switches)
    mask_id = setting.mask_id if setting.noisy is None else None
    model = replace(model, family=family, mask_id=mask_id, stop_ids=setting.stop_ids)
    decoder = Decoder(model, setting.prompt, LiveKnobs(setting.knobs), frame=setting.frame)
    if setting.draws is not None:
        decoder.draws = setting.draws(decoder)
    canvas, trace, noisy = Canvas(), [], iter(setting.noisy or ())
    block = BlockStart(block=0, start=0, end=0)
    for event in decoder.events():
        if isinstance(event, Step):
            canvas.apply(event)
            cells = [setting.mask_id if cell is None else cell for cell in canvas.cells]
            if setting.noisy is not None and event.phase != "denoise":
                del cells[block.end :]  # the noise of the canvas that comes next
            if setting.noisy is not None and event.guesses:
                assert cells[block.start :] == next(noisy), f"forward {len(trace)}: the noisy canvas"
                for guess in event.guesses:
                    cells[guess.position] = guess.token_id
            trace.append((event.phase, setting.prompt + cells))
        elif isinstance(event, BlockStart):
            block = event
    assert isinstance(event, Done)
    assert event.nfe == len(trace)
    return trace, event


def test_decode(decode_case: Case) -> None:
    """Every ``decode`` case of every folder."""
    name = decode_case.knobs.get("algorithm") or decode_case.knobs["decoder"]
    assert name in MAPS, f"{decode_case.id}: it isn't known how {name!r} maps to our knobs"
    model = model_in(decode_case.folder)
    setting = MAPS[name](decode_case, model.family)
    ours, done = run(model, setting)
    compare_traces(decode_case, setting, ours)
    compare_answers(decode_case, setting, done)


def compare_traces(case: Case, setting: Setting, ours: Trace) -> None:
    expected = list(setting.expected)
    if not setting.kinds:
        ours = [step for step in ours if step[0] == "denoise"]
    while trailing_commits(ours) > trailing_commits(expected):
        ours.pop()
    while trailing_commits(expected) > trailing_commits(ours):
        _, ids = expected.pop()
        before = expected[-1][1]
        assert ids[: len(before)] == before, f"{case.id}: the last commit forward changes the canvas"
    for number, (mine, theirs) in enumerate(zip(ours, expected, strict=False)):
        where = f"{case.id}: forward {number}"
        assert mine[0] == theirs[0], f"{where} is {mine[0]}, in the reference {theirs[0]}"
        cells, wanted = mine[1], theirs[1]
        if number == len(ours) - 1:  # ours is cut where the answer ends
            wanted = wanted[: len(cells)]
        for place in range(max(len(cells), len(wanted))):
            one, other = (side[place] if place < len(side) else setting.mask_id for side in (cells, wanted))
            assert one == other, f"{where}, position {place}: {one}, in the reference {other}"
    assert len(ours) == len(expected), f"{case.id}: {len(ours)} forwards, in the reference {len(expected)}"


def trailing_commits(trace: Trace) -> int:
    """Commit forwards at the end, which keep what nothing reads."""
    count = 0
    while trace[-1 - count][0] == "commit":
        count += 1
    return count


def compare_answers(case: Case, setting: Setting, done: Done) -> None:
    """Up to the first stop token; where blocks are whole, ours goes on behind the reference's last token."""
    wanted = case.expected["final"]
    if case.expected["final_includes_prompt"]:
        wanted = wanted[case.expected.get("left_pad", 0) + len(setting.prompt) :]
    ends = [place for place, token in enumerate(wanted) if token in setting.stop_ids]
    wanted = wanted[: ends[0] + 1] if ends else wanted
    ours = list(done.token_ids)
    if setting.cut:
        wanted = wanted[: len(ours)]
    assert ours[: len(wanted)] == wanted, f"{case.id}: the answer"
    assert done.reason != "stop" or len(ours) == len(wanted), f"{case.id}: the answer's length"
