import logging
import pickle
import queue
import threading

import numpy as np
import pytest
import torch

from engines.base import Ticket, TokenDelta
from engines.errors import BadRequest, EngineFailed, NotFound, Overloaded, Timeout
from engines.torch.host import EngineHost
from engines.torch.messages import (
    Abort,
    Delivery,
    HostDown,
    Stop,
    Submit,
    VadClose,
    VadOpen,
    VadPush,
)
from engines.torch.one_by_one import OneByOneEngine
from engines.torch.step_engine import Output
from tests.engines.scripted import (
    BrokenEngine,
    ScriptedRunner,
    ask,
    counting,
    endless,
    gated,
    silent,
)

WAIT_S = 20.0


class Rig:
    """A running host whose every message, in and out, goes through pickle."""

    def __init__(self, engines, **options):
        self.host = EngineHost({name: lambda e=e: e for name, e in engines.items()}, **options)
        self.received = queue.SimpleQueue()
        self.host.connect(lambda message: self.received.put(pickle.dumps(message)))
        self.host.start()
        self.host.wait_ready(WAIT_S)

    def send(self, message):
        self.host.send(pickle.loads(pickle.dumps(message)))

    def next_message(self):
        return pickle.loads(self.received.get(timeout=WAIT_S))

    def outputs_of(self, request_id):
        """Returns the outputs of a request up to its last; drops all else on the way."""
        outputs = []
        while not (outputs and outputs[-1].last):
            message = self.next_message()
            assert isinstance(message, Delivery), message
            outputs += [out for out in message.outputs if out.request_id == request_id]
        return outputs

    def wait_aborted(self, request_id):
        while request_id not in self.next_message().aborted:
            pass


@pytest.fixture
def rig():
    rigs = []

    def start(engines, **options):
        rigs.append(Rig(engines, **options))
        return rigs[-1]

    yield start
    for each in rigs:
        each.host.close(WAIT_S)


def one_by_one(script, max_running=8):
    return OneByOneEngine(ScriptedRunner(script), max_running)


def test_a_request_crosses_pickle_both_ways_and_comes_back_in_order(rig):
    host = rig({"lm": one_by_one(counting(3))})
    host.send(Submit("lm", ask("a")))
    outputs = host.outputs_of("a")
    assert [output.payload.ids for output in outputs] == [(0,), (1,), (2,)]
    stats = host.host.stats("lm")
    assert (stats.steps, stats.finished, stats.tokens) == (3, 1, 3)
    assert stats.busy_s > 0.0


@pytest.mark.parametrize(
    "message",
    [
        Submit("vad", VadOpen(Ticket("s"))),
        Submit("vad", VadClose(Ticket("c"), "s")),
        Abort("lm", "a"),
        Stop(),
        Delivery("lm", (Output("a", TokenDelta("a", (1,)), last=True),), ("b",)),
    ],
)
def test_messages_are_equal_after_pickle(message):
    assert pickle.loads(pickle.dumps(message)) == message


def test_samples_and_errors_keep_their_content_after_pickle():
    push = VadPush(Ticket("p"), "s", np.arange(4, dtype=np.float32))
    assert pickle.loads(pickle.dumps(push)).samples.tolist() == [0, 1, 2, 3]
    output = Output("a", last=True, error=Overloaded("full", retry_after_s=3.0))
    error = pickle.loads(pickle.dumps(output)).error
    assert (type(error), error.message, error.retry_after_s) == (Overloaded, "full", 3.0)
    down = pickle.loads(pickle.dumps(HostDown(BadRequest("no", param="a.b"))))
    assert (down.error.message, down.error.param) == ("no", "a.b")


def test_abort_frees_the_generator_and_is_acknowledged_after_the_last_output(rig):
    engine = one_by_one(endless)
    host = rig({"lm": engine})
    host.send(Submit("lm", ask("a")))
    host.next_message()
    host.send(Abort("lm", "a"))
    host.wait_aborted("a")
    assert engine.stats().running == 0
    assert host.host.stats("lm").aborted == 1
    host.send(Submit("lm", ask("b")))
    assert [out.request_id for out in host.next_message().outputs] == ["b"]


