"""Audio as bytes on the wire and as float32 inside: PCM16, G.711 mu-law and A-law, base64.

Audio never travels without its `AudioFormat`: bare bytes are how mu-law ends up read as
PCM, which is a loud hiss. Nothing here resamples; the session does.
"""

import binascii
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np
from numpy.typing import NDArray

from streams.errors import BadRequest

Samples = NDArray[np.float32]
"""Mono audio, shape (samples,), nominal range -1..1."""

_FULL_SCALE = 32_768.0  # of 16-bit linear PCM
_MULAW_BIAS = 0x84  # 33 of the 14-bit scale of G.711 table 2, times 4 for 16 bits
_MULAW_CLIP = 32_635  # the bias must not carry into the sign bit


class Encoding(StrEnum):
    """Says how a sample is written down."""

    PCM16 = "pcm16"  # little-endian, two bytes
    MULAW = "mulaw"
    ALAW = "alaw"


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """Is what bytes of audio mean: their encoding and their rate. Mono always."""

    encoding: Encoding
    rate_hz: int


class AudioDecoder:
    """Turns a stream of bytes, cut anywhere, into samples.

    Attributes:
        format: what the bytes are.
        dropped_bytes: bytes thrown away so far since they were half a sample at an end.
    """

    def __init__(self, audio_format: AudioFormat) -> None:
        self.format = audio_format
        self.dropped_bytes = 0
        self._half = b""  # first byte of a sample whose second has not come yet

    def push(self, data: bytes) -> Samples:
        """Returns the samples that are complete with `data`; an odd byte waits."""
        if self.format.encoding is not Encoding.PCM16:
            return decode_g711(data, self.format.encoding)
        data = self._half + data
        whole = len(data) - len(data) % 2
        self._half = data[whole:]
        linear = np.frombuffer(data, dtype="<i2", count=whole // 2)
        return linear.astype(np.float32) / np.float32(_FULL_SCALE)

    def finish(self) -> None:
        """Ends the stream: a waiting half sample is dropped and counted."""
        self.dropped_bytes += len(self._half)
        self._half = b""


def encode(samples: Samples, encoding: Encoding) -> bytes:
    """Writes samples down, clipped to full scale and rounded; NaN becomes silence."""
    scaled = np.nan_to_num(samples.astype(np.float64) * _FULL_SCALE)
    linear = np.clip(np.rint(scaled), -_FULL_SCALE, _FULL_SCALE - 1).astype("<i2")
    if encoding is Encoding.PCM16:
        return linear.tobytes()
    table = _mulaw_bytes() if encoding is Encoding.MULAW else _alaw_bytes()
    return bytes(table[linear.view("<u2")].tobytes())


def decode_g711(data: bytes, encoding: Encoding) -> Samples:
    """Returns one sample for each byte of mu-law or A-law."""
    table = _mulaw_samples() if encoding is Encoding.MULAW else _alaw_samples()
    return table[np.frombuffer(data, dtype=np.uint8)]


def encode_base64(data: bytes) -> str:
    """Returns standard base64 with padding, without line breaks."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def decode_base64(text: str, *, param: str | None = None) -> bytes:
    """Reads standard base64, padding required.

    Raises:
        BadRequest: another character, or wrong padding. Lenient decoders skip what they
            do not know, which shifts every following sample.
    """
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:  # binascii.Error, or text that is not ASCII
        raise BadRequest(f"The audio is not valid base64: {error}.", param=param) from error


# ITU-T G.711 (11/88). Both laws: sign, 3 bits of segment, 4 bits within the segment.


@cache
def _mulaw_samples() -> Samples:
    """Returns the value of each mu-law byte, shape (256,): G.711 table 2."""
    code = ~np.arange(256) & 0xFF  # all bits are inverted on the line
    segment, step = (code >> 4) & 7, code & 0xF
    magnitude = (((step << 3) + _MULAW_BIAS) << segment) - _MULAW_BIAS
    return _scaled(np.where(code & 0x80, -magnitude, magnitude))


@cache
def _mulaw_bytes() -> NDArray[np.uint8]:
    """Returns the mu-law byte of each 16-bit sample, indexed by it as unsigned."""
    linear = np.arange(65_536, dtype=np.uint16).view(np.int16).astype(np.int32)
    magnitude = np.minimum(np.abs(linear), _MULAW_CLIP) + _MULAW_BIAS
    segment = _top_bit(magnitude) - 7  # the bias sets bit 7, so segment 0 begins there
    code = (segment << 4) | ((magnitude >> (segment + 3)) & 0xF) | np.where(linear < 0, 0x80, 0)
    return (~code & 0xFF).astype(np.uint8)


@cache
def _alaw_samples() -> Samples:
    """Returns the value of each A-law byte, shape (256,): G.711 table 1."""
    code = np.arange(256) ^ 0x55  # even bits are inverted on the line
    segment, step = (code >> 4) & 7, code & 0xF
    base = (step << 4) + 8  # the middle of its step
    magnitude = np.where(segment == 0, base, (base + 0x100) << np.maximum(segment - 1, 0))
    return _scaled(np.where(code & 0x80, magnitude, -magnitude))  # A-law: set bit = positive


@cache
def _alaw_bytes() -> NDArray[np.uint8]:
    """Returns the A-law byte of each 16-bit sample, indexed by it as unsigned."""
    linear = np.arange(65_536, dtype=np.uint16).view(np.int16).astype(np.int32)
    magnitude = np.where(linear < 0, ~linear, linear)  # -1 is the first negative step
    segment = np.maximum(_top_bit(np.maximum(magnitude, 1)) - 7, 0)
    step = (magnitude >> np.maximum(segment + 3, 4)) & 0xF
    code = (segment << 4) | step | np.where(linear < 0, 0, 0x80)
    law: NDArray[np.uint8] = (code ^ 0x55).astype(np.uint8)
    return law


def _top_bit(values: NDArray[np.int32]) -> NDArray[np.int32]:
    """Returns the position of the highest set bit of each positive value."""
    return np.frexp(values.astype(np.float64))[1] - 1


def _scaled(linear: NDArray[np.int_]) -> Samples:
    """Brings 16-bit values to -1..1."""
    return linear.astype(np.float32) / np.float32(_FULL_SCALE)
