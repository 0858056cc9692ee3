"""Gives tests the real models of the tiny preset, fetched on first use."""

from functools import cache
from pathlib import Path

from antiphon.models import ModelStore


@cache
def model_path(name: str) -> Path:
    """Returns the verified directory of a model of the catalogue."""
    return ModelStore(report=print).ensure(name)
