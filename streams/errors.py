"""What a client may learn went wrong: the shared error tree, and the session's own codes."""

from enum import StrEnum

from engines.errors import (
    AntiphonError,
    BadRequest,
    EngineFailed,
    NotFound,
    Overloaded,
    Timeout,
    TooLarge,
    Unauthorized,
    Unsupported,
)

__all__ = [
    "AntiphonError",
    "BadRequest",
    "EngineFailed",
    "NotFound",
    "Overloaded",
    "SessionErrorCode",
    "Timeout",
    "TooLarge",
    "Unauthorized",
    "Unsupported",
]


class SessionErrorCode(StrEnum):
    """Names what a session refuses; every protocol maps these in one table."""

    BUFFER_EMPTY = "buffer_empty"  # commit with less than the minimum of audio
    BUFFER_FULL = "buffer_full"  # uncommitted audio over the limit; the oldest was dropped
    RESPONSE_ACTIVE = "response_active"  # a second response in one conversation
    NO_ACTIVE_RESPONSE = "no_active_response"  # nothing to cancel
    UNKNOWN_ITEM = "unknown_item"
    DUPLICATE_ITEM = "duplicate_item"
    NOT_AUDIO = "not_audio"  # truncation of an item without spoken audio
    VOICE_LOCKED = "voice_locked"  # voice changed after audio was produced
    INVALID = "invalid"  # a value out of range
    UNSUPPORTED = "unsupported"
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"
    IDLE = "idle"  # the lease ran out for want of client events
    EXPIRED = "expired"  # the session reached its longest life
    DRAINING = "draining"  # the server is going down
    SLOW_CONSUMER = "slow_consumer"  # the client does not read
    INTERNAL = "internal"
