import asyncio
import threading
from contextlib import aclosing

import numpy as np
import pytest

from engines.base import (
    FinishReason,
    GenerateRequest,
    SpeechRequest,
    Ticket,
    TokenDelta,
    TokenEngine,
    WaveformRequest,
)
from engines.errors import BadRequest, EngineFailed, NotFound, Overloaded, Timeout
from engines.torch.client import HostClient
from engines.torch.host import EngineHost
from engines.torch.one_by_one import OneByOneEngine
from engines.torch.vits_engine import VitsRunner, VoiceConfig
from tests.engines.scripted import ScriptedRunner, ask, counting, endless, gated, silent, until

WAIT_S = 20.0


def generate(request_id, timeout_s=WAIT_S):
    return GenerateRequest(Ticket(request_id, timeout_s=timeout_s), prompt_ids=(1,), max_tokens=9)


@pytest.fixture
async def connect():
    """Starts a host for runners by name and connects the test's loop to it."""
    started = []

    async def start(runners, grace_s=WAIT_S, max_running=8):
        host = EngineHost(
            {n: lambda r=r: OneByOneEngine(r, max_running) for n, r in runners.items()}
        )
        host.start()
        await asyncio.to_thread(host.wait_ready, WAIT_S)
        client = HostClient(host, grace_s)
        started.append((client, host))
        return client, host

    yield start
    for client, host in started:
        await client.close()
        await asyncio.to_thread(host.close, WAIT_S)


async def test_deltas_arrive_in_order_and_end_with_finish(connect):
    client, _ = await connect({"lm": ScriptedRunner(counting(3))})
    engine: TokenEngine = client.token_engine("lm")
    deltas = [delta async for delta in engine.generate(generate("a"))]
    assert [delta.ids for delta in deltas] == [(0,), (1,), (2,)]
    assert deltas[-1].finish is FinishReason.STOP
    assert engine.stats().tokens == 3
    assert engine.capabilities.max_context == 64


async def test_two_requests_at_once_each_get_their_own(connect):
    client, _ = await connect({"lm": ScriptedRunner(counting(4))})
    engine = client.token_engine("lm")

    async def ids_of(request_id):
        return [(d.request_id, d.ids[0]) async for d in engine.generate(generate(request_id))]

    first, second = await asyncio.gather(ids_of("a"), ids_of("b"))
    assert first == [("a", number) for number in range(4)]
    assert second == [("b", number) for number in range(4)]


async def test_speech_comes_back_through_transcribe(connect):
    client, _ = await connect({"asr": ScriptedRunner(counting(2))})
    request = SpeechRequest(Ticket("a"), np.zeros(16_000, np.float32), (1,), max_tokens=9)
    engine = client.seq2seq_engine("asr")
    assert [delta.ids async for delta in engine.transcribe(request)] == [(0,), (1,)]


async def test_closing_the_iterator_frees_the_generator_before_aclose_returns(connect):
    client, _ = await connect({"lm": (runner := ScriptedRunner(endless))})
    engine = client.token_engine("lm")
    async with aclosing(engine.generate(generate("a"))) as deltas:
        await anext(deltas)
        assert runner.alive == {"a"}
    assert runner.alive == set()
    assert (engine.stats().running, engine.stats().aborted) == (0, 1)


async def test_cancelling_the_reader_frees_the_generator(connect):
    client, _ = await connect({"lm": (runner := ScriptedRunner(silent))})
    engine = client.token_engine("lm")

    async def read():
        async for _ in engine.generate(generate("a")):
            pass

    reader = asyncio.create_task(read())
    await until(lambda: runner.alive)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert runner.alive == set()


async def test_a_reader_cancelled_twice_has_sent_its_abort_all_the_same(connect):
    gate = threading.Event()
    client, host = await connect({"lm": (runner := ScriptedRunner(gated(gate)))})
    reader = asyncio.create_task(anext(client.token_engine("lm").generate(generate("a"))))
    await until(lambda: runner.alive)
    reader.cancel()
    await asyncio.sleep(0)  # the abort is sent; its confirmation waits for the step
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    gate.set()
    await client.abort("lm", "nobody")  # acknowledged in order: after the first abort
    assert runner.alive == set()
    assert host.stats("lm").running == 0


async def test_an_abort_by_another_task_ends_the_reader_with_aborted(connect):
    client, _ = await connect({"lm": ScriptedRunner(endless)})
    engine = client.token_engine("lm")
    seen = []

    async def read():
        async for delta in engine.generate(generate("a")):
            seen.append(delta)

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        await until(lambda: seen)
        await engine.abort("a")
        await engine.abort("a")
    assert seen[-1] == TokenDelta("a", finish=FinishReason.ABORTED)


async def test_concurrent_aborts_of_one_request_all_return(connect):
    client, _ = await connect({"lm": ScriptedRunner(endless)})
    engine = client.token_engine("lm")
    deltas = engine.generate(generate("a"))
    await anext(deltas)
    await asyncio.gather(*(engine.abort("a") for _ in range(5)))
    assert engine.stats().aborted == 1
    await deltas.aclose()


async def test_abort_of_a_request_that_never_ran_does_nothing(connect):
    client, _ = await connect({"lm": ScriptedRunner(endless)})
    await client.token_engine("lm").abort("nobody")
    assert client.stats("lm").aborted == 0


async def test_closing_an_engine_ends_what_it_started_and_leaves_the_others(connect):
    client, _ = await connect({"lm": (runner := ScriptedRunner(endless))})
    mine, other = client.token_engine("lm"), client.token_engine("lm")
    ended, living = mine.generate(generate("mine")), other.generate(generate("other"))
    await anext(ended)
    await anext(living)
    await mine.close()
    assert runner.alive == {"other"}
    await living.aclose()
    await ended.aclose()


