"""Session outputs to server events: speech, items and transcripts of the conversation.

Shapes follow the strictest of the known clients: which keys may be null, which are left out
instead, and that every count is an integer. `event_id` is added when an event is sent.
"""

from typing import Any

from streams.events import (
    AudioCleared,
    AudioCommitted,
    Item,
    ItemAdded,
    ItemDeleted,
    ItemDone,
    ItemRetrieved,
    ItemStatus,
    ItemTruncated,
    Part,
    PartKind,
    Role,
    SpeechStarted,
    SpeechStopped,
    TranscriptCompleted,
    TranscriptDelta,
    TranscriptFailed,
)

Event = dict[str, Any]
"""A server event, ready for JSON but for its `event_id`."""

ConversationOutput = (
    SpeechStarted
    | SpeechStopped
    | AudioCommitted
    | AudioCleared
    | ItemAdded
    | ItemDone
    | ItemDeleted
    | ItemRetrieved
    | ItemTruncated
)
TranscriptOutput = TranscriptDelta | TranscriptCompleted | TranscriptFailed

_TRANSCRIPTION = "conversation.item.input_audio_transcription"


def conversation_event(output: ConversationOutput) -> Event:
    """Returns the server event of something that happened in the conversation."""
    match output:
        case SpeechStarted(item_id, at_ms):
            return _event(
                "input_audio_buffer.speech_started", audio_start_ms=at_ms, item_id=item_id
            )
        case SpeechStopped(item_id, at_ms):
            return _event("input_audio_buffer.speech_stopped", audio_end_ms=at_ms, item_id=item_id)
        case AudioCommitted(item_id, previous):
            name = "input_audio_buffer.committed"
            return _event(name, item_id=item_id, previous_item_id=previous)
        case AudioCleared():
            return _event("input_audio_buffer.cleared")
        case ItemAdded(item, previous):
            return item_added(item, previous)
        case ItemDone(item, previous):
            return item_done(item, previous)
        case ItemDeleted(item_id):
            return _event("conversation.item.deleted", item_id=item_id)
        case ItemRetrieved(item):
            return _event("conversation.item.retrieved", item=item_object(item))
        case ItemTruncated(item_id, end_ms, index):
            return _event(
                "conversation.item.truncated",
                item_id=item_id,
                content_index=index,
                audio_end_ms=end_ms,
            )


def transcript_event(output: TranscriptOutput) -> Event:
    """Returns the server event of the speaker's words."""
    place = {"item_id": output.item_id, "content_index": 0}
    match output:
        case TranscriptDelta(text=text):
            return _event(f"{_TRANSCRIPTION}.delta", **place, delta=text)
        case TranscriptFailed(message=message):
            error = {"type": "server_error", "message": message}
            return _event(f"{_TRANSCRIPTION}.failed", **place, error=error)
        case TranscriptCompleted(text=text, duration_s=seconds, language=language):
            usage = {"type": "duration", "seconds": round(seconds, 3)}
            done = _event(f"{_TRANSCRIPTION}.completed", **place, transcript=text, usage=usage)
            return {**done, "languages": [{"code": language}]} if language else done


def item_added(item: Item, previous_item_id: str | None) -> Event:
    """Returns the event that an item is there, perhaps still growing."""
    return _event(
        "conversation.item.added", item=item_object(item), previous_item_id=previous_item_id
    )


def item_done(item: Item, previous_item_id: str | None) -> Event:
    """Returns the event that an item is as complete as it will be."""
    return _event(
        "conversation.item.done", item=item_object(item), previous_item_id=previous_item_id
    )


def item_object(item: Item) -> dict[str, Any]:
    """Returns a message item; one that is still empty has no content yet."""
    growing = item.status is ItemStatus.IN_PROGRESS
    parts = [part for part in item.parts if part.text or not growing]
    return {
        "id": item.item_id,
        "object": "realtime.item",
        "type": "message",
        "role": str(item.role),
        "status": str(item.status),
        "content": [_content(item.role, part) for part in parts],
    }


def _content(role: Role, part: Part) -> dict[str, Any]:
    side = "output" if role is Role.ASSISTANT else "input"
    if part.kind is PartKind.TEXT:
        return {"type": f"{side}_text", "text": part.text or ""}
    # A speaker's transcript is null until it is known; our own is always known.
    transcript = (part.text or "") if role is Role.ASSISTANT else part.text
    return {"type": f"{side}_audio", "transcript": transcript}


def _event(name: str, **fields: Any) -> Event:
    return {"type": name, **fields}
