"""One engine as its host sees it: what runs in it, what it costs, and how it fails.

Whatever an engine raises ends here, as typed errors of that engine's own requests.
"""

import logging
import time
from dataclasses import replace

from engines.base import EngineStats
from engines.errors import AntiphonError, EngineFailed
from engines.torch.messages import Delivery, Playout
from engines.torch.step_engine import Output, Request, StepEngine, Urgency

logger = logging.getLogger(__name__)

_STEP_WEIGHT = 0.1  # of the newest step in the mean


class Hosted:
    """Wraps a step engine; nothing but a bug in this file raises.

    Args:
        name: what the engine is called in messages.
        engine: the engine, loaded.
    """

    def __init__(self, name: str, engine: StepEngine) -> None:
        self.name = name
        self.engine = engine
        self._running: set[str] = set()
        self._outputs: list[Output] = []
        self._aborted: list[str] = []
        self._steps = 0
        self._busy_s = 0.0
        self._wait_s = 0.0
        self._restarts = 0
        self._step_s = 0.0  # what a step takes of late

    def submit(self, request: Request, now_s: float) -> None:
        """Hands a request in; a refusal becomes its output."""
        request_id = request.ticket.request_id
        try:
            self.engine.add(request, now_s)
        except AntiphonError as error:
            self._outputs.append(Output(request_id, last=True, error=error))
        except Exception:
            logger.exception("engine %s could not take request %s", self.name, request_id)
            self._outputs.append(Output(request_id, last=True, error=self._failure()))
        else:
            self._running.add(request_id)

    def abort(self, request_id: str) -> None:
        """Ends a request and acknowledges it, whether it was running or not."""
        self._running.discard(request_id)
        try:
            self.engine.abort(request_id)
        except Exception:
            logger.exception("engine %s failed while it aborted %s", self.name, request_id)
        self._aborted.append(request_id)

    def abort_all(self) -> None:
        """Ends everything that runs."""
        for request_id in tuple(self._running):
            self.abort(request_id)

    def playout(self, message: Playout, now_s: float) -> None:
        """Passes on what a listener has got."""
        try:
            self.engine.playout(message.request_id, message.routed_s, message.paused_s, now_s)
        except Exception:
            self._fail_all()

    def urgency(self, now_s: float) -> Urgency | None:
        """Says by when the next step must start; None if there is none."""
        try:
            urgency = self.engine.urgency(now_s)
        except Exception:
            self._fail_all()
            return None
        if urgency is None:
            return None
        return replace(urgency, due_s=urgency.due_s - self._step_s)

    def wakes_s(self, now_s: float) -> float | None:
        """Says when to look again though no message comes; None if there is no need."""
        try:
            return self.engine.wakes_s(now_s)
        except Exception:
            self._fail_all()
            return None

    def waited(self, seconds: float) -> None:
        """Notes that a step of this engine was ready while another engine had the device."""
        self._wait_s += seconds

    def expire(self, now_s: float) -> None:
        """Lets the engine end what has run out of time."""
        try:
            self._keep(self.engine.expire(now_s))
        except Exception:
            self._fail_all()

    def step(self, now_s: float) -> float:
        """Runs one step and returns its seconds.

        If it raises, all requests of this engine fail, and it starts again without them.
        """
        started_s = time.perf_counter()
        try:
            self._keep(self.engine.step(now_s))
        except Exception:
            self._fail_all()
        elapsed_s = time.perf_counter() - started_s
        self._busy_s += elapsed_s
        self._step_s += _STEP_WEIGHT * (elapsed_s - self._step_s)
        self._steps += 1
        return elapsed_s

    def collect(self) -> Delivery | None:
        """Takes out what has come together since the last call; None if that is nothing."""
        if not self._outputs and not self._aborted:
            return None
        delivery = Delivery(self.name, tuple(self._outputs), tuple(self._aborted))
        self._outputs.clear()
        self._aborted.clear()
        return delivery

    def stats(self) -> EngineStats:
        stats = self.engine.stats()
        return replace(
            stats,
            steps=self._steps,
            busy_s=self._busy_s,
            wait_s=self._wait_s,
            restarts=stats.restarts + self._restarts,
        )

    def _keep(self, outputs: list[Output]) -> None:
        self._running.difference_update(out.request_id for out in outputs if out.last)
        self._outputs.extend(outputs)

    def _failure(self) -> EngineFailed:
        return EngineFailed(f"The engine {self.name} failed.")

    def _fail_all(self) -> None:
        """Fails what runs; called while the exception is being handled."""
        logger.exception("engine %s failed; %d requests end", self.name, len(self._running))
        failed = tuple(self._running)
        self.abort_all()
        self._aborted = [name for name in self._aborted if name not in failed]
        self._outputs.extend(Output(name, last=True, error=self._failure()) for name in failed)
        self._restarts += 1
        try:
            self.engine.restart()
        except Exception:
            logger.exception("engine %s could not be started again", self.name)
