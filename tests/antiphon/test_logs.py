"""The logs: JSON lines with the session's fields, and no content unless asked for."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog

from antiphon.config_sections import LogsSection
from antiphon.logs import setup_logs


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def start(*, level: Literal["info", "warning"] = "info", content: bool = False) -> io.StringIO:
    stream = io.StringIO()
    setup_logs(LogsSection(level=level, content=content), stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_line_carries_level_time_logger_and_the_bound_session() -> None:
    stream = start()
    with structlog.contextvars.bound_contextvars(session_id="sess_1"):
        structlog.stdlib.get_logger("streams").info("opened", protocol="openai")
    (line,) = lines(stream)
    assert line["event"] == "opened"
    assert (line["level"], line["logger"]) == ("info", "streams")
    assert (line["session_id"], line["protocol"]) == ("sess_1", "openai")
    assert str(line["timestamp"]).endswith("Z")


def test_standard_library_records_take_the_same_way() -> None:
    stream = start(level="warning")
    logging.getLogger("uvicorn").warning("port %d is slow", 8000)
    logging.getLogger("uvicorn").info("not worth a line")
    (line,) = lines(stream)
    assert (line["event"], line["logger"]) == ("port 8000 is slow", "uvicorn")


def test_content_is_replaced_by_its_length() -> None:
    stream = start()
    structlog.stdlib.get_logger().info("final", transcript="my pin is 1234")
    assert "1234" not in stream.getvalue()
    assert lines(stream)[0]["transcript_length"] == 14


def test_content_is_written_where_the_operator_wants_it() -> None:
    stream = start(content=True)
    structlog.stdlib.get_logger().info("final", transcript="hello")
    assert lines(stream)[0]["transcript"] == "hello"


def test_exception_is_one_json_line() -> None:
    stream = start()
    try:
        raise ValueError("odd")
    except ValueError:
        structlog.stdlib.get_logger().exception("step failed")
    (line,) = lines(stream)
    assert "ValueError: odd" in str(line["exception"])


def test_console_form_is_for_people() -> None:
    stream = io.StringIO()
    setup_logs(LogsSection(format="console"), stream)
    structlog.stdlib.get_logger().info("opened", protocol="openai")
    assert "opened" in stream.getvalue()
    assert not stream.getvalue().startswith("{")
