import pytest

from antiphon.cli import main
from antiphon.commands.serve import greeting
from antiphon.config import load_config
from antiphon.http_server import bind

KEY = "0123456789abcdef0123"


def test_greeting_names_every_address_that_can_be_opened_or_called() -> None:
    shown = greeting(load_config(flags={"server.port": 8123, "server.grpc_port": 50123}))
    for address in (
        "http://127.0.0.1:8123/",
        "ws://127.0.0.1:8123/v1/realtime",
        "ws://127.0.0.1:8123/twilio",
        "127.0.0.1:50123",
        "antiphon talk",
    ):
        assert address in shown
    assert "open: bound to this machine only" in shown


def test_greeting_of_a_server_with_keys_does_not_call_it_open_and_shows_no_key() -> None:
    keys = [{"name": "anna", "key": KEY}]
    shown = greeting(load_config(flags={"server.host": "0.0.0.0", "access.keys": keys}))
    assert "open:" not in shown
    assert KEY not in shown


def test_greeting_puts_an_ipv6_address_into_brackets() -> None:
    assert "http://[::1]:8000/" in greeting(load_config(flags={"server.host": "::1"}))


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--host", "0.0.0.0"], "access.keys"),
        (["--port", "70000"], "server.port"),
        (["--port", "8000", "--grpc-port", "8000"], "must differ"),
        (["--set", "server.prot=1"], "did you mean server.port?"),
        (["--config", "/no/such/file.yaml"], "/no/such/file.yaml"),
    ],
)
def test_settings_that_cannot_be_served_are_bad_input_in_one_line(
    flags: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *flags]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_taken_port_is_told_before_any_model_is_loaded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.commands.serve.setup_logs", lambda section: None)
    monkeypatch.setenv("ANTIPHON_CACHE_DIR", "/dev/null/none")  # loading would fail otherwise
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port), "--grpc-port", "0"]) == 2
    assert f"antiphon: cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err
