import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from dllm_tui.events import BlockStart, Change, Commit, Done, Guess, Pieces, Step
from dllm_tui.tui import palette as look
from dllm_tui.tui.canvas_state import CanvasState
from dllm_tui.tui.cells import ASCII, COLOURLESS, UNICODE
from dllm_tui.tui.flow import Flow
from dllm_tui.tui.lens import ramp_step
from dllm_tui.tui.wrap import Part
from tests.tui.scripted import CODE, STORY, Script
from tests.tui.strategies import runs

MASK_SLOT = " ░░░░"


class Sheet:
    """A canvas and its flow, fed by hand with words for tokens."""

    def __init__(self, width=40, glyphs=UNICODE):
        self.state = CanvasState()
        self.flow = Flow(glyphs, width)
        self.ids = {}
        self.nfe = 0

    def id(self, word, special=False):
        if word not in self.ids:
            self.ids[word] = len(self.ids)
            piece = word if isinstance(word, bytes) else word.encode()
            special_ids = (self.ids[word],) if special else ()
            self.state.fold([Pieces(pieces={self.ids[word]: piece}, special=special_ids)])
        return self.ids[word]

    def step(self, length, *, put=None, guess=None, kind="fill", phase="denoise", confidence=0.9):
        self.nfe += 1
        changes = [
            Change(position=p, token_id=None if w is None else self.id(w), confidence=confidence, kind=kind)
            for p, w in (put or {}).items()
        ]
        guesses = [
            Guess(position=p, token_id=self.id(w), confidence=c) for p, (w, c) in (guess or {}).items()
        ]
        step = Step(phase=phase, nfe=self.nfe, length=length, changes=tuple(changes), guesses=tuple(guesses))
        self.state.fold([step])
        return self.flow.update(self.state)

    def write(self, *words):
        self.step(len(words), put=dict(enumerate(words)))
        self.state.fold([Commit(block=0, start=0, end=len(words))])
        self.flow.update(self.state)
        return self.lines

    @property
    def lines(self):
        return ["".join(span.text for span in line) for line in self.flow.lines]

    def look_at(self, position):
        return self.flow.looks[position]


def picture(flow):
    """Everything that decides what the lines look like."""
    active = flow.active
    return [
        [(span, flow.looks[span.position], span.position in active) for span in line] for line in flow.lines
    ]


@given(events=runs(), width=st.integers(1, 30), glyphs=st.sampled_from([UNICODE, COLOURLESS, ASCII]))
def test_updates_repaint_every_line_that_differs_and_lines_always_fit(events, width, glyphs):
    state, flow = CanvasState(), Flow(glyphs, width)
    before = picture(flow)
    for event in events:
        state.fold([event])
        changed = flow.update(state)
        now = picture(flow)
        different = {y for y in range(len(now)) if y >= len(before) or now[y] != before[y]}
        assert different <= changed
        assert all(sum(span.width for span in line) <= width for line in flow.lines)
        assert all(span.width == cell_len(span.text) for line in flow.lines for span in line)
        before = now


@given(events=runs(), width=st.integers(1, 30), other=st.integers(1, 30))
def test_lines_laid_out_bit_by_bit_are_those_laid_out_at_once(events, width, other):
    state, flow = CanvasState(), Flow(UNICODE, width)
    for event in events:
        state.fold([event])
        flow.update(state)
    bit_by_bit = flow.lines[:]
    flow.resize(other)
    flow.resize(width)
    assert flow.lines == bit_by_bit


@given(events=runs(), width=st.integers(1, 30))
def test_every_position_is_found_where_it_is_drawn(events, width):
    state, flow = CanvasState(), Flow(UNICODE, width)
    state.fold(events)
    flow.update(state)
    for y, line in enumerate(flow.lines):
        x = 0
        for span in line:
            assert y in flow.lines_of(span.position)
            if span.width:
                assert flow.position_at(x, y) == span.position
            x += span.width
        assert flow.position_at(x, y) is None
    for position in range(len(flow.looks)):
        shown_on = [y for y, line in enumerate(flow.lines) if any(s.position == position for s in line)]
        assert shown_on == list(flow.lines_of(position))


@pytest.mark.parametrize("text", [STORY, CODE])
def test_a_finished_text_reads_as_it_was_written(text):
    state, flow = CanvasState(), Flow(UNICODE, 400)
    state.fold(Script(text).events())
    flow.update(state)
    assert flow.text() == text
    flow.resize(40)
    assert flow.text().replace("\n", " ").split() == text.split()


