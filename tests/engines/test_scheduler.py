"""What the scheduler promises, on devices and traffic of any kind, on a virtual clock."""

import dataclasses

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from engines.base import Tier
from engines.errors import BadRequest, Overloaded, Timeout
from engines.torch.capacity import CapacityModel
from engines.torch.kv_cache import KvBlocks
from engines.torch.scheduler import Scheduler, SchedulerConfig
from engines.torch.sequence import Sequence
from tests.engines.step_simulator import RATE, Device, StepSimulator, stream, text

CONFIG = SchedulerConfig(chunk_tokens=64)

devices = st.builds(
    Device,
    base_s=st.floats(0.0005, 0.006),
    row_s=st.floats(0.0001, 0.0008),
    prefill_s=st.floats(0.00001, 0.0001),
)
arrivals = st.lists(st.tuples(st.floats(0, 6), st.floats(0.3, 4)), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None)
@given(device=devices, traffic=arrivals)
def test_no_admitted_listener_runs_dry_and_nobody_gets_far_ahead(
    device: Device, traffic: list[tuple[float, float]]
) -> None:
    simulator = StepSimulator(CONFIG, device)
    for index, (at_s, seconds) in enumerate(traffic):
        simulator.at(at_s, stream(f"s{index}", seconds))
    simulator.run()
    assert simulator.scheduler.underruns == 0
    assert simulator.least_lead_s >= 0.0
    # One step makes one token, and a first step may come after the mark was passed.
    assert simulator.worst_lead_s <= 1.5 + 1 / RATE + simulator.longest_step_s
    assert len(simulator.ended) + len(simulator.refusals) == len(traffic)
    assert simulator.idle_with_work == 0


@settings(max_examples=40, deadline=None)
@given(device=devices, traffic=arrivals, texts=arrivals, batch=st.integers(0, 6))
def test_text_and_batch_work_beside_streams_harm_none_and_come_to_their_end(
    device: Device, traffic: list[tuple[float, float]], texts: list[tuple[float, float]], batch: int
) -> None:
    simulator = StepSimulator(CONFIG, device)
    for index, (at_s, seconds) in enumerate(traffic):
        simulator.at(at_s, stream(f"s{index}", seconds))
    for index, (at_s, length) in enumerate(texts):
        simulator.at(at_s, text(f"t{index}", tokens=int(20 * length), prompt=int(100 * length)))
    for index in range(batch):
        simulator.at(0.0, text(f"b{index}", tier=Tier.BATCH))
    simulator.run()
    done = {name for name in simulator.ended if name[0] in "tb"}
    assert done == {f"t{i}" for i in range(len(texts))} | {f"b{i}" for i in range(batch)}
    assert simulator.idle_with_work == 0
    assert simulator.kv.used == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 3), st.booleans()), min_size=2, max_size=40))
def test_paid_never_waits_behind_free_that_came_later(traffic: list[tuple[float, bool]]) -> None:
    slow = Device(base_s=0.006, row_s=0.001)
    simulator = StepSimulator(dataclasses.replace(CONFIG, max_running=3), slow)
    for index, (at_s, paid) in enumerate(traffic):
        tier = Tier.PAID if paid else Tier.FREE
        simulator.at(at_s, text(f"{'paid' if paid else 'free'}{index}", tier=tier))
    simulator.run()
    order = {name: place for place, name in enumerate(simulator.admitted)}
    for paid in (name for name in order if name.startswith("paid")):
        for free in (name for name in order if name.startswith("free")):
            if simulator.added_s[free] > simulator.added_s[paid]:
                assert order[paid] < order[free]


def test_batch_work_ages_past_an_endless_queue_of_free_work() -> None:
    config = dataclasses.replace(CONFIG, max_running=2, newcomer_slots=0)
    simulator = StepSimulator(config, Device(base_s=0.01))
    simulator.at(0.0, text("batch", tokens=5, tier=Tier.BATCH))
    for index in range(400):  # twice what the device can do
        simulator.at(0.1 * index, text(f"t{index}", tokens=40))
    simulator.run(until_s=30.0)
    assert "batch" in simulator.ended
    assert simulator.scheduler.waiting


def test_as_many_streams_as_the_device_can_carry_are_let_in() -> None:
    device = Device()
    simulator = StepSimulator(CONFIG, device)
    possible = device.most_streams(CONFIG.eta)
    for index in range(possible + 10):
        simulator.at(0.02 * index, stream(f"s{index}", 8.0))
    simulator.run(until_s=1.0)
    assert possible - 2 <= len(simulator.admitted) <= possible


