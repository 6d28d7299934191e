"""How the C library's heap behaves while a model is loaded."""

import ctypes
from collections.abc import Generator
from contextlib import contextmanager

MMAP_THRESHOLD = -3
"""glibc's name for the size from which a block gets pages of its own (``M_MMAP_THRESHOLD``)."""


@contextmanager
def large_blocks_returned() -> Generator[None]:
    """Give blocks of a megabyte and more back to the system as soon as they are free.

    glibc keeps them for later, and among weights that stay, the gaps of tensors that were converted and
    dropped add up to a fifth of a model. Afterwards it is back at what its own adaptation tends to: a
    forward's activations are better kept. Where the C library knows no such setting, nothing happens.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        yield
        return
    set_option(MMAP_THRESHOLD, 1 << 20)
    try:
        yield
    finally:
        set_option(MMAP_THRESHOLD, 32 << 20)
