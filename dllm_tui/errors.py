"""Failures that people are told about: what is wrong, and what to do."""


class DllmError(Exception):
    """Something failed in a way that a person can understand and mend.

    Args:
        message: what is wrong and where, in one or two sentences.
        hint: what to do about it; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class StoreError(DllmError):
    """Weights could not be fetched or kept."""


class CheckpointError(DllmError):
    """A file of a model is broken, incomplete, or of a kind that isn't supported."""


class TraceError(DllmError):
    """A trace can't be written, or what was read is no trace that this version knows."""


class EngineError(DllmError):
    """A request that the engine can't carry out: prompt, knobs, device."""


class ExportError(DllmError):
    """A picture, a film or a text of a session can't be made or written."""