def test_lines_break_between_words_not_between_tokens():
    sheet = Sheet(width=12)
    assert sheet.write("The", " light", "house", " keeper", ",", " a", " man") == [
        "The",
        "lighthouse",
        "keeper, a",
        "man",
    ]


def test_a_word_longer_than_a_line_is_cut_between_tokens_and_then_within_one():
    sheet = Sheet(width=6)
    assert sheet.write("a", " micro", "scop", "ically") == ["a", "micro", "scop", "ically"]
    sheet = Sheet(width=5)
    assert sheet.write("abcdefghijkl", " m") == ["abcde", "fghij", "kl m"]


def test_wide_characters_break_anywhere_and_are_never_halved():
    sheet = Sheet(width=5)
    assert sheet.write("日本", "語", "です") == ["日本", "語", "です"] or sheet.lines == [
        "日本",
        "語です"[:2],
        "す",
    ]
    assert all(cell_len(line) <= 5 for line in sheet.lines)
    assert "".join(sheet.lines) == "日本語です"


def test_newlines_are_marked_and_break_the_line():
    sheet = Sheet()
    assert sheet.write("a", ":\n\n", "    b") == ["a:↵", "↵", "    b"]
    marks = [span for line in sheet.flow.lines for span in line if span.part is Part.MARK]
    assert [span.position for span in marks] == [1, 1]
    assert sheet.flow.text() == "a:\n\n    b"


def test_the_mark_of_a_newline_never_takes_a_line_of_its_own():
    assert Sheet(width=3).write("abc", "\n", "d") == ["abc", "d"]


def test_spaces_at_a_soft_break_are_not_drawn_but_indentation_is():
    assert Sheet(width=4).write("abcd", "  ", " ef") == ["abcd", "ef"]
    assert Sheet(width=9).write("a\n", "    ", "b") == ["a↵", "    b"]


def test_control_tokens_are_hidden():
    sheet = Sheet()
    sheet.id("<|im_end|>", special=True)
    assert sheet.write("done", ".", "<|im_end|>") == ["done."]


def test_a_token_without_known_bytes_shows_as_broken():
    sheet = Sheet()
    sheet.state.fold([Step(phase="denoise", nfe=1, length=1, changes=(Change(position=0, token_id=77),))])
    sheet.flow.update(sheet.state)
    assert sheet.lines == ["▯"]


def test_characters_that_span_tokens_come_together_when_both_are_there():
    start, end = "🎉".encode()[:2], "🎉".encode()[2:]
    sheet = Sheet()
    sheet.step(3, put={0: "a", 1: start})
    assert sheet.lines[0].startswith("a▯")
    sheet.step(3, put={2: end})
    sheet.state.fold([Done(reason="stop")])
    sheet.flow.update(sheet.state)
    assert sheet.lines == ["a🎉"]
    sheet.step(3, put={1: None}, kind="remask")
    sheet.step(3)
    assert sheet.lines[0].endswith("▯")


def test_masks_are_slots_and_guesses_stand_in_them():
    sheet = Sheet()
    sheet.step(3, guess={0: (" He", 0.5), 1: (" noise", 0.02), 2: (" compassionate", 0.3)})
    assert sheet.lines == [" He░░" + MASK_SLOT + " compassionate"]
    assert look.GUESS <= sheet.look_at(0) < look.SETTLED
    assert sheet.look_at(1) == look.MASK


@pytest.mark.parametrize(
    ("glyphs", "shown"), [(COLOURLESS, " ░He░ ░lighthouse░░ing░"), (ASCII, " <He> <lighthouse><ing>")]
)
def test_without_colours_a_guess_stands_between_marks_and_what_is_committed_does_not(glyphs, shown):
    sheet = Sheet(glyphs=glyphs)
    sheet.step(3, guess={0: (" He", 0.9), 1: (" lighthouse", 0.9), 2: ("ing", 0.9)})
    assert sheet.lines == [shown]
    sheet.step(4, put={3: " end"})
    sheet.step(4, put={0: " He", 1: " lighthouse"}, guess={2: ("ing", 0.9)})
    (line,) = sheet.lines
    assert line == " He   lighthouse  " + shown[-5:] + " end", "and nothing decided moves"


