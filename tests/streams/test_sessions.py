import asyncio
import gc

import numpy as np
import pytest

from streams.admission import AdmissionConfig
from streams.config import SessionConfig, SessionLimits, Tier
from streams.context import SessionContext
from streams.errors import Overloaded, SessionErrorCode
from streams.events import (
    AudioDelta,
    AudioIn,
    CreateResponse,
    EndInput,
    SessionClosed,
    SessionOutput,
    SessionStarted,
)
from streams.observer import NullObserver
from streams.sessions import TELEPHONY_AHEAD_S, RunningSession, SessionManager
from tests.support.clock import settle
from tests.support.session_driver import RATE_HZ, ScriptedServer, typed

CONFIG = SessionConfig(output_rate_hz=RATE_HZ)


class CountingObserver(NullObserver):
    """Keeps what it is told of sessions."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.closed: list[tuple[str, str]] = []
        self.refused: list[str] = []

    def session_opened(self, protocol: str) -> None:
        self.opened.append(protocol)

    def session_closed(self, protocol: str, code: str) -> None:
        self.closed.append((protocol, code))

    def session_refused(self, reason: str) -> None:
        self.refused.append(reason)


class Manager(SessionManager):
    """Is a manager over scripted pipelines, for one tenant by one door."""

    def __init__(
        self, admission: AdmissionConfig | None = None, limits: SessionLimits | None = None
    ) -> None:
        self.seen = CountingObserver()
        self.server = ScriptedServer(limits, self.seen)
        super().__init__(self.server.services, admission or AdmissionConfig())

    async def begin(self, *, tier: Tier = Tier.FREE, telephony: bool = False) -> RunningSession:
        session = await self.open(
            CONFIG, protocol="test", tenant="anna", tier=tier, telephony=telephony
        )
        await settle()
        return session

    def assert_nothing_left(self) -> None:
        assert self.open_sessions == 0
        assert self.server.vad.open_streams == 0
        assert self.server.responder.running == 0


async def outputs_of(session: RunningSession) -> list[SessionOutput]:
    return [event async for event in session.outputs()]


async def test_session_is_opened_counted_and_ends_by_the_clients_wish() -> None:
    manager = Manager()
    session = await manager.begin()
    assert manager.open_sessions == 1
    await session.send(EndInput())
    outputs = await outputs_of(session)
    assert isinstance(outputs[0], SessionStarted)
    assert outputs[-1] == SessionClosed()
    await settle()
    manager.assert_nothing_left()
    assert manager.seen.opened == ["test"]
    assert manager.seen.closed == [("test", "ok")]


async def test_session_too_many_is_refused_with_a_hint_counted_and_leaves_no_trace() -> None:
    manager = Manager(AdmissionConfig(max_sessions=2, paid_reserve=1, retry_after_s=7))
    first = await manager.begin()
    assert not manager.has_room
    with pytest.raises(Overloaded) as refused:
        await manager.begin()
    assert refused.value.retry_after_s == 7
    assert manager.seen.refused == ["overloaded"]
    assert manager.open_sessions == 1
    paid = await manager.begin(tier=Tier.PAID)
    await first.close()
    await paid.close()
    again = await manager.begin()
    await again.close()
    assert manager.seen.opened == ["test"] * 3


async def test_close_returns_once_everything_is_given_back() -> None:
    manager = Manager()
    session = await manager.begin()
    manager.server.responder.step_s = 1.0
    await session.send(typed("hi"))
    await session.send(CreateResponse())
    await session.send(AudioIn(np.zeros(8_000, np.float32), RATE_HZ))
    await settle()
    assert manager.server.responder.running == 1
    assert manager.server.vad.open_streams == 1
    await session.close()
    manager.assert_nothing_left()
    assert manager.server.responder.aborted == 1
    assert manager.server.responder.released == 1
    assert manager.seen.closed == [("test", "disconnected")]
    await session.close()  # a second one finds nothing to do


async def test_session_that_is_closed_before_its_first_step_gives_its_place_back() -> None:
    manager = Manager()
    session = await manager.open(CONFIG, protocol="test", tenant="anna", tier=Tier.FREE)
    await session.close()
    manager.assert_nothing_left()
    assert len(manager.seen.opened) == len(manager.seen.closed)


async def test_thousand_sessions_leave_no_task_and_no_state() -> None:
    manager = Manager(AdmissionConfig(max_sessions=1, paid_reserve=0))
    tasks_before = asyncio.all_tasks()
    frame = AudioIn(np.full(320, 0.3, np.float32), RATE_HZ)
    for number in range(1_000):
        session = await manager.open(CONFIG, protocol="test", tenant="anna", tier=Tier.FREE)
        if number % 2:
            await session.send(frame)
            await session.send(typed("hi"))
            await session.send(CreateResponse())
        for _ in range(number % 17):  # each is left at another step of its life
            await asyncio.sleep(0)
        await session.close()
    manager.assert_nothing_left()
    assert len(manager.seen.opened) == len(manager.seen.closed)
    assert asyncio.all_tasks() == tasks_before
    del session
    gc.collect()
    assert not [thing for thing in gc.get_objects() if type(thing) is SessionContext]


async def test_drain_waits_for_sessions_that_end_by_themselves() -> None:
    manager = Manager()
    clock = manager.server.clock
    session = await manager.begin()
    draining = asyncio.create_task(manager.drain(patience_s=10))
    await clock.advance(3.0)
    assert not draining.done()
    with pytest.raises(Overloaded):
        await manager.begin(tier=Tier.PAID)
    await session.send(EndInput())
    await clock.advance(0.5)
    assert draining.done()
    assert (await outputs_of(session))[-1] == SessionClosed()
    manager.assert_nothing_left()


async def test_drain_out_of_patience_tells_those_who_are_left_why() -> None:
    manager = Manager()
    clock = manager.server.clock
    sessions = [await manager.begin(), await manager.begin()]
    draining = asyncio.create_task(manager.drain(patience_s=2))
    await clock.advance(1.9)
    assert manager.open_sessions == 2
    await clock.advance(2.0)
    assert draining.done()
    for session in sessions:
        closed = (await outputs_of(session))[-1]
        assert isinstance(closed, SessionClosed)
        assert closed.code is SessionErrorCode.DRAINING
    manager.assert_nothing_left()
    assert manager.seen.closed == [("test", "draining")] * 2


async def test_drain_without_patience_ends_sessions_within_moments() -> None:
    manager = Manager()
    await manager.begin()
    draining = asyncio.create_task(manager.drain(patience_s=0))
    await manager.server.clock.advance(0.5)
    assert draining.done()
    manager.assert_nothing_left()


async def test_drain_of_an_empty_server_is_over_at_once() -> None:
    manager = Manager()
    draining = asyncio.create_task(manager.drain(patience_s=60))
    await settle()
    assert draining.done()
    assert not manager.has_room


@pytest.mark.parametrize("telephony", [True, False])
async def test_audio_is_handed_ahead_to_all_but_the_telephone(telephony: bool) -> None:
    manager = Manager()
    session = await manager.begin(telephony=telephony)
    reading = asyncio.create_task(outputs_of(session))
    await session.send(typed("hi"))
    await session.send(CreateResponse())
    await manager.server.clock.advance(0.1)
    await session.close()
    deltas = [event for event in await reading if isinstance(event, AudioDelta)]
    handed_s = sum(len(delta.samples) for delta in deltas) / RATE_HZ
    made_s = 0.05 * sum(map(len, manager.server.synthesizer.spoken))
    if telephony:
        assert 0 < handed_s <= TELEPHONY_AHEAD_S + 0.1 + 0.02  # and one frame
        assert made_s > handed_s
    else:
        assert handed_s == pytest.approx(made_s)
