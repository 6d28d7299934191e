"""What holds for every test."""

import os
import shutil

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