def test_abort_takes_effect_before_the_next_step(rig):
    steps, held = threading.Semaphore(0), threading.Semaphore(0)

    def script(request):
        while True:
            steps.release()
            assert held.acquire(timeout=WAIT_S)
            yield None

    engine = OneByOneEngine(runner := ScriptedRunner(script), 1)
    host = rig({"lm": engine})
    host.send(Submit("lm", ask("a")))
    assert steps.acquire(timeout=WAIT_S)  # the first step runs
    host.send(Abort("lm", "a"))
    held.release()
    host.wait_aborted("a")
    assert runner.stepped == ["a"]
    assert not runner.alive


def test_abort_of_an_unknown_request_or_engine_is_acknowledged_too(rig):
    host = rig({"lm": one_by_one(endless)})
    host.send(Abort("lm", "nobody"))
    host.wait_aborted("nobody")
    host.send(Abort("nothing", "x"))
    host.wait_aborted("x")
    assert host.host.stats("lm").aborted == 0


def test_refusals_come_back_as_typed_errors(rig):
    host = rig({"lm": one_by_one(silent, max_running=1)})
    host.send(Submit("lm", ask("a")))
    for engine, request_id, kind in (
        ("lm", "b", Overloaded),
        ("lm", "malformed", BadRequest),
        ("nothing", "c", NotFound),
    ):
        host.send(Submit(engine, ask(request_id)))
        (output,) = host.outputs_of(request_id)
        assert isinstance(output.error, kind)


def test_a_request_past_its_time_ends_although_its_engine_is_never_the_most_urgent(rig):
    host = rig({"busy": one_by_one(silent), "starved": one_by_one(silent)})
    host.send(Submit("busy", ask("b", due_in_s=-100.0)))
    host.send(Submit("starved", ask("s", timeout_s=0.05)))
    (output,) = host.outputs_of("s")
    assert isinstance(output.error, Timeout)


def test_the_engine_with_least_slack_is_stepped_first(rig):
    gate, order = threading.Event(), []

    def noting(request):
        order.append(request.ticket.request_id)
        yield TokenDelta(request.ticket.request_id, (1,))

    host = rig({"gate": one_by_one(gated(gate)), "a": one_by_one(noting), "b": one_by_one(noting)})
    host.send(Submit("gate", ask("g", due_in_s=-1.0)))
    host.send(Submit("a", ask("later", due_in_s=9.0)))
    host.send(Submit("b", ask("sooner", due_in_s=5.0)))
    gate.set()
    host.outputs_of("later")
    assert order == ["sooner", "later"]


def test_a_failing_engine_fails_its_own_requests_and_the_host_lives_on(rig, caplog):
    broken = BrokenEngine()
    host = rig({"broken": broken, "lm": one_by_one(counting(2))})
    with caplog.at_level(logging.ERROR):
        host.send(Submit("broken", ask("x")))
        (output,) = host.outputs_of("x")
    assert isinstance(output.error, EngineFailed)
    assert "RuntimeError: broken on purpose" in caplog.text
    assert not broken.held
    host.send(Submit("lm", ask("a")))
    assert len(host.outputs_of("a")) == 2
    host.send(Submit("broken", ask("y")))
    assert isinstance(host.outputs_of("y")[-1].error, EngineFailed)


def test_steps_run_on_the_host_thread_without_autograd_and_on_the_given_cores(rig):
    def script(request):
        yield (
            threading.current_thread().name,
            torch.is_inference_mode_enabled(),
            torch.get_num_threads(),
        )

    host = rig({"lm": one_by_one(script)}, threads=1)
    host.send(Submit("lm", ask("a")))
    assert host.outputs_of("a")[0].payload == ("engine-host", True, 1)


def test_capabilities_are_known_after_loading(rig):
    host = rig({"lm": one_by_one(endless)})
    assert host.host.capabilities["lm"].max_context == 64


def test_what_a_factory_raises_comes_out_of_wait_ready_and_nothing_is_served(caplog):
    def load():
        raise FileNotFoundError("weights.bin")

    host = EngineHost({"lm": load})
    host.start()
    with pytest.raises(EngineFailed, match=r"lm could not be loaded.*weights\.bin") as caught:
        host.wait_ready(WAIT_S)
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    with pytest.raises(EngineFailed):
        host.send(Submit("lm", ask("a")))
    host.close(WAIT_S)


