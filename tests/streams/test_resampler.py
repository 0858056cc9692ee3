from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.base import Samples
from streams.errors import BadRequest
from streams.resampler import MAX_RATE_HZ, MIN_RATE_HZ, StreamResampler

RATES = (8_000, 16_000, 22_050, 24_000, 44_100, 48_000)


def tone(rate_hz: int, seconds: float = 0.5) -> Samples:
    times_s = np.arange(round(seconds * rate_hz)) / rate_hz
    return (0.5 * np.sin(2 * np.pi * 440 * times_s)).astype(np.float32)


def resampled(samples: Samples, in_hz: int, out_hz: int, cuts: Sequence[int] = ()) -> Samples:
    """Pushes the audio in pieces that end at `cuts`, and flushes."""
    resampler = StreamResampler(in_hz, out_hz)
    pieces = [resampler.push(piece) for piece in np.split(samples, sorted(cuts))]
    return np.concatenate([*pieces, resampler.flush()])


@given(
    in_hz=st.sampled_from(RATES),
    out_hz=st.sampled_from(RATES),
    parts=st.lists(st.floats(0, 1), max_size=12),
)
@settings(max_examples=60)
def test_any_chunking_gives_the_same_samples(in_hz: int, out_hz: int, parts: list[float]) -> None:
    samples = tone(in_hz)
    cuts = [round(part * len(samples)) for part in parts]
    whole = resampled(samples, in_hz, out_hz)
    np.testing.assert_array_equal(resampled(samples, in_hz, out_hz, cuts), whole)


@pytest.mark.parametrize("in_hz", RATES)
@pytest.mark.parametrize("out_hz", RATES)
def test_tone_keeps_its_length_and_its_shape(in_hz: int, out_hz: int) -> None:
    out = resampled(tone(in_hz), in_hz, out_hz)
    wanted = tone(out_hz)
    assert abs(len(out) - len(wanted)) <= 1
    middle = slice(out_hz // 10, out_hz * 4 // 10)  # away from the filter's ends
    np.testing.assert_allclose(out[middle], wanted[middle], atol=1e-3)


def test_equal_rates_pass_samples_through_untouched_and_hold_nothing_back() -> None:
    resampler = StreamResampler(16_000, 16_000)
    samples = tone(16_000)
    assert resampler.push(samples) is samples
    assert len(resampler.flush()) == 0


def test_flush_starts_anew_so_that_the_next_stream_hears_nothing_of_the_last() -> None:
    resampler = StreamResampler(8_000, 16_000)
    resampler.push(tone(8_000))
    resampler.flush()
    silence = np.concatenate([resampler.push(np.zeros(4_000, np.float32)), resampler.flush()])
    assert len(silence) == 8_000
    assert not silence.any()


def test_flush_of_an_untouched_stream_gives_nothing() -> None:
    assert len(StreamResampler(8_000, 16_000).flush()) == 0


def test_empty_push_gives_nothing_and_loses_nothing() -> None:
    resampler = StreamResampler(24_000, 16_000)
    empty = np.zeros(0, np.float32)
    assert len(resampler.push(empty)) == 0
    first = resampler.push(tone(24_000))
    assert len(resampler.push(empty)) == 0
    out = np.concatenate([first, resampler.flush()])
    np.testing.assert_array_equal(out, resampled(tone(24_000), 24_000, 16_000))


@pytest.mark.parametrize("rate_hz", [-1, 0, 1, MIN_RATE_HZ - 1, MAX_RATE_HZ + 1, 10**9])
def test_rate_out_of_range_is_refused_on_either_side(rate_hz: int) -> None:
    with pytest.raises(BadRequest, match=f"{rate_hz} Hz"):
        StreamResampler(rate_hz, 16_000)
    with pytest.raises(BadRequest, match=f"{rate_hz} Hz"):
        StreamResampler(16_000, rate_hz)
