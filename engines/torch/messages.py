"""What goes in and out of the engine host: small closed unions that survive pickling."""

from dataclasses import dataclass

from engines.base import Samples, Ticket
from engines.errors import AntiphonError
from engines.torch.step_engine import Output, Request

# ---------------------------------------------------------------- into the host


@dataclass(frozen=True, slots=True)
class Submit:
    """Gives a request to the engine called `engine`."""

    engine: str
    request: Request


@dataclass(frozen=True, slots=True)
class Abort:
    """Ends a request; always answered in `Delivery.aborted`, whether it ran or not."""

    engine: str
    request_id: str


@dataclass(frozen=True, slots=True)
class Playout:
    """Tells a paced stream what its listener has got; not answered.

    Attributes:
        engine: where the stream runs.
        request_id: which stream; one that is gone is no error.
        routed_s: seconds of audio that reached the client's transport since the start.
        paused_s: seconds for which playout stood still since the start.
    """

    engine: str
    request_id: str
    routed_s: float
    paused_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Stop:
    """Ends the host; what still runs fails."""


ToHost = Submit | Abort | Playout | Stop

# ---------------------------------------------------------------- out of the host


@dataclass(frozen=True, slots=True)
class Delivery:
    """Is what one turn of the host's loop made for one engine.

    Attributes:
        engine: whose it is.
        outputs: results in the order in which they were made.
        aborted: request ids that are gone now; nothing more comes for them.
    """

    engine: str
    outputs: tuple[Output, ...] = ()
    aborted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostDown:
    """Comes last: the host serves no more, and everything unfinished has failed."""

    error: AntiphonError


FromHost = Delivery | HostDown

# ---------------------------------------------------------------- voice activity requests


@dataclass(frozen=True, slots=True)
class VadOpen:
    """Starts a stream; its id is the ticket's request id, which is also the answer."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class VadPush:
    """Brings the next samples of a stream: 16 kHz, shape (chunks * 512,).

    The answer is a float32 array of speech probabilities, shape (chunks,). Tier and
    session are those that the stream was opened with.
    """

    ticket: Ticket
    stream_id: str
    samples: Samples


@dataclass(frozen=True, slots=True)
class VadClose:
    """Frees a stream; the answer is its id, known or not."""

    ticket: Ticket
    stream_id: str
