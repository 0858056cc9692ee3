"""Real speech, as samples."""

from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

AUDIO_DIR = Path(__file__).parent.parent / "data" / "audio"
LIBRISPEECH = ("1089-134686-0001", "1221-135766-0001", "1221-135766-0002")
SPEECH_FILES = (*LIBRISPEECH, "jfk")


def read_speech(stem: str) -> NDArray[np.float32]:
    """Reads one of the test recordings: mono, 16 kHz."""
    samples, rate_hz = soundfile.read(AUDIO_DIR / f"{stem}.flac", dtype="float32")
    assert rate_hz == 16_000 and samples.ndim == 1
    return samples
