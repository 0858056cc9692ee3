"""Listens for HTTP and WebSocket: one socket, bound by us, served by uvicorn."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.applications import Starlette

from antiphon.config_sections import ServerSection
from engines.errors import BadRequest

STOP_S = 5
"""Seconds that open connections get to end once the sessions are gone."""

BACKLOG = 512


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn would close every socket before the drain."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Installs no handler."""
        yield


def bind(host: str, port: int) -> socket.socket:
    """Returns a listening socket.

    Raises:
        BadRequest: the address is taken or not ours; says what to do.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while")[0]
        raise BadRequest(
            f"cannot listen on {host}:{port}: {why}; "
            "choose another with --port, or stop what listens there (antiphon doctor)"
        ) from error


@contextlib.asynccontextmanager
async def http_server(
    app: Starlette, listener: socket.socket, settings: ServerSection
) -> AsyncIterator["asyncio.Task[None]"]:
    """Serves the application and ends with the block.

    Yields:
        The serving task; it ends before the block only if serving has failed.
    """
    server = _Server(
        uvicorn.Config(
            app,
            ws="websockets-sansio",
            ws_max_size=settings.max_frame_bytes,
            ws_ping_interval=settings.ping_interval_s,
            ws_ping_timeout=settings.ping_interval_s,
            ws_per_message_deflate=False,  # base64 audio does not shrink, and it costs a core
            lifespan="off",
            log_config=None,
            log_level="warning",  # a line for each connection is the metrics' business
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=STOP_S,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="http")
    try:
        yield serving
    finally:
        server.should_exit = True
        await asyncio.wait({serving})
