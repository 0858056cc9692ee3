"""What a model's directory holds, and whether it still does: digests and manifests."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from antiphon.model_catalogue import ModelEntry
from engines.errors import AntiphonError

MANIFEST_NAME = "files.json"


class ModelDamaged(AntiphonError):
    """Says that a file is not what the catalogue or the manifest says it must be."""


@dataclass(frozen=True, slots=True)
class FileDigest:
    """Is what a file must be."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Says what a model's directory holds; written last, so that its presence means all.

    Attributes:
        fingerprint: of the catalogue entry that the directory was made for.
        source: where the files came from.
        files: by name.
    """

    fingerprint: str
    source: str
    files: Mapping[str, FileDigest]


def fingerprint(entry: ModelEntry) -> str:
    """Returns a digest that changes with an entry's pins or its conversion."""
    pins = [(file.name, file.sha256) for file in entry.files]
    made = (entry.conversion.kind, entry.conversion.revision) if entry.conversion else None
    return hashlib.sha256(json.dumps([pins, made]).encode()).hexdigest()


def describe_files(directory: Path) -> dict[str, FileDigest]:
    """Reads all files of a directory and returns their sizes and digests by name."""
    return {
        path.name: FileDigest(path.stat().st_size, _sha256(path))
        for path in sorted(directory.iterdir())
        if path.name != MANIFEST_NAME
    }


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Writes the manifest and returns once it and all files beside it are on the disk."""
    (directory / MANIFEST_NAME).write_text(json.dumps(asdict(manifest), indent=1) + "\n")
    for path in directory.iterdir():
        with path.open("rb") as handle:
            os.fsync(handle.fileno())


def read_manifest(directory: Path) -> Manifest | None:
    """Returns the manifest of a directory, or None if there is no readable one."""
    try:
        content = json.loads((directory / MANIFEST_NAME).read_text())
        files = {name: FileDigest(**digest) for name, digest in content["files"].items()}
        return Manifest(content["fingerprint"], content["source"], files)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def check_files(
    directory: Path, expected: Mapping[str, FileDigest], *, by_digest: bool = True
) -> None:
    """Compares files with what they must be: by size, or by size and digest.

    Raises:
        ModelDamaged: naming the first file that is missing or differs.
    """
    for name, wanted in expected.items():
        path = directory / name
        if not path.is_file():
            raise ModelDamaged(f"{name} is missing")
        if (size := path.stat().st_size) != wanted.size_bytes:
            raise ModelDamaged(f"{name} has {size} bytes instead of {wanted.size_bytes}")
        if by_digest and (digest := _sha256(path)) != wanted.sha256:
            raise ModelDamaged(
                f"{name} has SHA-256 {digest[:16]}... instead of {wanted.sha256[:16]}..."
            )


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