def test_without_colours_a_line_that_begins_with_a_guess_keeps_its_width():
    sheet = Sheet(width=12, glyphs=COLOURLESS)
    sheet.step(4, put={0: "lighthouse", 2: " x"}, guess={1: (" a", 0.9)})
    before = sheet.lines[1]
    sheet.step(4, put={1: " a"})
    assert before.startswith("░a░")
    assert sheet.lines[1].index("x") == before.index("x")


@pytest.mark.parametrize("glyphs", [COLOURLESS, ASCII])
def test_without_colours_noise_is_a_guess_too(glyphs):
    sheet = Sheet(glyphs=glyphs)
    sheet.step(2, put={0: " sea"}, kind="renoise")
    assert sheet.lines[0].startswith(" sea".replace("sea", "sea".join(glyphs.guess)))


def test_a_surer_guess_is_drawn_stronger():
    sheet = Sheet()
    sheet.step(2, guess={0: (" a", 0.2), 1: (" b", 0.9)})
    assert sheet.look_at(0) < sheet.look_at(1)


def test_a_slot_grows_at_once_and_keeps_its_width():
    sheet = Sheet(width=80)
    sheet.step(2, guess={0: (" lighthouse", 0.5)}, put={1: " end"})
    assert sheet.lines == [" lighthouse end"]
    sheet.step(2, guess={0: (" a", 0.5)})
    assert sheet.lines == [" a" + "░" * 9 + " end"]
    sheet.step(2, put={0: " a"})
    assert sheet.lines == [" a" + " " * 9 + " end"], "what is decided to its right stays where it is"
    sheet.state.fold([Commit(block=0, start=0, end=2)])
    sheet.flow.update(sheet.state)
    assert sheet.lines == [" a end"]


def test_a_slot_shrinks_to_its_token_when_only_masks_stand_to_its_right():
    sheet = Sheet(width=80)
    sheet.step(3, guess={0: (" lighthouse", 0.5), 1: (" b", 0.5)})
    sheet.step(3, put={0: " a"}, guess={1: (" b", 0.5)})
    assert sheet.lines == [" a b░░" + "░" + MASK_SLOT]


def test_what_changed_looks_changed():
    sheet = Sheet()
    sheet.step(2, put={0: "a"}, confidence=1.0)
    assert sheet.look_at(0) == look.FRESH + 7
    sheet.step(2, put={1: "b"}, confidence=0.5)
    assert sheet.look_at(0) == look.SETTLED + 7
    assert sheet.look_at(1) == look.FRESH + ramp_step(0.5)
    sheet.step(2, put={0: "c"}, kind="edit")
    assert sheet.look_at(0) == look.CHANGED
    sheet.step(2)
    assert look.EDITED <= sheet.look_at(0) < look.CHANGED


def test_what_was_taken_back_is_shown_for_one_step_also_past_the_end():
    sheet = Sheet()
    sheet.step(3, put={0: "keep", 1: " this", 2: " not"})
    sheet.step(2, put={1: None}, kind="remask", phase="commit")
    assert sheet.look_at(1) == sheet.look_at(2) == look.GONE
    assert sheet.lines == ["keep this not"]
    sheet.step(2)
    assert sheet.lines == ["keep" + MASK_SLOT]


def test_every_other_block_has_the_other_tint():
    sheet = Sheet()
    sheet.state.fold([BlockStart(block=0, start=0, end=1)])
    sheet.step(1, put={0: "a"})
    sheet.state.fold([Commit(block=0, start=0, end=1), BlockStart(block=1, start=1, end=2)])
    sheet.step(2, put={1: "b"})
    assert sheet.look_at(0) // look.LOOKS == 0
    assert sheet.look_at(1) // look.LOOKS == 1


def test_a_text_that_stands_still_repaints_nothing():
    sheet = Sheet()
    sheet.write("a", " b")
    assert sheet.flow.update(sheet.state) == set()


def test_only_the_lines_of_the_active_block_are_repainted():
    state, flow = CanvasState(), Flow(UNICODE, 30)
    script = Script(STORY + STORY)
    events = script.events(block_size=8)
    half = len(events) // 2
    state.fold(events[:half])
    flow.update(state)
    for event in events[half : half + 20]:
        state.fold([event])
        first = flow.lines_of(max(0, state.frozen - 8)).start
        assert all(y >= first - 1 for y in flow.update(state))