def test_a_typed_load_error_is_raised_as_it_is():
    def load():
        raise NotFound("no such model")

    host = EngineHost({"lm": load})
    host.start()
    with pytest.raises(NotFound, match="no such model"):
        host.wait_ready(WAIT_S)
    host.close(WAIT_S)


def test_waiting_for_a_slow_load_ends_with_timeout():
    gate = threading.Event()

    def load():
        gate.wait(WAIT_S)
        return one_by_one(endless)

    host = EngineHost({"lm": load})
    host.start()
    with pytest.raises(Timeout):
        host.wait_ready(0.01)
    gate.set()
    host.wait_ready(WAIT_S)
    host.close(WAIT_S)


def test_close_frees_what_runs_and_says_goodbye(rig):
    engine = OneByOneEngine(runner := ScriptedRunner(endless), 2)
    host = rig({"lm": engine})
    host.send(Submit("lm", ask("a")))
    host.next_message()
    host.host.close(WAIT_S)
    while not isinstance(message := host.next_message(), HostDown):
        pass
    assert isinstance(message.error, EngineFailed)
    assert not runner.alive
    with pytest.raises(EngineFailed, match="shut down"):
        host.host.send(Abort("lm", "a"))
    host.host.close(WAIT_S)  # a second time does nothing


def test_a_host_that_dies_frees_all_engines_and_says_so(rig, caplog):
    def script(request):
        yield TokenDelta(request.ticket.request_id, (1,))
        raise SystemExit("on purpose")

    host = rig(
        {"bad": one_by_one(script), "lm": OneByOneEngine(runner := ScriptedRunner(silent), 2)}
    )
    host.send(Submit("lm", ask("a", due_in_s=0.0)))
    host.send(Submit("bad", ask("x", due_in_s=-9.0)))
    while not isinstance(message := host.next_message(), HostDown):
        pass
    assert message.error.message == "The engine host died."
    assert "SystemExit: on purpose" in caplog.text
    assert not runner.alive
    with pytest.raises(EngineFailed, match="died"):
        host.send(Submit("lm", ask("b")))
    with pytest.raises(EngineFailed, match="died"):
        host.host.wait_ready(WAIT_S)


def test_a_host_that_hangs_in_a_step_is_given_up_and_says_so(rig):
    gate = threading.Event()
    host = rig({"lm": one_by_one(gated(gate))})
    host.send(Submit("lm", ask("a")))
    host.host.close(timeout_s=0.05)
    assert isinstance(host.next_message(), HostDown)
    gate.set()


def test_a_host_that_was_never_started_closes_at_once():
    EngineHost({}).close()


def test_a_client_that_breaks_loses_its_requests_and_the_next_one_is_served(rig, caplog):
    engine = OneByOneEngine(runner := ScriptedRunner(endless), 4)
    host = rig({"lm": engine})
    called = threading.Event()

    def broken_sink(message):
        called.set()
        raise RuntimeError("event loop is closed")

    host.host.disconnect()
    host.host.connect(broken_sink)
    host.send(Submit("lm", ask("a")))
    assert called.wait(WAIT_S)
    while host.host.stats("lm").running:
        pass
    assert not runner.alive
    host.host.connect(lambda message: host.received.put(pickle.dumps(message)))
    host.send(Submit("lm", ask("b")))
    while not (outputs := host.next_message().outputs):
        pass
    assert outputs[0].request_id == "b"


def test_a_second_client_at_the_same_time_is_refused(rig):
    host = rig({"lm": one_by_one(endless)})
    with pytest.raises(RuntimeError, match="already has a client"):
        host.host.connect(print)


def test_a_thousand_requests_opened_and_aborted_leave_nothing(rig):
    engine = OneByOneEngine(runner := ScriptedRunner(endless), 4)
    host = rig({"lm": engine})
    for number in range(1000):
        host.send(Submit("lm", ask(f"r{number}")))
        host.send(Abort("lm", f"r{number}"))
    host.wait_aborted("r999")
    assert engine.stats().running == 0
    assert not runner.alive
    assert engine.stats().cache_bytes == 0
