"""Traces: write, read, and lay out in time.

A trace is UTF-8 text, one JSON object (an event of :mod:`dllm_tui.events`) a line:

- The first line is the ``header``; a later one begins a new sitting, or says that the model changed.
- A ``turn`` is a message; with ``replaces`` the conversation was cut before that turn first.
- ``run`` opens a generation, ``done`` ends it; what lies between names it by its number, which occurs
  once in a file. Runs may overlap.
- The bytes of a token are there before its id is, once under each header.
- A last line without its end was cut off and counts for nothing.
"""

SUFFIX = ".jsonl"
"""How the name of a trace file ends."""

MAX_LINE = 8 << 20
"""Longest line, in bytes: far above what any run writes, and little enough to hold in memory."""
