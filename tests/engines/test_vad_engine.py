import asyncio
from contextlib import asynccontextmanager

import numpy as np
import pytest
import torch

from engines.base import Ticket, Tier
from engines.errors import BadRequest, NotFound, Overloaded, Timeout
from engines.torch.client import HostClient
from engines.torch.host import EngineHost
from engines.torch.messages import VadClose, VadOpen, VadPush
from engines.torch.models.silero_vad import CHUNK_SAMPLES, SileroVad, VadState, load_silero_vad
from engines.torch.vad_engine import VadEngine
from tests.engines.recordings import librispeech_chunks
from tests.engines.scripted import ask, until
from tests.support.models import model_path

WAIT_S = 20.0


class CountingVad(SileroVad):
    """Is the real network with random weights; notes the rows of every forward."""

    def __init__(self):
        super().__init__()
        self.batches: list[int] = []
        generator = torch.Generator().manual_seed(0)
        for parameter in self.parameters():
            parameter.data = 0.2 * torch.randn(parameter.shape, generator=generator)

    def forward(self, chunks, state):
        self.batches.append(len(chunks))
        return super().forward(chunks, state)


@pytest.fixture
def network():
    return CountingVad().requires_grad_(False)


def tone(chunks, seed=0):
    noise = np.random.default_rng(seed).standard_normal(chunks * CHUNK_SAMPLES)
    return (0.1 * noise).astype(np.float32)


def push(stream_id, number, samples, due_in_s=0.05, timeout_s=10.0):
    ticket = Ticket(f"{stream_id}#{number}", due_in_s=due_in_s, timeout_s=timeout_s)
    return VadPush(ticket, stream_id, samples)


def open_streams(engine, *names, tier=Tier.FREE, now_s=0.0):
    for name in names:
        engine.add(VadOpen(Ticket(name, tier=tier)), now_s)
    answers = engine.step(now_s)
    assert [answer.payload for answer in answers] == list(names)


def run_dry(engine, now_s=0.0):
    outputs = []
    while engine.urgency(0.0) is not None:
        outputs += engine.step(now_s)
    return {output.request_id: output for output in outputs}


def reference(network, samples):
    state, scores = VadState.fresh(1), []
    for chunk in torch.from_numpy(samples).view(-1, 1, CHUNK_SAMPLES):
        score, state = network(chunk, state)
        scores.append(score.item())
    return scores


def test_waiting_pushes_of_all_streams_are_scored_in_one_forward(network):
    engine = VadEngine(network)
    names = [f"s{number}" for number in range(50)]
    open_streams(engine, *names)
    for seed, name in enumerate(names):
        engine.add(push(name, 0, tone(1, seed)), 0.0)
    outputs = run_dry(engine)
    assert network.batches == [50]
    for seed, name in enumerate(names):
        expected = reference(network, tone(1, seed))
        assert outputs[f"{name}#0"].payload == pytest.approx(expected, abs=1e-6)


def test_chunks_of_one_stream_are_scored_in_sequence_across_pushes(network):
    engine = VadEngine(network)
    open_streams(engine, "a", "b")
    samples = tone(9)
    for number, (start, stop) in enumerate(((0, 2), (2, 3), (3, 9))):
        engine.add(push("a", number, samples[start * 512 : stop * 512]), 0.0)
    engine.add(push("b", 0, tone(1, seed=1)), 0.0)
    outputs = run_dry(engine)
    scores = np.concatenate([outputs[f"a#{number}"].payload for number in range(3)])
    assert scores.dtype == np.float32
    assert scores == pytest.approx(reference(network, samples), abs=1e-6)


def test_a_step_is_bounded_and_urgent_streams_go_first(network):
    engine = VadEngine(network)
    open_streams(engine, "file", tier=Tier.BATCH)
    open_streams(engine, "call")
    engine.add(push("file", 0, tone(500)), 0.0)
    assert engine.step(0.0) == []
    assert sum(network.batches) == 64
    engine.add(push("call", 0, tone(1)), 0.0)
    assert engine.urgency(0.0).is_batch is False
    assert [output.request_id for output in engine.step(0.0)] == ["call#0"]
    assert sum(network.batches) == 128
    assert engine.urgency(0.0).is_batch is True
    assert run_dry(engine)["file#0"].payload.shape == (500,)


def test_forwards_run_on_one_core_and_the_host_s_setting_comes_back(network):
    seen = []
    network.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        engine = VadEngine(network)
        open_streams(engine, "a")
        engine.add(push("a", 0, tone(1)), 0.0)
        run_dry(engine)
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


def test_a_new_stream_in_a_used_row_starts_fresh(network):
    engine = VadEngine(network, max_streams=1)
    for name in ("first", "second"):
        open_streams(engine, name)
        engine.add(push(name, 0, tone(3)), 0.0)
        scores = run_dry(engine)[f"{name}#0"].payload
        assert scores == pytest.approx(reference(network, tone(3)), abs=1e-6)
        engine.add(VadClose(Ticket(f"close {name}"), name), 0.0)
        run_dry(engine)


def test_more_streams_than_rows_are_refused_until_one_closes(network):
    engine = VadEngine(network, max_streams=1)
    open_streams(engine, "a")
    with pytest.raises(Overloaded):
        engine.add(VadOpen(Ticket("b")), 0.0)
    engine.add(VadClose(Ticket("c"), "a"), 0.0)
    run_dry(engine)
    open_streams(engine, "b")


