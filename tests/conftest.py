"""What holds for every test."""

import os
import shutil
import signal
import threading

import textual._wait
from hypothesis import HealthCheck, settings

# Triton looks at this when it is imported, which torch may do in any test. With a GPU, kernels are compiled.
if not shutil.which("nvidia-smi"):
    os.environ["TRITON_INTERPRET"] = "1"

# On a busy machine a single example may take long; the tests' own timeout is enough.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Workers of pytest-xdist inherit these, and whatever runs in a terminal of its own would believe them.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

# Pilot waits until the process rests, and looks 50 times a second: tests of the interface would mostly sleep.
textual._wait.SLEEP_GRANULARITY = 0.004
textual._wait.SLEEP_IDLE = 0.0006

# What runs in the background may have been started deaf to Ctrl+C, and all that tests start would be, too.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
