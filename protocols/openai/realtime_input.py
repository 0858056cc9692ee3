"""Client events to session inputs: the translations that need no memory."""

from typing import assert_never

from protocols.openai.realtime_events import (
    AudioClear,
    AudioCommit,
    ClientEvent,
    ContentPart,
    InputEnd,
    ItemCreate,
    ItemDelete,
    ItemRetrieve,
    ItemTruncate,
    MessageItem,
    OutputAudioClear,
    ResponseCancel,
    ResponseParams,
)
from protocols.openai.session_models import VoiceId
from protocols.openai.validation import Refusal
from streams.config import ResponseOptions
from streams.events import (
    CancelResponse,
    ClearAudio,
    CommitAudio,
    CreateItem,
    DeleteItem,
    EndInput,
    Item,
    ItemStatus,
    KeepAlive,
    Part,
    PartKind,
    RetrieveItem,
    Role,
    SessionInput,
    TruncateItem,
)

SimpleEvent = (
    AudioCommit
    | AudioClear
    | OutputAudioClear
    | ItemCreate
    | ItemDelete
    | ItemRetrieve
    | ItemTruncate
    | ResponseCancel
    | InputEnd
)

_PARTS_OF_ROLE = {
    "system": ("input_text",),
    "user": ("input_text", "input_audio"),
    "assistant": ("output_text", "output_audio"),
}


MAX_OUTPUT_TOKENS = 4096
"""The most that the wire can name: "inf" lifts the session's limit for one reply."""


def make_ref(name: str, event_id: str | None) -> str:
    """Returns what an error must carry back: the event's type, then the client's id.

    The type is needed because one refusal of the session, such as an unknown item, has
    another code on the wire for each event that can meet it.
    """
    return f"{name} {event_id or ''}"


def split_ref(ref: str | None) -> tuple[str, str | None]:
    """Returns type and client's id from what `make_ref` made; both empty for None."""
    name, _, event_id = (ref or "").partition(" ")
    return name, event_id or None


def to_input(event: SimpleEvent) -> SessionInput:
    """Returns the session's input for an event.

    Raises:
        Refusal: the event asks for what is not supported.
    """
    ref = _ref(event, event.type)
    match event:
        case AudioCommit():
            return CommitAudio(ref)
        case AudioClear():
            return ClearAudio(ref)
        case OutputAudioClear():
            return KeepAlive()
        case ItemCreate():
            return CreateItem(to_item(event.item), event.previous_item_id, ref)
        case ItemDelete():
            return DeleteItem(event.item_id, ref)
        case ItemRetrieve():
            return RetrieveItem(event.item_id, ref)
        case ItemTruncate():
            return TruncateItem(event.item_id, event.audio_end_ms, event.content_index, ref)
        case ResponseCancel():
            return CancelResponse(event.response_id, ref)
        case InputEnd():
            return EndInput()
        case _:
            assert_never(event)


def to_item(message: MessageItem) -> Item:
    """Returns the item of a message. Raises `Refusal` for a part that does not fit."""
    parts = tuple(_to_part(message, index) for index in range(len(message.content)))
    incomplete = message.status == "incomplete"
    status = ItemStatus.INCOMPLETE if incomplete else ItemStatus.COMPLETED
    return Item(message.id or "", Role(message.role), parts, status)


def to_options(params: ResponseParams) -> ResponseOptions:
    """Returns the options of one reply. Raises `Refusal` for what is not supported."""
    if params.conversation == "none":
        message = "Responses outside the conversation are not supported; 'auto' is."
        raise Refusal("invalid_value", message, "response.conversation")
    if params.input is not None:
        message = "A response's own input is not supported; create items instead."
        raise Refusal("invalid_value", message, "response.input")
    tokens, modalities = params.max_output_tokens, params.output_modalities
    return ResponseOptions(
        instructions=params.instructions,
        output_audio=None if modalities is None else modalities == ["audio"],
        max_output_tokens=MAX_OUTPUT_TOKENS if isinstance(tokens, str) else tokens,
        voice=_voice(params),
        metadata=tuple((params.metadata or {}).items()),
    )


def _to_part(message: MessageItem, index: int) -> Part:
    part = message.content[index]
    where = f"item.content.{index}"
    allowed = _PARTS_OF_ROLE[message.role]
    if part.type not in allowed:
        said = f"A {message.role} message holds {' or '.join(allowed)}, not {part.type}."
        raise Refusal("invalid_value", said, f"{where}.type")
    if part.type in ("input_text", "output_text"):
        return Part(PartKind.TEXT, _needed(part, "text", where))
    # The samples of a past utterance are not kept; its words are what is remembered.
    return Part(PartKind.AUDIO, _needed(part, "transcript", where))


def _needed(part: ContentPart, field: str, where: str) -> str:
    text: str | None = getattr(part, field)
    if text is None:
        message = f"A part of type {part.type} needs '{field}'."
        raise Refusal("missing_required_parameter", message, f"{where}.{field}")
    return text


def _voice(params: ResponseParams) -> str | None:
    spoken = params.audio.output if params.audio else None
    if spoken is None or spoken.voice is None:
        return None
    return spoken.voice.id if isinstance(spoken.voice, VoiceId) else spoken.voice


def _ref(event: ClientEvent, name: str) -> str:
    return make_ref(name, event.event_id)