def test_refusal_comes_at_once_and_says_when_to_come_back() -> None:
    simulator = StepSimulator(CONFIG, Device(base_s=0.01, row_s=0.0005))
    for index in range(8):
        simulator.at(0.0, stream(f"s{index}", 20.0))
    simulator.run(until_s=0.1)
    assert simulator.refusals
    for error in simulator.refusals.values():
        assert isinstance(error, Overloaded)
        assert error.retry_after_s is not None and error.retry_after_s > 1.0


def test_silent_session_keeps_its_place_for_the_lease() -> None:
    config = dataclasses.replace(CONFIG, session_lease_s=10.0)
    simulator = StepSimulator(config)
    first = dataclasses.replace(stream("regular", 1.0), expected_share=0.8)
    simulator.at(0.0, first)
    simulator.at(2.0, stream("stranger", 1.0))
    simulator.at(20.0, stream("later", 1.0))
    simulator.run()
    assert set(simulator.refusals) == {"stranger"}
    assert {"regular", "later"} <= set(simulator.ended)


def test_first_audio_comes_before_streams_that_have_a_lead() -> None:
    simulator = StepSimulator(CONFIG, Device())
    for index in range(10):
        simulator.at(0.0, stream(f"s{index}", 6.0))
    simulator.at(2.0, stream("new", 1.0, prompt=60))
    simulator.run()
    assert simulator.first_s["new"] - 2.0 < 0.05


def test_stream_whose_audio_is_not_routed_stops_at_what_may_be_in_flight() -> None:
    simulator = StepSimulator(CONFIG, routed=False)
    simulator.at(0.0, stream("s", 6.0))
    simulator.run(until_s=3.0)
    (sequence,) = simulator.scheduler.running.values()
    assert sequence.made == int(CONFIG.in_flight_s * RATE)


def test_pause_of_the_listener_is_no_underrun() -> None:
    simulator = StepSimulator(CONFIG)
    simulator.at(0.0, stream("s", 10.0))
    simulator.run(until_s=2.0)
    (sequence,) = simulator.scheduler.running.values()
    simulator.scheduler.playout("s", sequence.routed_s, 5.0, simulator.now_s)
    simulator.now_s += 5.0
    simulator.run()
    assert simulator.scheduler.underruns == 0


def test_without_pace_streams_run_as_fast_as_they_can() -> None:
    simulator = StepSimulator(dataclasses.replace(CONFIG, pace=False, admission=False))
    simulator.at(0.0, stream("s", 4.0))
    simulator.run()
    assert simulator.now_s < 2.0


def test_machine_that_has_become_slow_sheds_those_who_have_not_spoken() -> None:
    simulator = StepSimulator(CONFIG, Device())
    for index in range(10):
        simulator.at(0.0, stream(f"s{index}", 10.0))
    simulator.run(until_s=1.0)
    simulator.device = Device(base_s=0.03)
    for index in range(3):
        simulator.scheduler.waiting[f"late{index}"] = Sequence.of(stream(f"late{index}"), 1.0)
    simulator.run(until_s=8.0)
    assert all(isinstance(error, Overloaded | Timeout) for error in simulator.refusals.values())
    assert {name for name in simulator.refusals if name.startswith("s")} == set()


def test_only_batch_work_is_preempted() -> None:
    config = dataclasses.replace(CONFIG, max_running=3, newcomer_slots=1)
    simulator = StepSimulator(config)
    for index in range(2):
        simulator.at(0.0, text(f"b{index}", tokens=400, tier=Tier.BATCH))
    for index in range(3):
        simulator.at(0.1, text(f"t{index}", tokens=400))
    simulator.at(0.2, text("paid", tokens=10, tier=Tier.PAID))
    simulator.run()
    assert simulator.scheduler.preempted == 2
    assert simulator.ended.index("paid") > simulator.ended.index("t0")
    assert len(simulator.ended) == 6


def test_request_longer_than_the_cache_is_refused() -> None:
    scheduler = Scheduler(CONFIG, KvBlocks(4, 16), CapacityModel())
    with pytest.raises(BadRequest, match="longer than the cache"):
        scheduler.add(Sequence.of(text("t", tokens=100), 0.0), 0.0)


def test_full_cache_queues_and_admits_when_room_comes() -> None:
    simulator = StepSimulator(CONFIG, blocks=6)
    for index in range(6):
        simulator.at(0.0, text(f"t{index}", tokens=50))  # 5 blocks each
    simulator.run()
    assert len(simulator.ended) == 6 and not simulator.refusals


def test_abort_frees_everything_before_the_next_step() -> None:
    simulator = StepSimulator(CONFIG)
    simulator.at(0.0, text("a", tokens=500))
    simulator.run(until_s=0.05)
    assert simulator.kv.used > 0
    assert simulator.scheduler.abort("a") and not simulator.scheduler.abort("a")
    assert simulator.kv.used == 0 and not simulator.scheduler.plan(1.0).parts
