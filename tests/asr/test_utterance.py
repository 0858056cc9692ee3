import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from asr.utterance import UtteranceBuffer


def ramp(start: int, end: int) -> np.ndarray:
    return np.arange(start, end, dtype=np.float32)


def test_slices_are_found_by_absolute_sample_number():
    buffer = UtteranceBuffer(max_s=10)
    buffer.append(ramp(0, 100))
    buffer.append(ramp(100, 250))
    assert buffer.received == 250
    np.testing.assert_array_equal(buffer.slice(90, 110), ramp(90, 110))


def test_a_slice_beyond_what_is_held_is_clamped():
    buffer = UtteranceBuffer(max_s=10)
    buffer.append(ramp(0, 100))
    buffer.discard_before(40)
    np.testing.assert_array_equal(buffer.slice(0, 1000), ramp(40, 100))
    assert len(buffer.slice(100, 200)) == 0
    assert len(buffer.slice(60, 50)) == 0


def test_the_oldest_falls_out_at_the_bound_and_is_counted():
    buffer = UtteranceBuffer(max_s=0.01)  # 160 samples
    assert buffer.append(ramp(0, 100)) == 0
    assert buffer.append(ramp(100, 200)) == 40
    assert (buffer.start, buffer.received, buffer.dropped) == (40, 200, 40)
    np.testing.assert_array_equal(buffer.slice(0, 200), ramp(40, 200))


def test_one_append_larger_than_the_bound_keeps_its_end():
    buffer = UtteranceBuffer(max_s=0.01)
    buffer.append(ramp(0, 10))
    assert buffer.append(ramp(10, 1000)) == 840
    np.testing.assert_array_equal(buffer.slice(0, 1000), ramp(840, 1000))


def test_discarding_on_request_is_not_counted_as_dropped():
    buffer = UtteranceBuffer(max_s=10)
    buffer.append(ramp(0, 100))
    buffer.discard_before(60)
    buffer.discard_before(20)
    assert (buffer.start, buffer.dropped) == (60, 0)
    buffer.discard_before(500)
    assert buffer.start == 100


def test_a_slice_is_a_copy_that_later_audio_does_not_change():
    buffer = UtteranceBuffer(max_s=0.01)
    buffer.append(ramp(0, 160))
    piece = buffer.slice(0, 160)
    buffer.append(ramp(160, 320))
    np.testing.assert_array_equal(piece, ramp(0, 160))


def test_an_hour_of_audio_with_discards_needs_no_more_memory_than_a_minute():
    buffer = UtteranceBuffer(max_s=30)
    peaks = []
    for second in range(3600):
        buffer.append(np.zeros(16_000, dtype=np.float32))
        if second % 10 == 9:
            buffer.discard_before(buffer.received - 8_000)
        if second in (59, 3599):
            peaks.append(buffer.allocated_bytes)
    assert peaks[0] == peaks[1]
    assert peaks[1] <= 4 * 2 * 16_000


def test_memory_stays_within_twice_the_bound_without_discards():
    buffer = UtteranceBuffer(max_s=2)
    for _ in range(1000):
        buffer.append(np.zeros(320, dtype=np.float32))
        assert buffer.allocated_bytes <= 2 * 4 * 32_000 + 4 * 640


@given(st.lists(st.tuples(st.integers(0, 400), st.none() | st.integers(0, 3000)), max_size=40))
def test_what_is_held_is_always_the_newest_of_what_came(steps):
    buffer = UtteranceBuffer(max_s=0.05)  # 800 samples
    start = count = 0
    for size, discard in steps:
        buffer.append(ramp(count, count + size))
        count += size
        start = max(start, count - 800)
        if discard is not None:
            buffer.discard_before(discard)
            start = max(start, min(discard, count))
        assert (buffer.start, buffer.received) == (start, count)
        np.testing.assert_array_equal(buffer.slice(0, count), ramp(start, count))
