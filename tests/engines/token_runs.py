"""Drives a token engine without a host, on a clock that every step moves on."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from engines.base import GenerateRequest, TokenDelta
from engines.errors import AntiphonError
from engines.torch.step_engine import Output
from engines.torch.token_engine import TokenStepEngine

STEP_S = 0.01


@dataclass
class Runs:
    """Collects what each request got.

    Attributes:
        deltas: by request id.
        errors: by request id.
        now_s: the clock.
    """

    engine: TokenStepEngine
    deltas: dict[str, list[TokenDelta]] = field(default_factory=dict)
    errors: dict[str, AntiphonError] = field(default_factory=dict)
    now_s: float = 0.0

    def add(self, *requests: GenerateRequest) -> None:
        for request in requests:
            self.engine.add(request, self.now_s)

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self._keep(self.engine.expire(self.now_s))
            self._keep(self.engine.step(self.now_s))
            self.now_s += STEP_S

    def finish(self, most_steps: int = 2000) -> None:
        """Steps until nobody wants to run."""
        for _ in range(most_steps):
            if self.engine.urgency(self.now_s) is None:
                return
            self.step()
        raise AssertionError("the engine does not come to an end")

    def ids(self, request_id: str) -> tuple[int, ...]:
        return tuple(token for delta in self.deltas[request_id] for token in delta.ids)

    def _keep(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if output.error is not None:
                self.errors[output.request_id] = output.error
            if isinstance(output.payload, TokenDelta):
                self.deltas.setdefault(output.request_id, []).append(output.payload)


def run_alone(engine: TokenStepEngine, request: GenerateRequest) -> list[int]:
    """Returns the ids that a request gets from an engine that has nothing else to do."""
    runs = Runs(engine)
    runs.add(request)
    runs.finish()
    if (error := runs.errors.get(request.ticket.request_id)) is not None:
        raise error
    return list(runs.ids(request.ticket.request_id))
