import asyncio
import logging
from dataclasses import replace

import pytest

from streams.config import SessionConfig, Tier
from streams.context import Identity, SessionContext, describe
from streams.conversation import Refused
from streams.errors import (
    AntiphonError,
    BadRequest,
    EngineFailed,
    NotFound,
    Overloaded,
    SessionErrorCode,
    Timeout,
    Unsupported,
)
from streams.events import CommitAudio, CreateResponse, SessionError, SessionOutput
from tests.support.session_driver import MANUAL, ScriptedServer, SessionDriver, typed

IDENTITY = Identity("sess_1", "anna", Tier.PAID, "test")


def context(config: SessionConfig | None = None) -> SessionContext:
    return SessionContext(IDENTITY, config or SessionConfig(), ScriptedServer().services)


async def told(ctx: SessionContext) -> list[SessionOutput]:
    ctx.outbox.close()
    return [event async for event in ctx.outbox.drain()]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Overloaded("full"), SessionErrorCode.OVERLOADED),
        (Timeout("late"), SessionErrorCode.TIMEOUT),
        (Unsupported("cannot"), SessionErrorCode.UNSUPPORTED),
        (BadRequest("wrong"), SessionErrorCode.INVALID),
        (EngineFailed("broke"), SessionErrorCode.INTERNAL),
        (Refused(SessionErrorCode.UNKNOWN_ITEM, "no item"), SessionErrorCode.INTERNAL),
        (NotFound("nobody"), SessionErrorCode.INTERNAL),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_known_error_is_described_by_its_code_and_its_own_words(
    error: AntiphonError, code: SessionErrorCode
) -> None:
    assert describe(error) == (code, error.message)


def test_unknown_error_is_a_fault_of_ours_and_its_words_stay_inside() -> None:
    assert describe(KeyError("/etc/secret")) == (None, "internal error")


def test_group_of_errors_is_described_by_its_first_member_at_any_depth() -> None:
    inner = ExceptionGroup("inner", [Timeout("late"), KeyError("x")])
    outer = ExceptionGroup("outer", [inner, ValueError("y")])
    assert describe(outer) == (SessionErrorCode.TIMEOUT, "late")


def test_tickets_are_unique_and_carry_session_tier_and_urgency() -> None:
    ctx = context()
    first, second = ctx.ticket(0.1, 5.0), ctx.ticket(0.2, 6.0)
    assert first.request_id != second.request_id
    assert (first.session_id, first.tier) == ("sess_1", Tier.PAID)
    assert (second.due_in_s, second.timeout_s) == (0.2, 6.0)


def test_language_that_was_heard_first_is_kept_and_the_clients_choice_comes_before_it() -> None:
    ctx = context()
    assert ctx.language is None
    ctx.lock_language(None)
    ctx.lock_language("de")
    ctx.lock_language("en")
    assert ctx.language == "de"
    ctx.config = replace(ctx.config, language="fr")
    assert ctx.language == "fr"


def test_new_ids_differ_and_show_their_kind() -> None:
    ctx = context()
    ids = {ctx.new_id("item") for _ in range(100)}
    assert len(ids) == 100
    assert all(made.startswith("item_") for made in ids)


async def test_refusal_names_the_clients_event() -> None:
    ctx = context()
    ctx.refuse(SessionErrorCode.INVALID, "no", "e7")
    assert await told(ctx) == [SessionError(SessionErrorCode.INVALID, "no", "e7")]


async def test_work_that_fails_tells_the_client_and_leaves_the_others_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ctx, finished = context(), []

    async def fails(error: Exception) -> None:
        raise error

    async def works() -> None:
        await asyncio.sleep(0)
        finished.append(True)

    async with asyncio.TaskGroup() as group:
        ctx.attach(group)
        ctx.spawn(fails(Timeout("late")), "first")
        ctx.spawn(fails(KeyError("secret")), "second")
        ctx.spawn(works(), "third")
    assert finished
    assert await told(ctx) == [
        SessionError(SessionErrorCode.TIMEOUT, "late"),
        SessionError(SessionErrorCode.INTERNAL, "internal error"),
    ]
    levels = {record.getMessage(): record.levelno for record in caplog.records}
    assert levels == {"first failed: late": logging.WARNING, "second failed": logging.ERROR}


async def test_work_that_is_cancelled_before_its_first_step_leaves_nothing_behind() -> None:
    ctx, begun = context(), []

    async def work() -> None:
        begun.append(True)

    async with asyncio.TaskGroup() as group:
        ctx.attach(group)
        ctx.spawn(work(), "early").cancel()
    assert not begun
    assert await told(ctx) == []


async def test_work_outside_a_running_session_is_refused() -> None:
    async def work() -> None:
        raise AssertionError("never begun")

    with pytest.raises(RuntimeError, match="does not run"):
        context().spawn(work(), "stray")


async def test_tier_of_the_identity_reaches_every_engine() -> None:
    async with SessionDriver(MANUAL, tier=Tier.PAID) as driver:
        await driver.speech(1.0)
        await driver.send(CommitAudio())
        await driver.speech(30.0)
        await driver.send(CommitAudio())  # too long for one window: goes piece by piece
        await driver.until(lambda: len(driver.transcriber.calls) >= 3)
        await driver.send(typed("and you?"), CreateResponse())
        await driver.clock.advance(0.5)
    engines = {
        "vad": driver.vad.tickets,
        "transcriber": driver.transcriber.tickets,
        "responder": driver.responder.tickets,
        "synthesizer": driver.synthesizer.tickets,
    }
    for name, tickets in engines.items():
        assert len(tickets) >= 2, name
        assert {ticket.tier for ticket in tickets} == {Tier.PAID}, name
    everything = [ticket.request_id for tickets in engines.values() for ticket in tickets]
    assert len(set(everything)) == len(everything)
