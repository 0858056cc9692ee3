"""What went wrong, in each wire form: one table for the session's codes and the error tree.

OpenAI's `type` and `code` follow its realtime and HTTP interfaces as far as these have a
name for the matter; close codes below 4000 are those of RFC 6455 and its registry.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from streams.errors import (
    AntiphonError,
    BadRequest,
    EngineFailed,
    NotFound,
    Overloaded,
    SessionErrorCode,
    Timeout,
    TooLarge,
    Unauthorized,
    Unsupported,
)

NORMAL_CLOSE = 1000
PROTOCOL_ERROR_CLOSE = 1002
POLICY_CLOSE = 1008
TOO_BIG_CLOSE = 1009
INTERNAL_CLOSE = 1011
IDLE_CLOSE = 4408
"""Private range; the last three digits are HTTP's 408, Request Timeout."""

MAX_REASON_BYTES = 123  # RFC 6455, 5.5: a control frame holds 125, two are the code


class OriginNotAllowed(Unauthorized):
    """Says that a page of this origin may not call."""


@dataclass(frozen=True, slots=True)
class WireError:
    """Is one row of the table.

    Attributes:
        type, code: of OpenAI's error object.
        http_status: of a request that fails with it.
        close_code: of a WebSocket that ends with it.
    """

    type: str
    code: str
    http_status: int
    close_code: int


@dataclass(frozen=True, slots=True)
class Close:
    """Tells a shell to close its WebSocket. `reason` fits into a close frame."""

    code: int = NORMAL_CLOSE
    reason: str = ""


_REQUEST = "invalid_request_error"
_SERVER = "server_error"
_C = SessionErrorCode

_SESSION: Mapping[SessionErrorCode, WireError] = MappingProxyType(
    {
        _C.BUFFER_EMPTY: WireError(_REQUEST, "input_audio_buffer_commit_empty", 400, 1008),
        _C.BUFFER_FULL: WireError(_REQUEST, "input_audio_buffer_full", 413, 1009),
        _C.RESPONSE_ACTIVE: WireError(
            _REQUEST, "conversation_already_has_active_response", 409, 1008
        ),
        _C.NO_ACTIVE_RESPONSE: WireError(_REQUEST, "response_cancel_not_active", 409, 1008),
        _C.UNKNOWN_ITEM: WireError(_REQUEST, "item_not_found", 404, 1008),
        _C.DUPLICATE_ITEM: WireError(_REQUEST, "item_create_duplicate_item_id", 409, 1008),
        _C.NOT_AUDIO: WireError(_REQUEST, "unsupported_content_type", 400, 1008),
        _C.VOICE_LOCKED: WireError(_REQUEST, "cannot_update_voice", 409, 1008),
        _C.INVALID: WireError(_REQUEST, "invalid_value", 400, 1008),
        _C.UNSUPPORTED: WireError(_REQUEST, "unsupported", 501, 1008),
        # 1001, 1011, 1012 and 1013 are those on which OpenAI's Python client reconnects.
        _C.OVERLOADED: WireError("rate_limit_error", "rate_limit_exceeded", 429, 1013),
        _C.TIMEOUT: WireError(_SERVER, "timeout", 504, INTERNAL_CLOSE),
        _C.IDLE: WireError(_REQUEST, "session_idle_timeout", 408, IDLE_CLOSE),
        _C.EXPIRED: WireError(_REQUEST, "session_expired", 408, 1001),
        _C.DRAINING: WireError(_SERVER, "server_draining", 503, 1012),
        _C.SLOW_CONSUMER: WireError(_REQUEST, "slow_consumer", 408, 1008),
        _C.INTERNAL: WireError(_SERVER, "server_error", 500, INTERNAL_CLOSE),
    }
)

_TREE: Mapping[type[AntiphonError], WireError] = MappingProxyType(
    {
        BadRequest: _SESSION[_C.INVALID],
        Unauthorized: WireError(_REQUEST, "invalid_api_key", 401, 1008),
        OriginNotAllowed: WireError(_REQUEST, "origin_not_allowed", 403, 1008),
        NotFound: WireError(_REQUEST, "not_found", 404, 1008),
        TooLarge: WireError(_REQUEST, "too_large", 413, TOO_BIG_CLOSE),
        Overloaded: _SESSION[_C.OVERLOADED],
        Timeout: _SESSION[_C.TIMEOUT],
        EngineFailed: _SESSION[_C.INTERNAL],
        Unsupported: _SESSION[_C.UNSUPPORTED],
        AntiphonError: _SESSION[_C.INTERNAL],
    }
)


def wire_error(cause: SessionErrorCode | AntiphonError) -> WireError:
    """Returns the row of a session's code or of an error, by its nearest class."""
    if isinstance(cause, SessionErrorCode):
        return _SESSION[cause]
    return next(_TREE[kind] for kind in type(cause).__mro__ if kind in _TREE)


def close_for(code: SessionErrorCode | None, message: str) -> Close:
    """Returns how a session that ended with `code` closes; None is a clean end."""
    if code is None:
        return Close(NORMAL_CLOSE, close_reason(message))
    return Close(_SESSION[code].close_code, close_reason(message))


def close_reason(text: str) -> str:
    """Returns as much of `text` as a close frame holds."""
    encoded = text.encode("utf-8", "replace")[:MAX_REASON_BYTES]
    return encoded.decode("utf-8", "ignore")


def with_retry_hint(message: str, retry_after_s: float | None) -> str:
    """Returns the message with the time after which a new try makes sense."""
    if retry_after_s is None:
        return message
    return f"{message.rstrip('.')}. Please try again in {retry_after_s:g}s."


def error_body(error: AntiphonError) -> dict[str, dict[str, str | None]]:
    """Returns the JSON body with which an HTTP request or an upgrade is refused."""
    row = wire_error(error)
    message = with_retry_hint(error.message, getattr(error, "retry_after_s", None))
    return {"error": {"type": row.type, "code": row.code, "message": message, "param": error.param}}
