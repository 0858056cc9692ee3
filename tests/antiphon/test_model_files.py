from dataclasses import replace
from pathlib import Path

import pytest

from antiphon.model_catalogue import Conversion
from antiphon.model_files import (
    MANIFEST_NAME,
    FileDigest,
    Manifest,
    ModelDamaged,
    check_files,
    describe_files,
    fingerprint,
    read_manifest,
    write_manifest,
)
from tests.support.wheels import small_entry


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "weights.bin").write_bytes(b"weights")
    (tmp_path / "config.json").write_bytes(b"{}")
    return tmp_path


def manifest_of(directory: Path) -> Manifest:
    return Manifest("f1", "a test", describe_files(directory))


def test_manifest_reads_back_and_does_not_describe_itself(directory: Path) -> None:
    written = manifest_of(directory)
    write_manifest(directory, written)
    assert read_manifest(directory) == written
    assert describe_files(directory).keys() == {"weights.bin", "config.json"}


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"files": {}}', '{"fingerprint": "f", "source": "s", "files": [1]}'],
)
def test_manifest_that_cannot_be_read_counts_as_none(directory: Path, content: str) -> None:
    assert read_manifest(directory) is None
    (directory / MANIFEST_NAME).write_text(content)
    assert read_manifest(directory) is None


def test_intact_files_pass_and_further_ones_do_not_disturb(directory: Path) -> None:
    expected = describe_files(directory)
    (directory / "notes.txt").touch()
    check_files(directory, expected)


def test_missing_file_is_named(directory: Path) -> None:
    expected = describe_files(directory)
    (directory / "weights.bin").unlink()
    with pytest.raises(ModelDamaged, match=r"weights\.bin is missing"):
        check_files(directory, expected)


def test_file_of_another_size_is_named_with_both_sizes(directory: Path) -> None:
    expected = {"weights.bin": FileDigest(9, "0" * 64)}
    with pytest.raises(ModelDamaged, match=r"weights\.bin has 7 bytes instead of 9"):
        check_files(directory, expected, by_digest=False)


def test_changed_byte_is_found_by_digest_alone(directory: Path) -> None:
    expected = describe_files(directory)
    (directory / "weights.bin").write_bytes(b"weightz")
    check_files(directory, expected, by_digest=False)
    with pytest.raises(ModelDamaged, match=r"weights\.bin has SHA-256"):
        check_files(directory, expected)


def test_fingerprint_changes_with_pins_and_conversion_and_not_with_words() -> None:
    entry = small_entry(conversion=Conversion("kind", ("out",), 1))
    assert fingerprint(entry) == fingerprint(replace(entry, licence="another", provenance="x"))
    changed = [
        small_entry(),
        replace(entry, conversion=Conversion("kind", ("out",), 1, revision=2)),
        replace(entry, files=(replace(entry.files[0], sha256="0" * 64), *entry.files[1:])),
    ]
    assert len({fingerprint(entry), *map(fingerprint, changed)}) == 4
