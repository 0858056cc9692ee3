"""Settings that hold for every test."""

from hypothesis import settings

# Tests share few cores with each other and with real models: time says nothing there.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
