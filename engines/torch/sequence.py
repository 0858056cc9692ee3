"""One request of a language model as its scheduler sees it: counts, no tensors."""

from dataclasses import dataclass, field

from engines.base import GenerateRequest, Pace, Tier
from engines.torch.kv_cache import BlockTable
from engines.torch.prefix_index import PositionKey


def position_keys(request: GenerateRequest) -> list[PositionKey]:
    """Returns what each prompt position is computed from."""
    keys: list[PositionKey] = list(request.prompt_ids)
    for span in request.spans:
        for offset in range(len(span.embeddings)):
            keys[span.position + offset] = (span.content_hash, offset)
    return keys


@dataclass(slots=True, eq=False)
class Sequence:
    """Follows one request from its arrival to its end.

    `known` positions are the prompt and the ids chosen so far; `computed` of them have keys
    and values in the cache. A running sequence always has at least one position to compute,
    and an id is chosen whenever a step brings `computed` up to `known`.

    Attributes:
        request: what was asked.
        arrived_s: when, on the engine's clock.
        keys: what each known position is computed from.
        computed: positions whose keys and values are cached.
        table: the cache blocks held; None while it waits.
        due_s: virtual deadline: when its next result is wanted.
        stepped_s: when it last ran, or arrived.
        routed_s: seconds of audio that reached the client's transport.
        paused_s: seconds for which the listener's playout stood still.
        playing_since_s: when the first audio was routed; None before.
        sits_out: whether its lead reached the high mark and has not fallen enough since.
        underran: whether its lead is below zero at present, so that one gap counts once.
    """

    request: GenerateRequest
    arrived_s: float
    keys: list[PositionKey] = field(repr=False)
    computed: int = 0
    table: BlockTable | None = None
    due_s: float = 0.0
    stepped_s: float = 0.0
    routed_s: float = 0.0
    paused_s: float = 0.0
    playing_since_s: float | None = None
    sits_out: bool = False
    underran: bool = False

    @classmethod
    def of(cls, request: GenerateRequest, now_s: float) -> "Sequence":
        """Makes the sequence of a request that arrives now."""
        keys = position_keys(request)
        due_s = now_s + request.ticket.due_in_s
        return cls(request, now_s, keys, due_s=due_s, stepped_s=now_s)

    @property
    def request_id(self) -> str:
        return self.request.ticket.request_id

    @property
    def tier(self) -> Tier:
        return self.request.ticket.tier

    @property
    def pace(self) -> Pace | None:
        return self.request.pace

    @property
    def prompt_tokens(self) -> int:
        return len(self.request.prompt_ids)

    @property
    def known(self) -> int:
        """Positions of the prompt and the ids chosen so far."""
        return len(self.keys)

    @property
    def made(self) -> int:
        """Ids chosen so far."""
        return len(self.keys) - len(self.request.prompt_ids)

    @property
    def pending(self) -> int:
        """Known positions that are not computed yet."""
        return len(self.keys) - self.computed

    @property
    def limit(self) -> int:
        """Positions that it can ever need in the cache."""
        return len(self.request.prompt_ids) + self.request.max_tokens

    @property
    def ends_s(self) -> float:
        """When its result becomes useless."""
        return self.arrived_s + self.request.ticket.timeout_s

    @property
    def admit_by_s(self) -> float:
        """When it is refused if it has not been admitted by then."""
        ticket = self.request.ticket
        if ticket.admit_within_s is not None:
            return self.arrived_s + ticket.admit_within_s
        wait_s = ticket.timeout_s if self.request.pace is None else ticket.due_in_s
        return self.arrived_s + wait_s
