"""The typed events that go into a session and come out of it: two closed unions.

Every protocol translates its wire format to and from these; nothing here knows JSON,
base64, protobuf or a codec. `ref` is the client's own id of the event that it sent, handed
back in errors so that the client can tell which one was refused.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from engines.base import Samples
from streams.config import ResponseOptions, SessionConfig
from streams.errors import SessionErrorCode


class Role(StrEnum):
    """Says who an item of the conversation is from."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class PartKind(StrEnum):
    """Says how a part of an item came or went."""

    TEXT = "text"
    AUDIO = "audio"


class ItemStatus(StrEnum):
    """Says how far an item has come."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class Part:
    """Is a piece of an item. For audio, `text` is its transcript, None until known."""

    kind: PartKind
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """Is one message of the conversation, immutable: changes make a new one."""

    item_id: str
    role: Role
    parts: tuple[Part, ...] = ()
    status: ItemStatus = ItemStatus.COMPLETED


# ---------------------------------------------------------------- into the session


@dataclass(frozen=True, slots=True)
class AudioIn:
    """Brings audio of the speaker: mono float32, shape (samples,), at `rate_hz`."""

    samples: Samples
    rate_hz: int


@dataclass(frozen=True, slots=True)
class CommitAudio:
    """Ends the utterance now, whatever the VAD thinks."""

    ref: str | None = None


@dataclass(frozen=True, slots=True)
class ClearAudio:
    """Forgets uncommitted audio."""

    ref: str | None = None


@dataclass(frozen=True, slots=True)
class CreateItem:
    """Adds an item; `previous_item_id` "root" puts it first, None last.

    An empty `item.item_id` lets the session choose one.
    """

    item: Item
    previous_item_id: str | None = None
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteItem:
    """Removes an item from what the model remembers."""

    item_id: str
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class RetrieveItem:
    """Asks for an item as the session remembers it."""

    item_id: str
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class TruncateItem:
    """Says that the listener heard only the first `audio_end_ms` of an assistant item."""

    item_id: str
    audio_end_ms: int
    content_index: int = 0
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class CreateResponse:
    """Asks for a reply to the conversation as it stands."""

    options: ResponseOptions = field(default_factory=ResponseOptions)
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class CancelResponse:
    """Stops the running response, or the named one."""

    response_id: str | None = None
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateSession:
    """Replaces the configuration by a complete, already validated one."""

    config: SessionConfig
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class PlaybackProgress:
    """Reports, from the client's own marks, how much of an item has been played."""

    item_id: str
    played_ms: int


@dataclass(frozen=True, slots=True)
class DtmfDigit:
    """Is a key pressed on a telephone: one of 0-9 * # A-D."""

    digit: str


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """Renews the lease and does nothing else."""


@dataclass(frozen=True, slots=True)
class EndInput:
    """Says that no more comes: every final is sent, then the session closes."""


SessionInput = (
    AudioIn
    | CommitAudio
    | ClearAudio
    | CreateItem
    | DeleteItem
    | RetrieveItem
    | TruncateItem
    | CreateResponse
    | CancelResponse
    | UpdateSession
    | PlaybackProgress
    | DtmfDigit
    | KeepAlive
    | EndInput
)

# ---------------------------------------------------------------- out of the session


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """Comes first: the session exists and has this configuration."""

    session_id: str
    config: SessionConfig


@dataclass(frozen=True, slots=True)
class SessionUpdated:
    """Confirms an update."""

    config: SessionConfig


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """Says that the speaker began; `at_ms` counts received audio, pre-roll subtracted."""

    item_id: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """Says that the speaker's turn ended; `at_ms` is where the speech itself ended."""

    item_id: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class AudioCommitted:
    """Says that the buffered audio became the item `item_id`."""

    item_id: str
    previous_item_id: str | None


@dataclass(frozen=True, slots=True)
class AudioCleared:
    """Confirms `ClearAudio`."""


@dataclass(frozen=True, slots=True)
class ItemAdded:
    """Says that an item is in the conversation, perhaps still growing."""

    item: Item
    previous_item_id: str | None


