from pathlib import Path

import pytest

from antiphon.server_process import ServerProcess, server_process
from engines.errors import EngineFailed


def test_server_that_ends_before_it_is_ready_is_reported_with_its_last_words(
    tmp_path: Path,
) -> None:
    with (
        pytest.raises(EngineFailed, match="unrecognized arguments: --no-such-flag"),
        server_process(tmp_path / "log", arguments=["--no-such-flag"]),
    ):
        pytest.fail("it cannot have become ready")


def test_metrics_are_read_by_name_and_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '# HELP a Some.\n# TYPE a gauge\na{engine="lm"} 1.0\na_total 2.5e+03\n\n'
    monkeypatch.setattr(ServerProcess, "get", lambda self, path: text)
    server = ServerProcess(None, 1, 2, tmp_path)  # type: ignore[arg-type]  # not started
    assert server.metrics() == {'a{engine="lm"}': 1.0, "a_total": 2500.0}
