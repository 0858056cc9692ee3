"""Changes the sample rate of a stream without a seam between its chunks (soxr)."""

import numpy as np
import soxr  # type: ignore[import-untyped]  # it ships no stubs

from engines.base import Samples
from streams.errors import BadRequest

MIN_RATE_HZ = 8_000
MAX_RATE_HZ = 48_000


class StreamResampler:
    """Resamples mono float32 audio; the filter's state is kept from chunk to chunk.

    Raises:
        BadRequest: a rate is outside 8,000..48,000 Hz.
    """

    def __init__(self, in_hz: int, out_hz: int) -> None:
        for rate in (in_hz, out_hz):
            if not MIN_RATE_HZ <= rate <= MAX_RATE_HZ:
                raise BadRequest(
                    f"sample rate {rate} Hz is outside {MIN_RATE_HZ}..{MAX_RATE_HZ} Hz"
                )
        self.in_hz = in_hz
        self.out_hz = out_hz
        self._stream = None if in_hz == out_hz else self._new_stream()

    def _new_stream(self) -> "soxr.ResampleStream":
        return soxr.ResampleStream(self.in_hz, self.out_hz, 1, dtype="float32")

    def push(self, samples: Samples) -> Samples:
        """Returns what can be told so far; the filter holds a few milliseconds back."""
        if self._stream is None or not len(samples):
            return samples
        return np.asarray(self._stream.resample_chunk(samples), dtype=np.float32)

    def flush(self) -> Samples:
        """Returns what the filter held back and starts anew."""
        if self._stream is None:
            return np.zeros(0, np.float32)
        tail = self._stream.resample_chunk(np.zeros(0, np.float32), last=True)
        self._stream = self._new_stream()
        return np.asarray(tail, dtype=np.float32)
