import asyncio

import numpy as np

from streams.events import AudioCleared, AudioDelta, SessionOutput, TextDelta
from streams.outbox import EVENT_BYTES, Outbox, size_bytes
from tests.support.clock import ManualClock, settle


def audio(samples: int, response_id: str = "r1") -> AudioDelta:
    return AudioDelta(response_id, "a1", np.zeros(samples, np.float32), 16_000, 0)


def text(words: str) -> TextDelta:
    return TextDelta("r1", "a1", words)


def outbox(limit_bytes: int = 10_000) -> Outbox:
    return Outbox(limit_bytes, ManualClock())


async def drained(box: Outbox) -> list[SessionOutput]:
    return [event async for event in box.drain()]


def test_audio_counts_by_its_bytes_and_everything_by_its_envelope() -> None:
    assert size_bytes(text("hello")) == EVENT_BYTES
    assert size_bytes(audio(1_000)) == EVENT_BYTES + 4_000


async def test_events_are_drained_in_order_and_the_end_follows_the_close() -> None:
    box = outbox()
    events = [text("one"), audio(10), text("two"), AudioCleared()]
    for event in events:
        box.put(event)
    box.close()
    assert await drained(box) == events


async def test_box_is_full_at_its_bytes_and_roomy_again_once_read() -> None:
    box = outbox(limit_bytes=4_000 + EVENT_BYTES)
    await box.room()
    box.put(audio(999))
    assert not box.is_full
    box.put(text("the last bytes"))
    assert box.is_full
    waiting = asyncio.create_task(box.room())
    await settle()
    assert not waiting.done()
    events = box.drain()
    await anext(events)
    await settle()
    assert waiting.done()
    assert not box.is_full


async def test_control_events_go_into_a_full_box() -> None:
    box = outbox(limit_bytes=1_000)
    box.put(audio(1_000))
    box.put(AudioCleared())
    box.close()
    assert [type(event) for event in await drained(box)] == [AudioDelta, AudioCleared]


async def test_drop_audio_takes_out_that_replys_audio_alone_and_makes_room() -> None:
    box = outbox(limit_bytes=3_000)
    box.put(text("kept"))
    box.put(audio(400))
    box.put(audio(100, "r2"))
    box.put(audio(300))
    assert box.is_full
    assert box.drop_audio("r1") == 700
    assert not box.is_full
    await box.room()
    assert box.drop_audio("r1") == 0
    box.close()
    left = await drained(box)
    assert left[0] == text("kept")
    assert [event.response_id for event in left[1:] if isinstance(event, AudioDelta)] == ["r2"]


async def test_dropping_the_only_audio_leaves_the_reader_waiting() -> None:
    box = outbox()
    box.put(audio(10))
    box.drop_audio("r1")
    reader = asyncio.create_task(anext(box.drain()))
    await settle()
    assert not reader.done()
    box.put(text("next"))
    assert await reader == text("next")


async def test_stall_counts_from_the_last_event_that_was_taken() -> None:
    clock = ManualClock()
    box = Outbox(1_000, clock)
    await clock.advance(5.0)
    assert box.stalled_s() == 0.0  # nothing waits: nobody is slow
    box.put(text("one"))
    box.put(text("two"))
    await clock.advance(2.0)
    box.put(text("three"))
    assert box.stalled_s() == 2.0
    events = box.drain()
    await anext(events)
    assert box.stalled_s() == 0.0
    await clock.advance(1.5)
    assert box.stalled_s() == 1.5
    await anext(events)
    await anext(events)
    await clock.advance(9.0)
    assert box.stalled_s() == 0.0


async def test_closed_box_takes_nothing_more_and_holds_nobody_up() -> None:
    box = outbox(limit_bytes=100)
    box.put(text("before"))
    waiting = asyncio.create_task(box.room())
    await settle()
    assert not waiting.done()
    box.close()
    await waiting
    box.put(text("after"))
    assert await drained(box) == [text("before")]


async def test_close_ends_a_reader_that_waits() -> None:
    box = outbox()
    reader = asyncio.create_task(drained(box))
    await settle()
    box.close()
    assert await reader == []
