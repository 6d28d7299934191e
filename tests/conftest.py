"""What holds for every test."""

from hypothesis import settings

# On a busy machine a single example may take long; the tests' own timeout is enough.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
