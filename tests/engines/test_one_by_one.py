import logging

import pytest

from engines.base import FinishReason, Ticket, Tier, TokenDelta
from engines.errors import BadRequest, EngineFailed, Overloaded, Timeout, Unsupported
from engines.torch.one_by_one import OneByOneEngine
from engines.torch.step_engine import Output, Urgency
from tests.engines.scripted import Ask, ScriptedRunner, ask, counting, endless, silent


def engine_of(script, max_running=8):
    runner = ScriptedRunner(script)
    return OneByOneEngine(runner, max_running), runner


def test_a_request_is_delivered_step_by_step_and_its_finish_is_last():
    engine, runner = engine_of(counting(2))
    engine.add(ask("a"), 0.0)
    assert engine.step(0.0) == [Output("a", TokenDelta("a", (0,)))]
    last = TokenDelta("a", (1,), finish=FinishReason.STOP)
    assert engine.step(0.0) == [Output("a", last, last=True)]
    assert engine.urgency(0.0) is None
    assert not runner.alive


def test_a_script_that_just_ends_is_told_without_a_payload():
    engine, _ = engine_of(counting(1, finish=False))
    engine.add(ask("a"), 0.0)
    engine.step(0.0)
    assert engine.step(0.0) == [Output("a", last=True)]


def test_a_step_without_result_delivers_nothing_and_goes_on():
    engine, _ = engine_of(silent)
    engine.add(ask("a"), 0.0)
    assert engine.step(0.0) == []
    assert engine.urgency(0.0) == Urgency(False, 1.0)


def test_an_idle_engine_steps_to_nothing():
    engine, _ = engine_of(endless)
    assert engine.step(0.0) == []


def test_the_request_with_least_slack_is_stepped_first():
    engine, runner = engine_of(endless)
    engine.add(ask("later", due_in_s=2.0), 0.0)
    engine.add(ask("sooner", due_in_s=0.5), 0.0)
    engine.step(0.0)
    assert runner.stepped == ["sooner"]


def test_a_request_that_delivered_is_due_again_one_period_later():
    engine, runner = engine_of(endless)
    engine.add(ask("reply", due_in_s=1.0), 0.0)
    engine.add(ask("newcomer", due_in_s=1.0), 0.6)
    for now_s in (0.7, 0.8, 0.9):
        engine.step(now_s)
    # reply is due at 1.0, then at 1.7; newcomer at 1.6, then at 1.8.
    assert runner.stepped == ["reply", "newcomer", "reply"]


def test_batch_work_waits_for_live_work_and_the_paid_tier_breaks_ties():
    engine, runner = engine_of(counting(1))
    for request_id, tier in (("batch", Tier.BATCH), ("free", Tier.FREE), ("paid", Tier.PAID)):
        engine.add(Ask(Ticket(request_id, tier=tier)), 0.0)
    for _ in range(3):
        engine.step(0.0)
    assert runner.stepped == ["paid", "free", "batch"]


def test_one_request_too_many_is_refused_and_nothing_of_it_is_kept():
    engine, _ = engine_of(endless, max_running=1)
    engine.add(ask("a"), 0.0)
    with pytest.raises(Overloaded):
        engine.add(ask("b"), 0.0)
    assert engine.stats().running == 1
    assert not engine.abort("b")


def test_a_malformed_or_repeated_request_is_refused():
    engine, _ = engine_of(endless)
    with pytest.raises(BadRequest):
        engine.add(ask("malformed"), 0.0)
    engine.add(ask("a"), 0.0)
    with pytest.raises(BadRequest, match="already running"):
        engine.add(ask("a"), 0.0)


def test_a_request_past_its_time_ends_with_timeout_and_the_other_lives():
    engine, runner = engine_of(endless)
    engine.add(ask("short", timeout_s=1.0), 10.0)
    engine.add(ask("long", timeout_s=9.0), 10.0)
    engine.step(10.1)
    engine.step(10.2)
    assert engine.expire(10.9) == []
    (output,) = engine.expire(11.0)
    assert (output.request_id, output.last) == ("short", True)
    assert isinstance(output.error, Timeout)
    assert runner.alive == {"long"}


def test_an_exception_fails_its_own_request_and_is_logged_with_its_cause(caplog):
    def script(request):
        yield TokenDelta(request.ticket.request_id, (1,))
        if request.ticket.request_id == "bad":
            raise ZeroDivisionError("on purpose")
        yield TokenDelta(request.ticket.request_id, (2,))

    engine, runner = engine_of(script)
    engine.add(ask("bad", due_in_s=0.1), 0.0)
    engine.add(ask("good"), 0.0)
    engine.step(0.0)
    with caplog.at_level(logging.ERROR):
        (output,) = engine.step(0.0)
    assert output.request_id == "bad" and output.last
    assert isinstance(output.error, EngineFailed)
    assert output.error.__traceback__ is None and output.error.__context__ is None
    assert "ZeroDivisionError: on purpose" in caplog.text
    assert runner.alive == set()
    assert engine.step(0.0) == [Output("good", TokenDelta("good", (1,)))]


def test_a_typed_error_of_the_runner_reaches_the_caller_as_it_is():
    def script(request):
        yield None
        raise Unsupported("no such thing here")

    engine, _ = engine_of(script)
    engine.add(ask("a"), 0.0)
    engine.step(0.0)
    (output,) = engine.step(0.0)
    assert isinstance(output.error, Unsupported)


def test_abort_closes_the_generator_and_counts_once():
    engine, runner = engine_of(endless)
    engine.add(ask("a"), 0.0)
    engine.step(0.0)
    assert runner.alive == {"a"}
    assert engine.abort("a")
    assert runner.alive == set()
    assert not engine.abort("a")
    assert engine.stats().aborted == 1


def test_a_generator_that_fails_while_it_is_closed_is_gone_all_the_same(caplog):
    def script(request):
        try:
            yield None
        finally:
            raise ValueError("close on purpose")

    engine, _ = engine_of(script)
    engine.add(ask("a"), 0.0)
    engine.step(0.0)
    assert engine.abort("a")
    assert engine.stats().running == 0
    assert "close on purpose" in caplog.text


def test_stats_count_tokens_and_ends():
    engine, _ = engine_of(counting(3))
    engine.add(ask("done"), 0.0)
    for _ in range(3):
        engine.step(0.0)
    engine.add(ask("late", timeout_s=0.5), 0.0)
    engine.step(0.0)
    assert engine.stats().cache_bytes == 100
    engine.expire(1.0)
    engine.add(ask("gone"), 0.0)
    engine.abort("gone")
    stats = engine.stats()
    assert (stats.finished, stats.failed, stats.aborted, stats.running) == (1, 1, 1, 0)
    assert stats.tokens == 4
    assert stats.cache_bytes == 0
