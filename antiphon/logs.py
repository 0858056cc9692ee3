"""Sets up structured logs: one JSON object a line, or readable lines on a terminal."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from antiphon.config_sections import LogsSection
from streams.context import CURRENT_SESSION

CONTENT_KEYS = frozenset({"text", "transcript", "instructions", "audio", "payload"})
"""Fields that may hold what people say. They are dropped unless the operator wants them."""

Event = MutableMapping[str, Any]


def setup_logs(settings: LogsSection, stream: TextIO | None = None) -> None:
    """Sends structlog's and the standard library's records through one set of processors.

    Fields bound with `structlog.contextvars` (session, protocol) appear in every line of
    the task that bound them.

    Args:
        settings: level, format and whether content is written.
        stream: where to; stderr if None.
    """
    stream = stream or sys.stderr
    console = settings.format == "console" or (settings.format == "auto" and stream.isatty())
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        add_session,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if not settings.content:
        shared.append(drop_content)
    last: list[structlog.types.Processor] = (
        [structlog.dev.ConsoleRenderer(colors=stream.isatty())]
        if console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.level.upper())


def add_session(_: Any, __: str, event: Event) -> Event:
    """Names the session in whose task the line was written."""
    if session_id := CURRENT_SESSION.get():
        event.setdefault("session", session_id)
    return event


def drop_content(_: Any, __: str, event: Event) -> Event:
    """Replaces what people said by its length."""
    for key in CONTENT_KEYS & event.keys():
        value = event.pop(key)
        event[f"{key}_length"] = len(value) if hasattr(value, "__len__") else None
    return event