@dataclass(frozen=True, slots=True)
class ItemDone:
    """Says that an item is complete, or as complete as it will be."""

    item: Item
    previous_item_id: str | None


@dataclass(frozen=True, slots=True)
class ItemDeleted:
    """Confirms `DeleteItem`."""

    item_id: str


@dataclass(frozen=True, slots=True)
class ItemRetrieved:
    """Answers `RetrieveItem`."""

    item: Item


@dataclass(frozen=True, slots=True)
class ItemTruncated:
    """Confirms `TruncateItem`; `audio_end_ms` is clamped to the audio that was sent."""

    item_id: str
    audio_end_ms: int
    content_index: int


@dataclass(frozen=True, slots=True)
class TranscriptDelta:
    """Adds stable text to the transcript of a user item; it is never taken back."""

    item_id: str
    text: str


@dataclass(frozen=True, slots=True)
class TranscriptCompleted:
    """Is the final transcript of a user item; empty where nobody spoke."""

    item_id: str
    text: str
    duration_s: float
    language: str | None = None


@dataclass(frozen=True, slots=True)
class TranscriptFailed:
    """Says that a user item could not be written down."""

    item_id: str
    message: str


@dataclass(frozen=True, slots=True)
class ResponseStarted:
    """Says that a reply is being made."""

    response_id: str
    options: ResponseOptions


@dataclass(frozen=True, slots=True)
class OutputStarted:
    """Says that the reply's item exists; its deltas follow."""

    response_id: str
    item: Item
    previous_item_id: str | None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Adds text to the reply: its words, or the transcript of its audio."""

    response_id: str
    item_id: str
    text: str


@dataclass(frozen=True, slots=True)
class AudioDelta:
    """Adds audio to the reply: mono float32 at `rate_hz`, first sample `start_sample`."""

    response_id: str
    item_id: str
    samples: Samples
    rate_hz: int
    start_sample: int


class ResponseStatus(StrEnum):
    """Says how a reply ended."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


class ResponseReason(StrEnum):
    """Says why a reply is not complete."""

    TURN_DETECTED = "turn_detected"  # the speaker barged in
    CLIENT_CANCELLED = "client_cancelled"
    MAX_OUTPUT_TOKENS = "max_output_tokens"


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts what a reply cost, in tokens and milliseconds of audio."""

    input_text_tokens: int = 0
    output_text_tokens: int = 0
    cached_tokens: int = 0
    output_audio_ms: int = 0


@dataclass(frozen=True, slots=True)
class OutputDone:
    """Says that the reply's item gets no more deltas; `item` holds its whole text."""

    response_id: str
    item: Item
    previous_item_id: str | None


@dataclass(frozen=True, slots=True)
class ResponseDone:
    """Ends a reply. `items` are its finished items; `error` is set where it failed."""

    response_id: str
    status: ResponseStatus
    items: tuple[Item, ...]
    options: ResponseOptions
    usage: Usage = field(default_factory=Usage)
    reason: ResponseReason | None = None
    error_code: SessionErrorCode | None = None
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class PlaybackCleared:
    """Tells the client to drop the audio of this reply that it has not played."""

    response_id: str
    item_id: str


@dataclass(frozen=True, slots=True)
class SessionError:
    """Says that an event was refused, or that something failed; the session lives on."""

    code: SessionErrorCode
    message: str
    ref: str | None = None
    param: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """Comes last. `code` is None after a clean end."""

    code: SessionErrorCode | None = None
    message: str = ""
    retry_after_s: float | None = None


SessionOutput = (
    SessionStarted
    | SessionUpdated
    | SpeechStarted
    | SpeechStopped
    | AudioCommitted
    | AudioCleared
    | ItemAdded
    | ItemDone
    | ItemDeleted
    | ItemRetrieved
    | ItemTruncated
    | TranscriptDelta
    | TranscriptCompleted
    | TranscriptFailed
    | ResponseStarted
    | OutputStarted
    | TextDelta
    | AudioDelta
    | OutputDone
    | ResponseDone
    | PlaybackCleared
    | SessionError
    | SessionClosed
)
