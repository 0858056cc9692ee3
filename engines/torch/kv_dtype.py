"""How a cache may hold keys and values."""

from enum import StrEnum


class KvDtype(StrEnum):
    """Names how keys and values are held; int8 and fp8 carry a float32 scale a head."""

    MODEL = "model"  # as the model computes
    BFLOAT16 = "bfloat16"
    INT8 = "int8"
    FP8 = "fp8"  # e4m3
