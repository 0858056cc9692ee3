"""Error events: refused frames, refused inputs, and the last word before a close."""

from protocols.errors import wire_error, with_retry_hint
from protocols.openai.realtime_input import split_ref
from protocols.openai.realtime_output import Event
from protocols.openai.validation import Refusal
from streams.errors import AntiphonError, SessionErrorCode
from streams.events import SessionClosed, SessionError

_INVALID_ITEM = {
    "conversation.item.truncate": "item_truncate_invalid_item_id",
    "conversation.item.delete": "item_delete_invalid_item_id",
    "conversation.item.retrieve": "item_retrieve_invalid_item_id",
}

_SILENT_ENDS = (None, SessionErrorCode.DRAINING, SessionErrorCode.SLOW_CONSUMER)
"""Ends that only the close frame tells: some clients take any error event for fatal and do
not reconnect, and one that does not read cannot be told anything."""


def refusal_event(refusal: Refusal, event_id: str | None) -> Event:
    """Returns the event that the client's event `event_id` was not understood."""
    return _event(
        "invalid_request_error", refusal.code, refusal.message, refusal.param, event_id=event_id
    )


def session_error_event(error: SessionError) -> Event:
    """Returns the event that the session refused something, or that something failed."""
    name, event_id = split_ref(error.ref)
    row, message, param = wire_error(error.code), error.message, error.param
    code = row.code
    if error.code is SessionErrorCode.UNKNOWN_ITEM:
        code = _INVALID_ITEM.get(name, "invalid_value")
        is_create = name == "conversation.item.create"
        param = param or ("previous_item_id" if is_create else "item_id")
    if error.code is SessionErrorCode.NO_ACTIVE_RESPONSE:
        # LiveKit swallows this error by the beginning of its message.
        prefix = "" if message.startswith("Cancellation failed") else "Cancellation failed: "
        message = prefix + message
    message = with_retry_hint(message, error.retry_after_s)
    return _event(row.type, code, message, param, event_id=event_id)


def end_event(closed: SessionClosed) -> Event | None:
    """Returns what the client is told before the close, None where that says it all."""
    if closed.code is None or closed.code in _SILENT_ENDS:
        return None
    row = wire_error(closed.code)
    return _event(row.type, row.code, with_retry_hint(closed.message, closed.retry_after_s))


def door_event(error: AntiphonError) -> Event:
    """Returns the event that no session could be opened."""
    row = wire_error(error)
    message = with_retry_hint(error.message, getattr(error, "retry_after_s", None))
    return _event(row.type, row.code, message, error.param)


def _event(
    kind: str, code: str, message: str, param: str | None = None, *, event_id: str | None = None
) -> Event:
    error = {"type": kind, "code": code, "message": message, "param": param, "event_id": event_id}
    return {"type": "error", "error": error}
