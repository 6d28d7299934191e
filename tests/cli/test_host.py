"""The commands' own host: only what is meant for people comes out on stderr."""

import subprocess
import sys

CODE = """
import logging, warnings
from dllm_tui.cli.host import new_host
from dllm_tui.settings import Settings
new_host(Settings(), recorded=False)
logging.getLogger("a.library").warning("for developers")
warnings.warn("for developers")
logging.getLogger("a.library").error("for people")
"""


def test_what_libraries_warn_of_is_not_shown():
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == "for people\n"


ABSENT = """
import sys, time
from dllm_tui.cli.host import new_host
from dllm_tui.settings import Settings
host = new_host(Settings(), recorded=False)
host.load("/there/is/none")
while host.state.phase != "failed":
    time.sleep(0.01)
assert "torch" not in sys.modules
print(host.state.error.message)
"""


def test_a_path_that_is_none_is_refused_before_torch_is_loaded():
    done = subprocess.run(
        [sys.executable, "-c", ABSENT], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "There is no /there/is/none.\n"
