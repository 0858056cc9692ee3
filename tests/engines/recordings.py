"""Speech samples that the tests of this folder share."""

from pathlib import Path

import soundfile
import torch

from engines.torch.models.silero_vad import CHUNK_SAMPLES

_AUDIO = Path(__file__).parents[1] / "data" / "audio"


def librispeech_chunks() -> torch.Tensor:
    """Returns whole chunks of LibriSpeech 1089-134686-0001, shape (207, 512), at 16 kHz."""
    samples, rate_hz = soundfile.read(_AUDIO / "1089-134686-0001.flac", dtype="float32")
    assert rate_hz == 16_000
    whole = len(samples) // CHUNK_SAMPLES * CHUNK_SAMPLES
    return torch.from_numpy(samples[:whole]).view(-1, CHUNK_SAMPLES)
