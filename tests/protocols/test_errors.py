import pytest

from protocols.errors import (
    MAX_REASON_BYTES,
    close_for,
    close_reason,
    error_body,
    wire_error,
    with_retry_hint,
)
from streams import errors
from streams.errors import (
    AntiphonError,
    BadRequest,
    Overloaded,
    SessionErrorCode,
    Unauthorized,
)

TREE = [
    kind
    for name in errors.__all__
    if isinstance(kind := getattr(errors, name), type) and issubclass(kind, AntiphonError)
]


@pytest.mark.parametrize("code", SessionErrorCode)
def test_every_code_of_a_session_has_a_row_that_a_wire_can_carry(code: SessionErrorCode) -> None:
    row = wire_error(code)
    assert 400 <= row.http_status < 600
    assert row.close_code in {1001, 1008, 1009, 1011, 1012, 1013, 4408}


@pytest.mark.parametrize("kind", TREE)
def test_every_class_of_the_error_tree_has_a_row(kind: type[AntiphonError]) -> None:
    assert wire_error(kind("what happened")).code


def test_an_unknown_subclass_is_told_as_its_nearest_parent() -> None:
    class TooShort(BadRequest):
        pass

    assert wire_error(TooShort("x")) == wire_error(BadRequest("x"))


@pytest.mark.parametrize(
    ("code", "close_code"),
    [
        (None, 1000),
        (SessionErrorCode.IDLE, 4408),
        (SessionErrorCode.EXPIRED, 1001),
        (SessionErrorCode.DRAINING, 1012),
        (SessionErrorCode.OVERLOADED, 1013),
        (SessionErrorCode.INTERNAL, 1011),
        (SessionErrorCode.SLOW_CONSUMER, 1008),
    ],
)
def test_each_end_has_its_documented_close_code(
    code: SessionErrorCode | None, close_code: int
) -> None:
    assert close_for(code, "why").code == close_code


def test_close_reason_is_cut_between_characters() -> None:
    reason = close_reason("a" + "ü" * 200)
    assert len(reason.encode()) <= MAX_REASON_BYTES
    assert reason.strip("aü") == ""


def test_retry_time_is_named_where_there_is_one() -> None:
    assert with_retry_hint("All is full.", 2.5) == "All is full. Please try again in 2.5s."
    assert with_retry_hint("All is full.", None) == "All is full."


def test_http_body_names_type_code_and_field() -> None:
    body = error_body(BadRequest("No such voice.", param="voice"))
    assert body["error"] == {
        "type": "invalid_request_error",
        "code": "invalid_value",
        "message": "No such voice.",
        "param": "voice",
    }
    assert "again in 4s" in str(
        error_body(Overloaded("Full.", retry_after_s=4))["error"]["message"]
    )
    assert error_body(Unauthorized("No."))["error"]["code"] == "invalid_api_key"
