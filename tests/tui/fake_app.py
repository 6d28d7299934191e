"""The app around the fake host, for tests that need a real terminal: ``python -m tests.tui.fake_app LOG``."""

import os
import signal
import sys
import threading
from pathlib import Path

from dllm_tui.settings import Settings
from dllm_tui.tui.base import run
from tests.fakes import FakeHost
from tests.tui.app_helpers import make_app

if __name__ == "__main__":
    settings = Settings(plain="plain" in sys.argv)
    app = make_app(FakeHost(pace=0.02), settings=settings, environment=dict(os.environ))
    if "noise" in sys.argv:
        threading.Timer(1.0, os.write, (2, b"native noise\n")).start()
    if "fault" in sys.argv:
        threading.Timer(1.0, app.call_later, (divmod, 1, 0)).start()
    code = run(app, Path(sys.argv[1]))
    signal.raise_signal(signal.SIGCONT)  # a process that ends slowly may be stopped and continued meanwhile
    sys.exit(code)
