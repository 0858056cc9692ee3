"""Reads audio files of the usual formats in blocks of 16 kHz mono.

libsndfile decodes WAV, FLAC, MP3 and Ogg (and more); soxr resamples with its state kept
across blocks. Whatever is wrong with a file is said in one sentence, before or while it is
read: a file that ends too early is refused rather than transcribed in part.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile  # type: ignore[import-untyped]  # ships no types
import soxr  # type: ignore[import-untyped]  # ships no types

from asr.config import SAMPLE_RATE_HZ
from asr.mp3_frames import looks_like_mp3, scan_mp3
from engines.base import Samples
from engines.errors import BadRequest, NotFound

_BLOCK_S = 10.0
_UNKNOWN_FRAMES = 2**62  # libsndfile gives the largest count where a stream tells no length


@dataclass(frozen=True, slots=True)
class AudioInfo:
    """Is what a file says of itself; the duration is None where a stream does not tell."""

    format: str
    rate_hz: int
    channels: int
    duration_s: float | None


def inspect_audio(path: Path) -> AudioInfo:
    """Opens a file and checks that there is something in it.

    Raises:
        NotFound: there is no such file.
        BadRequest: it is not audio, is empty, or is an MP3 that ends too early.
    """
    _check_file(path)
    _check_mp3(path)
    with _open(path) as file:
        if file.frames == 0:
            raise BadRequest(f"{path.name} holds no audio")
        duration_s = file.frames / file.samplerate if file.frames < _UNKNOWN_FRAMES else None
        return AudioInfo(file.format, file.samplerate, file.channels, duration_s)


def read_audio(path: Path, block_s: float = _BLOCK_S) -> Iterator[Samples]:
    """Yields the file as 16 kHz mono, shape (samples,), about `block_s` at a time.

    Channels are averaged. Reading blocks: call it off the event loop.

    Raises:
        NotFound, BadRequest: as `inspect_audio`; also, at the end, where fewer samples
            came than the file declares, and where a sample is not a finite number.
        A WAV is read as far as it goes, since recorders often leave its length wrong.
    """
    inspect_audio(path)
    with _open(path) as file:
        resampler = _Resampler(file.samplerate)
        frames = max(1, round(block_s * file.samplerate))
        count = 0
        while len(block := _read(file, frames, path)):
            count += len(block)
            mono = block.mean(axis=1, dtype=np.float32)
            if not np.isfinite(mono).all():
                raise BadRequest(f"{path.name} holds samples that are not numbers")
            yield from resampler.push(mono.clip(-1.0, 1.0))
        if not count:  # a stream of unknown length
            raise BadRequest(f"{path.name} holds no audio")
        # The length of an MP3 may be an estimate; its frames have been counted above.
        if file.format != "MP3" and count < file.frames < _UNKNOWN_FRAMES:
            raise BadRequest(f"{path.name} ends before its declared length")
        yield from resampler.finish()


class _Resampler:
    """Brings blocks of any rate to 16 kHz; yields nothing where a block gave no sample."""

    def __init__(self, rate_hz: int) -> None:
        self._stream = (
            None
            if rate_hz == SAMPLE_RATE_HZ
            else soxr.ResampleStream(rate_hz, SAMPLE_RATE_HZ, 1, dtype="float32")
        )

    def push(self, samples: Samples, last: bool = False) -> Iterator[Samples]:
        out = samples if self._stream is None else self._stream.resample_chunk(samples, last)
        if len(out):
            yield np.ascontiguousarray(out, dtype=np.float32)

    def finish(self) -> Iterator[Samples]:
        return self.push(np.zeros(0, dtype=np.float32), last=True)


def _check_file(path: Path) -> None:
    if not path.exists():
        raise NotFound(f"there is no file {path}")
    if not path.is_file():
        raise BadRequest(f"{path} is not a file")
    if path.stat().st_size == 0:
        raise BadRequest(f"{path.name} is empty")


def _open(path: Path) -> soundfile.SoundFile:
    try:
        return soundfile.SoundFile(path)
    except (soundfile.SoundFileError, RuntimeError, TypeError) as error:
        raise BadRequest(f"{path.name} is not audio in a known format") from error


def _read(file: soundfile.SoundFile, frames: int, path: Path) -> Samples:
    try:
        block: Samples = file.read(frames, dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, RuntimeError) as error:
        raise BadRequest(f"{path.name} is damaged and cannot be decoded") from error
    return block


def _check_mp3(path: Path) -> None:
    # Before libsndfile sees it: its MP3 decoder writes warnings to stderr by itself.
    with path.open("rb") as file:
        if not looks_like_mp3(file.read(4)):
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if scan_mp3(data).truncated:
                raise BadRequest(f"{path.name} is cut off: its last part is missing")
