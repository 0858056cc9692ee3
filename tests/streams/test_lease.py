import asyncio

import pytest

from streams.config import SessionLimits
from streams.errors import SessionErrorCode
from streams.events import AudioCleared, SessionClosed
from streams.lease import LOOK_S, Lease
from streams.outbox import Outbox
from tests.support.clock import ManualClock, settle

LIMITS = SessionLimits(idle_timeout_s=10, max_session_s=100, slow_consumer_s=5)


class Watched:
    """Is a lease that is being watched."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.lease = Lease(LIMITS, self.clock)
        self.outbox = Outbox(1_000, self.clock)
        self.audible = False
        watch = self.lease.watch(self.outbox, lambda: self.audible)
        self.watching = asyncio.create_task(watch)

    async def verdict_after(self, seconds: float) -> SessionClosed | None:
        await self.clock.advance(seconds)
        return self.watching.result() if self.watching.done() else None


@pytest.fixture
async def watched() -> Watched:
    made = Watched()
    await settle()
    return made


async def test_client_without_a_sign_of_life_is_idle_at_the_timeout_and_not_before(
    watched: Watched,
) -> None:
    assert await watched.verdict_after(LIMITS.idle_timeout_s - LOOK_S) is None
    closed = await watched.verdict_after(2 * LOOK_S)
    assert closed is not None
    assert closed.code is SessionErrorCode.IDLE
    assert closed.message == "no event from the client for 10 s"


async def test_renewal_counts_from_its_own_moment(watched: Watched) -> None:
    assert await watched.verdict_after(8.0) is None
    watched.lease.renew()
    assert await watched.verdict_after(9.0) is None
    assert await watched.verdict_after(1.5) is not None


async def test_listener_of_a_reply_is_not_idle_until_it_has_ended(watched: Watched) -> None:
    watched.audible = True
    assert await watched.verdict_after(30.0) is None
    watched.audible = False
    assert await watched.verdict_after(9.0) is None
    closed = await watched.verdict_after(1.5)
    assert closed is not None and closed.code is SessionErrorCode.IDLE


async def test_longest_life_ends_even_a_busy_session(watched: Watched) -> None:
    watched.audible = True
    assert await watched.verdict_after(99.8) is None
    closed = await watched.verdict_after(0.4)
    assert closed is not None and closed.code is SessionErrorCode.EXPIRED


async def test_client_that_reads_nothing_of_what_waits_is_slow(watched: Watched) -> None:
    watched.outbox.put(AudioCleared())
    assert await watched.verdict_after(4.8) is None
    closed = await watched.verdict_after(0.4)
    assert closed is not None and closed.code is SessionErrorCode.SLOW_CONSUMER


async def test_end_from_outside_is_seen_at_the_next_look_and_the_first_reason_stays(
    watched: Watched,
) -> None:
    watched.lease.end(SessionErrorCode.DRAINING, "going down")
    watched.lease.end(SessionErrorCode.INTERNAL, "too late")
    closed = await watched.verdict_after(LOOK_S)
    assert closed == SessionClosed(SessionErrorCode.DRAINING, "going down")
