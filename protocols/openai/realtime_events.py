"""The client events of OpenAI Realtime (GA) that we take, one wire class each.

Keys that an event does not know are ignored, as clients grow faster than servers; only the
session object (`session_models`) is strict, since there a lost key is a lost setting. Own
additions carry the prefix `antiphon.`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from protocols.openai.session_models import (
    Format,
    LongText,
    Millis,
    Modalities,
    OutputTokens,
    VoiceId,
)
from protocols.openai.validation import Refusal, short, validated

ID_PATTERN = r"^[a-zA-Z0-9_-]{1,128}$"
MAX_PARTS = 256

ItemId = Annotated[str, Field(pattern=ID_PATTERN)]
MetadataKey = Annotated[str, Field(max_length=64)]
MetadataValue = Annotated[str, Field(max_length=512)]
Metadata = Annotated[dict[MetadataKey, MetadataValue], Field(max_length=16)]


class WireModel(BaseModel):
    """Ignores keys that it does not know."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class ClientEvent(WireModel):
    """Is what all client events share."""

    event_id: str | None = None


class SessionUpdate(ClientEvent):
    """Changes settings; `session` is checked after it is merged."""

    type: Literal["session.update"]
    session: dict[str, Any]


class AudioAppend(ClientEvent):
    """Brings audio, base64, in the session's input format."""

    type: Literal["input_audio_buffer.append"]
    audio: str


class AudioCommit(ClientEvent):
    """Ends the utterance."""

    type: Literal["input_audio_buffer.commit"]


class AudioClear(ClientEvent):
    """Forgets uncommitted audio."""

    type: Literal["input_audio_buffer.clear"]


class OutputAudioClear(ClientEvent):
    """Drops queued output; a matter of WebRTC, taken and without effect here."""

    type: Literal["output_audio_buffer.clear"]


class ContentPart(WireModel):
    """Is a part of a message; `type` decides which of the texts counts."""

    type: Literal["input_text", "input_audio", "input_image", "output_text", "output_audio"]
    text: LongText | None = None
    transcript: LongText | None = None


class MessageItem(WireModel):
    """Is a message that the client puts into the conversation."""

    type: Literal["message"]
    role: Literal["system", "user", "assistant"]
    content: Annotated[list[ContentPart], Field(max_length=MAX_PARTS)] = []
    id: ItemId | None = None
    status: Literal["completed", "incomplete", "in_progress"] | None = None


class ItemCreate(ClientEvent):
    """Adds an item; which kinds are taken is checked by `parse_client_event`."""

    type: Literal["conversation.item.create"]
    item: MessageItem
    previous_item_id: str | None = None


class ItemDelete(ClientEvent):
    """Removes an item."""

    type: Literal["conversation.item.delete"]
    item_id: str


class ItemRetrieve(ClientEvent):
    """Asks for an item."""

    type: Literal["conversation.item.retrieve"]
    item_id: str


class ItemTruncate(ClientEvent):
    """Says how much of an assistant item was heard."""

    type: Literal["conversation.item.truncate"]
    item_id: str
    content_index: Annotated[int, Field(ge=0)] = 0
    audio_end_ms: Millis


class ResponseAudioOutput(WireModel):
    """Overrides the voice's side for one reply."""

    format: Format | None = None
    voice: str | VoiceId | None = None


class ResponseAudio(WireModel):
    """Holds the only side that a reply has."""

    output: ResponseAudioOutput | None = None


class ResponseParams(WireModel):
    """Overrides the session for one reply."""

    instructions: LongText | None = None
    output_modalities: Modalities | None = None
    max_output_tokens: OutputTokens | None = None
    audio: ResponseAudio | None = None
    metadata: Metadata | None = None
    conversation: Literal["auto", "none"] | None = None
    input: list[Any] | None = None


class ResponseCreate(ClientEvent):
    """Asks for a reply."""

    type: Literal["response.create"]
    response: ResponseParams | None = None


class ResponseCancel(ClientEvent):
    """Stops a reply."""

    type: Literal["response.cancel"]
    response_id: str | None = None


class InputEnd(ClientEvent):
    """Says that no more comes: the finals follow, then close 1000. Our own addition."""

    type: Literal["antiphon.input.end"]


AnyClientEvent = (
    SessionUpdate
    | AudioAppend
    | AudioCommit
    | AudioClear
    | OutputAudioClear
    | ItemCreate
    | ItemDelete
    | ItemRetrieve
    | ItemTruncate
    | ResponseCreate
    | ResponseCancel
    | InputEnd
)

CLIENT_EVENTS: Mapping[str, type[AnyClientEvent]] = MappingProxyType(
    {
        "session.update": SessionUpdate,
        "input_audio_buffer.append": AudioAppend,
        "input_audio_buffer.commit": AudioCommit,
        "input_audio_buffer.clear": AudioClear,
        "output_audio_buffer.clear": OutputAudioClear,
        "conversation.item.create": ItemCreate,
        "conversation.item.delete": ItemDelete,
        "conversation.item.retrieve": ItemRetrieve,
        "conversation.item.truncate": ItemTruncate,
        "response.create": ResponseCreate,
        "response.cancel": ResponseCancel,
        "antiphon.input.end": InputEnd,
    }
)


def event_id_of(data: Mapping[str, Any]) -> str | None:
    """Returns the client's own id of an event that may be malformed otherwise."""
    event_id = data.get("event_id")
    return event_id if isinstance(event_id, str) and event_id else None


def parse_client_event(data: Mapping[str, Any]) -> AnyClientEvent:
    """Returns the typed event.

    Raises:
        Refusal: an unknown type of event or item, or a field that is missing or wrong.
    """
    name = data.get("type")
    if name is None:
        message = "Missing required parameter: 'type'."
        raise Refusal("missing_required_parameter", message, "type")
    if not isinstance(name, str):
        raise Refusal("invalid_type", "'type' must be a string.", "type")
    model = CLIENT_EVENTS.get(name)
    if model is None:
        known = ", ".join(CLIENT_EVENTS)
        message = f"Unknown client event '{short(name)}'. Known are: {known}."
        raise Refusal("invalid_value", message, "type")
    item = data.get("item")
    if model is ItemCreate and isinstance(item, Mapping):
        _check_item_type(item)
    return validated(model, data)


def _check_item_type(item: Mapping[str, Any]) -> None:
    kind = item.get("type")
    if isinstance(kind, str) and kind != "message":
        message = f"Items of type '{short(kind)}' are not supported; 'message' is."
        raise Refusal("invalid_value", message, "item.type")
