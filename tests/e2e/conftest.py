"""One real server for all end-to-end tests: a subprocess, with the real embedded models."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.model_catalogue import TINY_PRESET
from antiphon.server_process import ServerProcess, server_process
from tests.support.models import model_path

DRAIN_S = 30.0
AUDIO = Path(__file__).parents[1] / "data" / "audio"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Yields a server that is ready; at the end it must drain, exit 0 and have logged no bug."""
    for entry in TINY_PRESET:
        model_path(entry.name)  # fetched here, so that a slow network is no slow start
    log = tmp_path_factory.mktemp("server") / "server.log"
    with server_process(log) as running:
        yield running
        status = running.stop(DRAIN_S)
    written = log.read_text()
    assert "Traceback" not in written, written
    assert status == 0, written
