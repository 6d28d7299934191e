"""``python -m dllm_tui`` is ``dllm-chat``."""

from dllm_tui.cli import main

main()