def test_what_is_not_a_whole_chunk_or_not_a_vad_request_is_refused(network):
    engine = VadEngine(network)
    open_streams(engine, "a")
    for samples in (tone(1)[:-1], tone(0), tone(2).reshape(2, -1)):
        with pytest.raises(BadRequest, match="512"):
            engine.add(push("a", 0, samples), 0.0)
    with pytest.raises(BadRequest, match="already open"):
        engine.add(VadOpen(Ticket("a")), 0.0)
    with pytest.raises(BadRequest, match="Ask"):
        engine.add(ask("x"), 0.0)
    with pytest.raises(NotFound):
        engine.add(push("nobody", 0, tone(1)), 0.0)


def test_the_sender_may_reuse_its_buffer(network):
    engine = VadEngine(network)
    open_streams(engine, "a")
    buffer = tone(1)
    expected = reference(network, buffer.copy())
    engine.add(push("a", 0, buffer), 0.0)
    buffer[:] = 1.0
    assert run_dry(engine)["a#0"].payload == pytest.approx(expected, abs=1e-6)


def test_a_stream_that_nobody_pushes_loses_its_lease(network):
    engine = VadEngine(network, lease_s=5.0)
    open_streams(engine, "quiet", "busy")
    engine.add(push("busy", 0, tone(1)), 4.0)
    run_dry(engine)
    assert engine.expire(4.9) == []
    assert engine.stats().running == 2
    engine.expire(5.0)
    assert engine.stats().running == 1
    with pytest.raises(NotFound):
        engine.add(push("quiet", 0, tone(1)), 5.0)
    engine.add(push("busy", 1, tone(1)), 5.0)


def test_a_push_past_its_time_ends_with_timeout_and_the_stream_lives(network):
    engine = VadEngine(network)
    open_streams(engine, "a")
    engine.add(push("a", 0, tone(1), timeout_s=1.0), 0.0)
    engine.add(push("a", 1, tone(1), timeout_s=9.0), 0.0)
    (output,) = engine.expire(1.0)
    assert output.request_id == "a#0" and isinstance(output.error, Timeout)
    assert set(run_dry(engine)) == {"a#1"}


def test_closing_a_stream_fails_what_it_still_waits_for(network):
    engine = VadEngine(network)
    open_streams(engine, "a")
    engine.add(push("a", 0, tone(1)), 0.0)
    engine.add(VadClose(Ticket("c"), "a"), 0.0)
    outputs = run_dry(engine)
    assert isinstance(outputs["a#0"].error, NotFound)
    assert outputs["c"].payload == "a"
    engine.add(VadClose(Ticket("again"), "a"), 0.0)
    assert run_dry(engine)["again"].error is None


def test_abort_drops_a_waiting_push_and_abort_of_an_open_closes_the_stream(network):
    engine = VadEngine(network)
    open_streams(engine, "a")
    engine.add(push("a", 0, tone(1)), 0.0)
    assert engine.abort("a#0")
    assert not engine.abort("a#0")
    assert engine.urgency(0.0) is None
    assert engine.abort("a")
    stats = engine.stats()
    assert (stats.running, stats.aborted, stats.cache_bytes) == (0, 2, 0)


def test_a_thousand_streams_opened_and_closed_leave_nothing(network):
    engine = VadEngine(network, max_streams=4)
    for number in range(1000):
        name = f"s{number}"
        engine.add(VadOpen(Ticket(name)), 0.0)
        engine.add(push(name, 0, tone(1)), 0.0)
        engine.add(VadClose(Ticket(f"c{number}"), name), 0.0)
        run_dry(engine)
    assert engine.stats().running == 0
    assert engine.stats().cache_bytes == 0
    open_streams(engine, "a", "b", "c", "d")


@asynccontextmanager
async def connected(load):
    host = EngineHost({"vad": load}, threads=1)
    host.start()
    await asyncio.to_thread(host.wait_ready, WAIT_S)
    client = HostClient(host)
    yield client.vad_engine("vad")
    await client.close()
    await asyncio.to_thread(host.close, WAIT_S)


async def test_real_speech_through_the_host_scores_high_in_every_session():
    weights = model_path("silero-vad") / "silero_vad.jit"
    chunks = librispeech_chunks()[:100].numpy()

    async def talk(vad, number):
        stream = await vad.open(Ticket(f"session {number}"))
        scores = [await vad.push(stream, part.reshape(-1)) for part in np.split(chunks, 20)]
        await vad.close(stream)
        return np.concatenate(scores)

    async with connected(lambda: VadEngine(load_silero_vad(weights))) as vad:
        scores = await asyncio.gather(*(talk(vad, number) for number in range(10)))
        assert all(np.allclose(row, scores[0], atol=1e-5) for row in scores)
        assert (scores[0] > 0.5).mean() > 0.7
        assert scores[0][:3].max() < 0.1
        assert vad.stats().running == 0


async def test_pushes_sent_at_once_are_answered_in_order(network):
    samples = tone(8)
    async with connected(lambda: VadEngine(network)) as vad:
        stream = await vad.open(Ticket("s"))
        parts = await asyncio.gather(*(vad.push(stream, part) for part in np.split(samples, 4)))
        assert np.concatenate(parts) == pytest.approx(reference(network, samples), abs=1e-6)


async def test_a_push_to_a_closed_stream_is_not_found_and_closing_twice_is_harmless(network):
    async with connected(lambda: VadEngine(network)) as vad:
        stream = await vad.open(Ticket("s"))
        await vad.close(stream)
        await vad.close(stream)
        with pytest.raises(NotFound):
            await vad.push(stream, tone(1))


async def test_an_idle_host_takes_a_lease_back_without_any_traffic(network):
    async with connected(lambda: VadEngine(network, lease_s=0.01)) as vad:
        await vad.open(Ticket("s"))
        await until(lambda: vad.stats().running == 0)
