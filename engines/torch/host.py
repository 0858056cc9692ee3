"""The engine host: one thread that owns a device and runs the steps of all its engines.

Messages in, steps, messages out. It knows no asyncio, no text and no session; its messages
are plain data, so that the same loop can serve a socket.
"""

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import assert_never

import torch

from engines.base import Capabilities, EngineStats
from engines.errors import AntiphonError, EngineFailed, NotFound, Timeout
from engines.torch.executor import most_urgent
from engines.torch.hosted import Hosted
from engines.torch.messages import (
    Abort,
    Delivery,
    FromHost,
    HostDown,
    Playout,
    Stop,
    Submit,
    ToHost,
)
from engines.torch.step_engine import Output, StepEngine, Urgency

logger = logging.getLogger(__name__)

Sink = Callable[[FromHost], None]
"""Takes messages out of the host; called on the host's thread, must not wait."""

_LEAST_IDLE_S = 0.001  # no spinning while a stream's time comes
_IDLE_S = 0.5  # an idle host wakes this often, so that leases end without traffic


class EngineHost:
    """Loads engines on a thread of its own and runs them there until it is closed.

    Args:
        factories: engine name -> function that loads it; called on the host's thread.
        threads: cores that a step may use; None leaves the choice to torch.
    """

    def __init__(
        self, factories: Mapping[str, Callable[[], StepEngine]], threads: int | None = None
    ) -> None:
        self._factories = dict(factories)
        self._threads = threads
        # Unbounded on purpose: a request that is too many must reach its engine to be
        # refused, and an abort must always get through.
        self._inbox: queue.SimpleQueue[ToHost] = queue.SimpleQueue()
        self._sink: Sink | None = None
        self._hosted: dict[str, Hosted] = {}
        self._capabilities: dict[str, Capabilities] = {}
        self._stats: dict[str, EngineStats] = {}
        self._loaded = threading.Event()
        self._going_down = threading.Lock()
        self._down: AntiphonError | None = None
        self._thread = threading.Thread(target=self._main, name="engine-host", daemon=True)

    # ------------------------------------------------------------ called from outside

    def start(self) -> None:
        """Starts the thread, which loads the engines one after another."""
        self._thread.start()

    def wait_ready(self, timeout_s: float | None = None) -> None:
        """Returns once all engines are loaded.

        Raises:
            AntiphonError: what a factory raised; `EngineFailed` where that was untyped.
            Timeout: loading took longer than `timeout_s`.
        """
        if not self._loaded.wait(timeout_s):
            raise Timeout(f"The engines were not loaded within {timeout_s} s.")
        if self._down is not None:
            raise self._down

    @property
    def capabilities(self) -> Mapping[str, Capabilities]:
        """Maps the name of each loaded engine to what it can do."""
        return self._capabilities

    def stats(self, name: str) -> EngineStats:
        """Returns the latest snapshot of an engine's work; kept when the host is down."""
        return self._stats.get(name, EngineStats())

    def connect(self, sink: Sink) -> None:
        """Sends everything that comes out to `sink`; there is one at a time."""
        if self._sink is not None:
            raise RuntimeError("the host already has a client")
        self._sink = sink

    def disconnect(self) -> None:
        """Drops everything that comes out from now on."""
        self._sink = None

    def send(self, message: ToHost) -> None:
        """Puts a message into the inbox. Raises `EngineFailed` if the host is down."""
        if self._down is not None:
            raise EngineFailed(self._down.message)
        self._inbox.put(message)

    def close(self, timeout_s: float = 10.0) -> None:
        """Ends the host after the running step, fails what is left, and joins the thread.

        A step that hangs longer than `timeout_s` is left behind on its daemon thread.
        """
        if self._thread.ident is None:
            return
        self._inbox.put(Stop())
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            logger.error("the engine host did not end within %.1f s", timeout_s)
            self._go_down(EngineFailed("The engine host hangs and was given up."))

    # ------------------------------------------------------------ on the host's thread

    def _main(self) -> None:
        error: AntiphonError = EngineFailed("The engine host is shut down.")
        try:
            if self._threads is not None:
                torch.set_num_threads(self._threads)  # counts for the calling thread only
            self._load()
            self._loaded.set()
            with torch.inference_mode():
                self._serve()
        except AntiphonError as cause:
            error = cause
        except BaseException as cause:
            logger.critical("the engine host died", exc_info=True)
            error = EngineFailed("The engine host died.")
            error.__cause__ = cause
        finally:
            for hosted in self._hosted.values():
                hosted.abort_all()
            with suppress(Exception):  # last figures are welcome; saying goodbye is a duty
                self._publish_stats()
            self._hosted.clear()
            self._go_down(error)

    def _load(self) -> None:
        for name, factory in self._factories.items():
            started_s = time.perf_counter()
            try:
                engine = factory()
            except AntiphonError:
                raise
            except Exception as cause:
                logger.exception("engine %s could not be loaded", name)
                raise EngineFailed(f"The engine {name} could not be loaded: {cause}") from cause
            self._hosted[name] = Hosted(name, engine)
            self._capabilities[name] = engine.capabilities
            logger.info("engine %s loaded in %.2f s", name, time.perf_counter() - started_s)

    def _serve(self) -> None:
        """Drains messages, picks the most urgent engine, steps it, delivers; until `Stop`."""
        chosen: str | None = None
        while True:
            for message in self._drain(wait=chosen is None):
                if isinstance(message, Stop):
                    return
                self._take(message)
            now_s = time.monotonic()
            for hosted in self._hosted.values():
                hosted.expire(now_s)
            ready = {name: hosted.urgency(now_s) for name, hosted in self._hosted.items()}
            chosen = most_urgent(ready.items())
            if chosen is not None:
                self._step(chosen, ready, now_s)
            self._publish_stats()
            for hosted in self._hosted.values():
                self._deliver(hosted.collect())

    def _step(self, chosen: str, ready: Mapping[str, Urgency | None], now_s: float) -> None:
        elapsed_s = self._hosted[chosen].step(now_s)
        for name, urgency in ready.items():
            if name != chosen and urgency is not None:
                self._hosted[name].waited(elapsed_s)

    def _idle_s(self) -> float:
        """Returns how long an idle host may wait for a message."""
        now_s = time.monotonic()
        times = (hosted.wakes_s(now_s) for hosted in self._hosted.values())
        next_s = min((wakes_s for wakes_s in times if wakes_s is not None), default=math.inf)
        return min(max(next_s - now_s, _LEAST_IDLE_S), _IDLE_S)

    def _drain(self, wait: bool) -> Iterator[ToHost]:
        """Yields what lies in the inbox; an idle host first waits for something."""
        try:
            if wait:
                yield self._inbox.get(timeout=self._idle_s())
            while True:
                yield self._inbox.get_nowait()
        except queue.Empty:
            return

    def _take(self, message: Submit | Abort | Playout) -> None:
        hosted = self._hosted.get(message.engine)
        match message:
            case Submit(engine, request):
                if hosted is not None:
                    hosted.submit(request, time.monotonic())
                    return
                error = NotFound(f"No engine is called {engine}.")
                refusal = Output(request.ticket.request_id, last=True, error=error)
                self._deliver(Delivery(engine, outputs=(refusal,)))
            case Abort(engine, request_id):
                if hosted is not None:
                    hosted.abort(request_id)
                    return
                self._deliver(Delivery(engine, aborted=(request_id,)))
            case Playout(engine):
                if hosted is not None:
                    hosted.playout(message, time.monotonic())
            case _:
                assert_never(message)

    def _publish_stats(self) -> None:
        for name, hosted in self._hosted.items():
            self._stats[name] = hosted.stats()

    def _deliver(self, message: FromHost | None) -> None:
        sink = self._sink
        if message is None or sink is None:
            return
        try:
            sink(message)
        except Exception:
            logger.exception("the client of the engine host is gone; its requests end")
            self._sink = None
            for hosted in self._hosted.values():
                hosted.abort_all()

    def _go_down(self, error: AntiphonError) -> None:
        with self._going_down:
            if self._down is not None:
                return
            self._down = error  # before the message: whoever misses it is refused by `send`
        self._loaded.set()
        self._deliver(HostDown(EngineFailed(error.message)))
