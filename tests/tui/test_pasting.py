"""What a terminal sends as pasted text, in any pieces."""

from textual import events

from dllm_tui.tui.pasting import PasteParser

SENT = "q\x1b[200~a \x1b[31mred\x1b\rnext\x1b[201\x1b[201~\x1b[Aw"
READ = ["q", "a ␛[31mred␛\rnext␛[201", "up", "w"]


def read(*pieces: str) -> list[str]:
    parser = PasteParser()
    found = [event for piece in pieces if piece for event in parser.feed(piece)]
    return [event.text if isinstance(event, events.Paste) else event.key for event in found]


def test_pasted_escapes_are_no_keys_wherever_the_pieces_end():
    assert read(*SENT) == READ
    for start in range(1, len(SENT)):
        for end in (start, start + 1, start + 3):
            assert read(SENT[:start], SENT[start:end], SENT[end:]) == READ
