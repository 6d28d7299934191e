import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllm_tui.events import BlockStart, Canvas, Change, Commit, Done, Guess, Pieces, Step
from dllm_tui.tui.canvas_state import CanvasState
from tests.tui.scripted import STORY, Script
from tests.tui.strategies import runs


def denoise(length, *changes, guesses=(), nfe=1, phase="denoise"):
    return Step(phase=phase, nfe=nfe, length=length, changes=changes, guesses=tuple(guesses))


def fill(position, token_id, confidence=0.9, kind="fill"):
    return Change(position=position, token_id=token_id, confidence=confidence, kind=kind)


@given(events=runs())
def test_tokens_agree_with_the_canvas_of_the_events(events):
    state, canvas = CanvasState(), Canvas()
    for event in events:
        state.fold([event])
        if isinstance(event, Step):
            canvas.apply(event)
            assert state.tokens == canvas.cells
            assert state.confidences == canvas.confidences
            assert state.decided == sum(cell is not None for cell in canvas.cells)
    assert [state.cell(i).token_id for i in range(len(state))] == canvas.cells


@given(events=runs(), data=st.data())
def test_a_state_can_be_had_at_any_event(events, data):
    count = data.draw(st.integers(0, len(events)))
    piecewise = CanvasState()
    for event in events[:count]:
        piecewise.fold([event])
        if data.draw(st.booleans()):
            piecewise.take_dirty()
    at_once = CanvasState.at(events, count)
    assert [at_once.cell(i) for i in range(len(at_once))] == [
        piecewise.cell(i) for i in range(len(piecewise))
    ]
    assert (at_once.dropped, at_once.active) == (piecewise.dropped, piecewise.active)


@given(events=runs())
def test_every_cell_that_changed_is_dirty(events):
    state = CanvasState()
    before = {}
    for event in events:
        state.fold([event])
        now = {position: state.cell(position) for position in range(len(state))}
        different = {p for p in before.keys() | now.keys() if before.get(p) != now.get(p)}
        assert different <= state.take_dirty()
        before = now


def test_what_a_step_changed_is_fresh_until_the_next_denoising_step():
    state = CanvasState()
    state.fold([denoise(4, fill(0, 1)), denoise(4, fill(1, 2), nfe=2)])
    assert [state.cell(i).fresh for i in range(4)] == [False, True, False, False]
    state.fold([denoise(6, fill(4, 3), nfe=3, phase="commit")])
    assert [state.cell(i).fresh for i in range(6)] == [False, True, False, False, True, False]
    state.fold([denoise(6, nfe=4)])
    assert not any(state.cell(i).fresh for i in range(6))


def test_cells_know_when_and_how_they_were_decided():
    state = CanvasState()
    guess = Guess(position=1, token_id=7, confidence=0.3)
    state.fold([BlockStart(block=2, start=0, end=4), denoise(4, fill(0, 1, 0.8), guesses=[guess], nfe=5)])
    cell = state.cell(0)
    assert (cell.token_id, cell.confidence, cell.kind, cell.nfe, cell.block) == (1, 0.8, "fill", 5, 2)
    assert cell.guess is None
    assert state.cell(1).guess == guess
    assert state.cell(1).kind is None


def test_a_fill_over_a_token_is_an_edit():
    state = CanvasState()
    state.fold([denoise(1, fill(0, 1)), denoise(1, fill(0, 2), nfe=2)])
    assert state.cell(0).kind == "edit"


def test_a_token_that_is_taken_back_is_remembered_for_one_step():
    state = CanvasState()
    state.fold([denoise(3, fill(0, 1), fill(1, 2), fill(2, 3))])
    state.fold([denoise(2, fill(1, None, kind="remask"), nfe=2, phase="commit")])
    assert state.dropped == {1: 2, 2: 3}
    assert state.cell(1).dropped == 2
    state.fold([denoise(2, nfe=3)])
    assert state.dropped == {}


def test_a_committed_block_is_frozen_and_guesses_end_with_it():
    state = CanvasState()
    state.fold(
        [
            BlockStart(block=0, start=0, end=2),
            denoise(2, fill(0, 1), guesses=[Guess(position=1, token_id=2, confidence=0.5)]),
        ]
    )
    assert state.guesses
    state.fold(
        [denoise(2, fill(1, 2), nfe=2), denoise(2, nfe=3, phase="commit"), Commit(block=0, start=0, end=2)]
    )
    assert not state.guesses
    assert state.cell(1).frozen
    state.fold([BlockStart(block=1, start=2, end=4), denoise(4, nfe=4)])
    assert [state.cell(i).block for i in range(4)] == [0, 0, 1, 1]
    assert [state.cell(i).frozen for i in range(4)] == [True, True, False, False]
    assert state.active == range(2, 4)


def test_a_run_that_was_stopped_keeps_its_masks_and_guesses():
    events = Script(STORY).events()
    step = next(i for i, event in enumerate(events) if isinstance(event, Step) and event.guesses)
    state = CanvasState.at(events, step + 1)
    guesses = dict(state.guesses)
    state.fold([Done(reason="cancelled")])
    assert state.guesses == guesses
    assert None in state.tokens
    assert not state.active


def test_pieces_of_tokens_add_up():
    state = CanvasState()
    state.fold([Pieces(pieces={1: b"a"}), Pieces(pieces={2: b"b"}, special=(2,))])
    assert (state.pieces, state.special) == ({1: b"a", 2: b"b"}, {2})


def test_a_change_outside_the_canvas_is_an_error():
    with pytest.raises(ValueError, match="position 3 is outside the canvas of 2 cells"):
        CanvasState().fold([denoise(2, fill(3, 1))])
    with pytest.raises(IndexError, match="outside"):
        CanvasState().cell(0)
