"""Speaks phoneme ids with a VITS voice in Piper's ONNX layout: the interim voice.

onnxruntime comes with the extra `piper` and is imported only when a voice is loaded.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engines.base import Capabilities, Samples, WaveformRequest
from engines.errors import BadRequest, Unsupported
from engines.torch.step_engine import Request

# The graph cannot be cut: an utterance is one step. This is about 25 s of speech; pipelines
# send clauses, a tenth of that.
_MAX_IDS = 1000
_LENGTH_SCALES = (0.25, 4.0)


@dataclass(frozen=True, slots=True)
class VoiceConfig:
    """Is what the voice's JSON says.

    Attributes:
        sample_rate_hz: rate of the samples.
        phonemes: size of the inventory.
        noise_scale: spread of the acoustic latent; 0 speaks the same every time.
        length_scale: the voice's own pace; above 1 is slower.
        noise_w: spread of the durations.
    """

    sample_rate_hz: int
    phonemes: int
    noise_scale: float
    length_scale: float
    noise_w: float

    @classmethod
    def read(cls, path: Path) -> "VoiceConfig":
        """Reads Piper's `<voice>.onnx.json`."""
        stored = json.loads(path.read_text(encoding="utf-8"))
        inference = stored["inference"]
        return cls(
            sample_rate_hz=stored["audio"]["sample_rate"],
            phonemes=stored["num_symbols"],
            noise_scale=inference["noise_scale"],
            length_scale=inference["length_scale"],
            noise_w=inference["noise_w"],
        )


class VitsRunner:
    """Is a `RequestRunner` that delivers one `Samples` per request, in one step.

    Args:
        session: onnxruntime session of the graph.
        config: the voice's own settings.
        deterministic: switch both noises off, so that equal ids give equal samples.
    """

    def __init__(self, session: Any, config: VoiceConfig, deterministic: bool = False) -> None:
        self._session = session
        self._config = config
        self._noises = (0.0, 0.0) if deterministic else (config.noise_scale, config.noise_w)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(name="vits", sample_rate_hz=self._config.sample_rate_hz)

    def check(self, request: Request) -> None:
        """Raises `BadRequest` if these ids can never be spoken."""
        if not isinstance(request, WaveformRequest):
            raise BadRequest(f"{type(request).__name__} is not a request of this engine.")
        ids = request.phoneme_ids
        if not 0 < len(ids) <= _MAX_IDS:
            raise BadRequest(f"An utterance has 1 to {_MAX_IDS} phoneme ids, not {len(ids)}.")
        if not all(0 <= phoneme < self._config.phonemes for phoneme in ids):
            raise BadRequest(f"Phoneme ids are 0 to {self._config.phonemes - 1}.")
        low, high = _LENGTH_SCALES
        if not low <= request.length_scale <= high:
            raise BadRequest(f"The length scale is {low} to {high}.", param="length_scale")

    def run(self, request: Request) -> Iterator[object | None]:
        """Yields the utterance, float32 in -1..1."""
        assert isinstance(request, WaveformRequest)
        yield self._speak(request)

    def cache_bytes(self) -> int:
        """Returns 0: nothing is kept between steps."""
        return 0

    def _speak(self, request: WaveformRequest) -> Samples:
        ids = np.array([request.phoneme_ids], dtype=np.int64)
        noise_scale, noise_w = self._noises
        length_scale = self._config.length_scale * request.length_scale
        inputs = {
            "input": ids,
            "input_lengths": np.array([ids.shape[1]], dtype=np.int64),
            "scales": np.array([noise_scale, length_scale, noise_w], dtype=np.float32),
        }
        (audio,) = self._session.run(None, inputs)  # (1, 1, 1, samples)
        samples: Samples = np.clip(audio, -1.0, 1.0).reshape(-1)
        return samples


def load_vits(graph: Path, threads: int | None = None, deterministic: bool = False) -> VitsRunner:
    """Loads a voice: the graph and, beside it, `<graph>.json`.

    Args:
        graph: the ONNX file.
        threads: cores that a step may use, the same as the host's; None takes all.
        deterministic: as in `VitsRunner`.

    Raises:
        Unsupported: onnxruntime is not installed.
    """
    try:
        import onnxruntime  # type: ignore[import-untyped]  # it ships no stubs
    except ImportError as cause:
        raise Unsupported("This voice needs the extra `piper` (onnxruntime).") from cause
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    # Its threads would otherwise keep spinning into the steps of other engines.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(
        str(graph), sess_options=options, providers=["CPUExecutionProvider"]
    )
    return VitsRunner(
        session, VoiceConfig.read(graph.with_name(graph.name + ".json")), deterministic
    )