async def test_the_ticket_s_time_ends_a_request_with_timeout(connect):
    client, _ = await connect({"lm": (runner := ScriptedRunner(silent))})
    with pytest.raises(Timeout, match="not done in time"):
        await anext(client.token_engine("lm").generate(generate("a", timeout_s=0.05)))
    assert runner.alive == set()


async def test_a_host_that_hangs_in_a_step_cannot_hold_the_caller(connect, caplog):
    gate = threading.Event()
    client, _ = await connect({"lm": ScriptedRunner(gated(gate))}, grace_s=0.05)
    with pytest.raises(Timeout, match="did not answer in time"):
        await anext(client.token_engine("lm").generate(generate("a", timeout_s=0.05)))
    with pytest.raises(Timeout, match="did not confirm"):
        await client.abort("lm", "a")
    assert "not confirmed yet" in caplog.text
    gate.set()


async def test_refusals_and_failures_reach_the_caller_typed(connect):
    def script(request):
        yield None
        raise ValueError("on purpose")

    client, _ = await connect({"lm": ScriptedRunner(script)})
    engine = client.token_engine("lm")
    with pytest.raises(BadRequest, match="malformed"):
        await anext(engine.generate(generate("malformed")))
    with pytest.raises(EngineFailed):
        await anext(engine.generate(generate("a")))


async def test_a_full_engine_refuses_and_has_room_again_after_an_abort(connect):
    client, _ = await connect({"lm": ScriptedRunner(endless)}, max_running=1)
    engine = client.token_engine("lm")
    async with aclosing(engine.generate(generate("a"))) as deltas:
        await anext(deltas)
        with pytest.raises(Overloaded):
            await anext(engine.generate(generate("b")))
    async with aclosing(engine.generate(generate("c"))) as deltas:
        assert (await anext(deltas)).request_id == "c"


async def test_the_same_id_twice_at_once_is_refused_and_the_first_lives(connect):
    client, _ = await connect({"lm": ScriptedRunner(endless)})
    engine = client.token_engine("lm")
    async with aclosing(engine.generate(generate("a"))) as deltas:
        await anext(deltas)
        with pytest.raises(BadRequest, match="already running"):
            await anext(engine.generate(generate("a")))
        await anext(deltas)


async def test_a_host_that_goes_down_fails_who_waits_and_who_comes(connect):
    client, host = await connect({"lm": (runner := ScriptedRunner(silent))})
    engine = client.token_engine("lm")
    reader = asyncio.create_task(anext(engine.generate(generate("a"))))
    await until(lambda: runner.alive)
    await asyncio.to_thread(host.close, WAIT_S)
    with pytest.raises(EngineFailed, match="shut down"):
        await reader
    with pytest.raises(EngineFailed, match="shut down"):
        await anext(engine.generate(generate("b")))
    await engine.abort("a")  # nothing runs there: returns at once
    assert engine.stats().aborted == 1


async def test_closing_the_client_ends_its_requests_and_frees_the_host_for_the_next(connect):
    client, host = await connect({"lm": (runner := ScriptedRunner(endless))})
    deltas = client.token_engine("lm").generate(generate("a"))
    await anext(deltas)
    await client.close()
    assert runner.alive == set()
    await deltas.aclose()
    with pytest.raises(EngineFailed, match="closed"):
        await anext(client.token_engine("lm").generate(generate("late")))
    second = HostClient(host, WAIT_S)
    async with aclosing(second.token_engine("lm").generate(generate("b"))) as again:
        assert (await anext(again)).request_id == "b"
    await second.close()


async def test_an_unknown_engine_is_not_found(connect):
    client, _ = await connect({"lm": ScriptedRunner(endless)})
    for ask_for in (
        client.token_engine,
        client.seq2seq_engine,
        client.vad_engine,
        client.waveform_engine,
        client.stats,
    ):
        with pytest.raises(NotFound, match="nothing"):
            ask_for("nothing")


async def test_a_thousand_iterators_opened_and_closed_leave_nothing(connect):
    client, _ = await connect({"lm": (runner := ScriptedRunner(endless))}, max_running=2)
    engine = client.token_engine("lm")
    for number in range(1000):
        async with aclosing(engine.generate(generate(f"r{number}"))) as deltas:
            await anext(deltas)
    assert runner.alive == set()
    assert client._waiting == {} and client._aborts == {}
    assert (engine.stats().running, engine.stats().aborted) == (0, 1000)


class _Tone:
    """Stands for the graph: as many samples as there are ids."""

    def run(self, _outputs, inputs):
        return (np.full((1, 1, 1, inputs["input"].shape[1]), 2.0, np.float32),)


async def test_an_utterance_is_one_awaited_result_at_the_voice_s_rate(connect):
    voice = VitsRunner(_Tone(), VoiceConfig(22_050, 256, 0.667, 1.0, 0.8))
    client, _ = await connect({"voice": voice})
    engine = client.waveform_engine("voice")
    samples = await engine.synthesize(WaveformRequest(Ticket("a"), (1, 2, 3)))
    assert engine.sample_rate_hz == 22_050
    assert samples.dtype == np.float32
    assert samples.tolist() == [1.0, 1.0, 1.0]  # clipped to full scale


async def test_a_call_that_somebody_aborts_fails_instead_of_hanging(connect):
    client, _ = await connect({"lm": (runner := ScriptedRunner(silent))})
    call = asyncio.create_task(client.call("lm", ask("a")))
    await until(lambda: runner.alive)
    await client.abort("lm", "a")
    with pytest.raises(EngineFailed, match="aborted"):
        await call
