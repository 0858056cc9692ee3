"""The one error tree of Antiphon, at the bottom so that every room can raise it.

    AntiphonError
    ├── BadRequest      the request itself is wrong; repeating it cannot help
    ├── Unauthorized    no key, an unknown key, or one without the right
    ├── NotFound        a named model, item or file does not exist
    ├── TooLarge        over a configured limit
    ├── Overloaded      no capacity now; `retry_after_s` says when to come back
    ├── Timeout         a deadline passed before the work was done
    ├── EngineFailed    the engine broke; the request may be repeated
    └── Unsupported     this build, back end or model cannot do it

`str(error)` is one sentence for a reader outside the process; protocols render it and
never show a traceback.
"""


class AntiphonError(Exception):
    """Is the root of all errors that may cross a room's border.

    Args:
        message: one sentence for the person who made the request.
        param: dotted path of the offending field, where there is one.
    """

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class BadRequest(AntiphonError):
    """Says that the request is wrong in itself."""


class Unauthorized(AntiphonError):
    """Says that the caller may not do this."""


class NotFound(AntiphonError):
    """Says that something named in the request does not exist."""


class TooLarge(AntiphonError):
    """Says that a size, count or duration is over its limit."""


class Overloaded(AntiphonError):
    """Says that there is no room now.

    Args:
        message: what is full.
        retry_after_s: seconds after which a new try makes sense.
    """

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Timeout(AntiphonError):
    """Says that the work was not done in time."""


class EngineFailed(AntiphonError):
    """Says that an engine raised or died while it worked on the request."""


class Unsupported(AntiphonError):
    """Says that the running configuration cannot do what was asked."""
