from hypothesis import given
from hypothesis import strategies as st

from protocols.telephony.reorder import RESYNC_FRAMES, WINDOW_FRAMES, ReorderBuffer


def through(numbers: list[int]) -> list[int]:
    buffer: ReorderBuffer[int] = ReorderBuffer()
    released = [frame for number in numbers for frame in buffer.push(number, number)]
    return released + buffer.flush()


def test_frames_in_order_pass_at_once() -> None:
    buffer: ReorderBuffer[str] = ReorderBuffer()
    assert [buffer.push(number, str(number)) for number in (7, 8, 9)] == [["7"], ["8"], ["9"]]


def test_swapped_frames_come_out_in_order() -> None:
    assert through([1, 3, 2, 4]) == [1, 2, 3, 4]


def test_frame_that_comes_twice_or_too_late_is_dropped() -> None:
    buffer: ReorderBuffer[int] = ReorderBuffer()
    for number in (1, 2, 2, 1):
        buffer.push(number, number)
    assert buffer.dropped == 2


def test_lost_frame_holds_the_others_no_longer_than_the_window() -> None:
    buffer: ReorderBuffer[int] = ReorderBuffer()
    buffer.push(1, 1)
    waiting = range(3, 3 + WINDOW_FRAMES)
    assert [buffer.push(number, number) for number in waiting] == [[]] * WINDOW_FRAMES
    assert buffer.push(3 + WINDOW_FRAMES, 0)[:2] == [3, 4]
    assert buffer.lost == 1


def test_sender_that_counts_anew_is_heard_again() -> None:
    buffer: ReorderBuffer[int] = ReorderBuffer()
    buffer.push(10_000, 0)
    heard = [buffer.push(number, number) for number in range(1, RESYNC_FRAMES + 4)]
    assert [frame for frames in heard for frame in frames] == [51, 52, 53]


@given(st.lists(st.integers(0, 60), unique=True))
def test_what_comes_out_rises_and_is_never_invented(numbers: list[int]) -> None:
    released = through(numbers)
    assert released == sorted(set(released))
    assert set(released) <= set(numbers)
