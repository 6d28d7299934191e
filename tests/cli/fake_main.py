"""``dllm-chat`` with a model that answers with what it was asked; run it with ``-m tests.cli.fake_main``.

``FAKE_ANSWER`` is another answer; ``FAKE_DELAY`` are seconds before each of its words.
"""

import os
import time
from collections.abc import Sequence
from typing import Any

from dllm_tui.cli import host, main
from dllm_tui.ports import Message
from tests.session.fake import FakeHost


class Slow:
    """In place of a semaphore: takes its time."""

    def acquire(self) -> None:
        time.sleep(float(os.environ.get("FAKE_DELAY", "0")))


def answer(messages: Sequence[Message]) -> str:
    if messages[-1].text == "fail":
        raise MemoryError("Out of memory.")
    return os.environ.get("FAKE_ANSWER") or f"<{messages[-1].text}>"


def new_host(*_: Any, **__: Any) -> FakeHost:
    fake = FakeHost(answer)
    fake.may_step = Slow()  # type: ignore[assignment]
    return fake


host.new_host = new_host
main()
