"""Runs `antiphon serve` as a child process: for benchmarks and end-to-end tests."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engines.errors import EngineFailed, Timeout

_POLL_S = 0.2
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback needs no proxy


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """Is a server of our own that has said it is ready.

    Attributes:
        process: the child.
        port, grpc_port: where it listens, on 127.0.0.1.
        log: file with all it writes.
    """

    process: subprocess.Popen[bytes]
    port: int
    grpc_port: int
    log: Path

    @property
    def base_url(self) -> str:
        """Returns the address of the page and of the HTTP routes."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws_url(self) -> str:
        """Returns the address of the Realtime protocol."""
        return f"ws://127.0.0.1:{self.port}/v1/realtime"

    def get(self, path: str, timeout_s: float = 5.0) -> str:
        """Returns the body at `path`; raises OSError where there is none."""
        try:
            with _OPENER.open(self.base_url + path, timeout=timeout_s) as answer:
                return bytes(answer.read()).decode()
        except urllib.error.HTTPError as refusal:
            refusal.close()  # it holds the connection
            raise

    def metrics(self) -> dict[str, float]:
        """Returns each series of /metrics by its name and labels, as it is written there."""
        lines = (line for line in self.get("/metrics").splitlines() if line[:1] not in ("", "#"))
        pairs = (line.rsplit(" ", 1) for line in lines)
        return {name: float(value) for name, value in pairs}

    def stop(self, timeout_s: float) -> int:
        """Sends SIGTERM and returns the exit status; kills it and raises after `timeout_s`."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            self.process.wait()
            raise Timeout(f"the server had not stopped {timeout_s:g} s after SIGTERM") from error


@contextmanager
def server_process(
    log: Path,
    *,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    ready_timeout_s: float = 120.0,
    stop_timeout_s: float = 40.0,
) -> Iterator[ServerProcess]:
    """Starts a server on free ports, yields it when it is ready, and stops it.

    Raises:
        EngineFailed: it ended before it was ready; the message holds its last words.
        Timeout: it was not ready, or did not stop, in time.
    """
    port, grpc_port = _free_ports(2)
    command = [sys.executable, "-m", "antiphon", "serve"]
    command += ["--port", str(port), "--grpc-port", str(grpc_port), *arguments]
    with log.open("wb") as sink:
        child = subprocess.Popen(
            command, stdout=sink, stderr=sink, env={**os.environ, **(environment or {})}
        )
    server = ServerProcess(child, port, grpc_port, log)
    try:
        _wait_until_ready(server, ready_timeout_s)
        yield server
    finally:
        if child.poll() is None:
            server.stop(stop_timeout_s)


def _wait_until_ready(server: ServerProcess, timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if server.process.poll() is not None:
            last_words = server.log.read_text(errors="replace").strip()[-2000:]
            raise EngineFailed(f"the server ended before it was ready: {last_words}")
        try:
            server.get("/readyz")
            return
        except OSError:  # not listening yet, or HTTP 503: urllib's errors are OSErrors
            time.sleep(_POLL_S)
    raise Timeout(f"the server was not ready within {timeout_s:g} s; its log: {server.log}")


def _free_ports(count: int) -> list[int]:
    """Returns ports that are free now; all are held until the last is known."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
