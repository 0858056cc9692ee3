"""Runs Whisper requests as bounded steps: a part of the encoder, or one decoder pass."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from engines.base import Capabilities, SpeechRequest, TokenDelta
from engines.errors import BadRequest, Unsupported
from engines.torch.delivery import Delivery
from engines.torch.models.log_mel import HOP_SAMPLES, SAMPLE_RATE_HZ, LogMel
from engines.torch.models.whisper import DecoderState, Whisper
from engines.torch.sampler import (
    Choice,
    IdRules,
    Sampler,
    check_sampling,
    no_speech_probability,
)
from engines.torch.step_engine import Request
from engines.torch.stop_rules import StopRules

FRAME_SAMPLES = 2 * HOP_SAMPLES  # the encoder halves the mel rate: 20 ms
MIN_FRAMES = SAMPLE_RATE_HZ // FRAME_SAMPLES  # 1 s; shorter windows are out of training


@dataclass(frozen=True, slots=True)
class WhisperRunnerConfig:
    """Tunes the runner.

    Attributes:
        name: model name for logs and `doctor`.
        step_gflop: arithmetic in one encoder step; 18 keeps a step of whisper-base near
            100 ms on two cores in float32.
    """

    name: str = "whisper"
    step_gflop: float = 18.0


@dataclass(slots=True, eq=False)
class _Job:
    """Is what one running request holds."""

    request: SpeechRequest
    frames: int
    sampler: Sampler
    delivery: Delivery
    hidden: Tensor | None = None
    state: DecoderState | None = None

    @property
    def nbytes(self) -> int:
        hidden = 0 if self.hidden is None else self.hidden.nbytes
        return hidden + (0 if self.state is None else self.state.nbytes)


@dataclass(frozen=True, slots=True)
class _Stage:
    """Is a piece of encoder work that cannot be cut further."""

    gflop: float
    run: Callable[[_Job], None] = field(repr=False)


class WhisperRunner:
    """Implements `RequestRunner` for `SpeechRequest`.

    Args:
        model: a frozen model.
        config: knobs.
    """

    def __init__(self, model: Whisper, config: WhisperRunnerConfig | None = None) -> None:
        self._model = model
        self._config = config or WhisperRunnerConfig()
        self._log_mel = LogMel(model.config.mels)
        self._jobs: set[_Job] = set()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            name=f"torch/{self._config.name}",
            trimmed_window=True,
            draft=True,
            max_context=self._model.config.context,
        )

    def cache_bytes(self) -> int:
        """Returns the bytes of hidden states, KV and cross-KV of the running requests."""
        return sum(job.nbytes for job in self._jobs)

    def check(self, request: Request) -> None:
        """Raises `BadRequest`, or `Unsupported` for alignment weights."""
        if not isinstance(request, SpeechRequest):
            raise BadRequest("A speech engine takes speech requests only.")
        if request.want_alignment:
            raise Unsupported("This engine does not report alignment weights.")
        check_sampling(request.sampling, self._model.config.vocab)
        self._check_audio(request)
        self._check_ids(request)

    def _check_audio(self, request: SpeechRequest) -> None:
        samples, longest = request.samples, self._model.config.frames * FRAME_SAMPLES
        if samples.ndim != 1 or not samples.size:
            raise BadRequest("The audio must be mono and not empty.", param="samples")
        if samples.size > longest:
            seconds = longest / SAMPLE_RATE_HZ
            raise BadRequest(f"The audio is longer than {seconds:g} s.", param="samples")
        if not np.isfinite(samples).all():
            raise BadRequest("The audio holds values that are not numbers.", param="samples")
        if request.window_s is None:
            return
        if not 0 < request.window_s * SAMPLE_RATE_HZ <= longest:
            raise BadRequest("The window is not within the model's own.", param="window_s")
        if self._window_frames(request) * FRAME_SAMPLES < samples.size:
            raise BadRequest("The window is shorter than the audio.", param="window_s")

    def _check_ids(self, request: SpeechRequest) -> None:
        config = self._model.config
        if not request.prefix_ids:
            raise BadRequest("The decoder prefix is empty.", param="prefix_ids")
        if request.max_tokens < 1:
            raise BadRequest("max_tokens must be at least 1.", param="max_tokens")
        if len(request.prefix_ids) + request.max_tokens > config.context:
            raise BadRequest(
                f"Prefix and max_tokens exceed the context of {config.context} ids.",
                param="max_tokens",
            )
        no_speech = () if request.no_speech_id is None else (request.no_speech_id,)
        for param, ids in (
            ("prefix_ids", request.prefix_ids),
            ("draft_ids", request.draft_ids),
            ("suppress_ids", request.suppress_ids),
            ("begin_suppress_ids", request.begin_suppress_ids),
            ("allowed_first_ids", request.allowed_first_ids),
            ("no_speech_id", no_speech),
        ):
            if ids and not 0 <= min(ids) <= max(ids) < config.vocab:
                raise BadRequest("An id is outside of the vocabulary.", param=param)

    def _window_frames(self, request: SpeechRequest) -> int:
        if request.window_s is None:
            return self._model.config.frames
        # Rounded first: 0.06 s is 3 frames, though 0.06 / 0.02 is a little more.
        frames = math.ceil(round(request.window_s * SAMPLE_RATE_HZ / FRAME_SAMPLES, 6))
        return min(max(frames, MIN_FRAMES), self._model.config.frames)

    def run(self, request: Request) -> Iterator[TokenDelta | None]:
        """Yields None per encoder step, then a delta per decoder step and a closing one.

        The first decoder step reads the prefix and, for a greedy request, verifies the
        draft: its delta then carries all ids that the model agrees with, and one of its own.
        """
        assert isinstance(request, SpeechRequest)
        job = self._new_job(request)
        self._jobs.add(job)
        try:
            yield from self._encode(job)
            first = self._start(job)
            yield from job.delivery.run(first, partial(self._advance, job))
        finally:
            self._jobs.discard(job)

    def _new_job(self, request: SpeechRequest) -> _Job:
        rules = IdRules(request.suppress_ids, request.begin_suppress_ids, request.allowed_first_ids)
        delivery = Delivery(
            request.ticket.request_id,
            StopRules(frozenset(request.stop_ids), request.max_tokens),
            prompt_tokens=len(request.prefix_ids),
        )
        sampler = Sampler(request.sampling, rules, request.prefix_ids)
        return _Job(request, self._window_frames(request), sampler, delivery)

    def _encode(self, job: _Job) -> Iterator[None]:
        spent = 0.0
        for stage in self._stages(job.frames):
            if spent and spent + stage.gflop > self._config.step_gflop:
                yield None
                spent = 0.0
            # Not around the yield: the mode is the thread's, and would leak to its caller.
            with torch.inference_mode():
                stage.run(job)
            spent += stage.gflop
        yield None

    def _stages(self, frames: int) -> Iterator[_Stage]:
        config = self._model.config
        width, ffn = config.width, config.encoder_ffn
        stem = 2 * 3 * width * (2 * config.mels + width) * frames
        linear = 2 * width * (4 * width + 2 * ffn) * frames
        attention = 4 * frames * frames * width
        cross = 4 * width * width * frames * config.decoder_layers
        yield _Stage(stem / 1e9, self._stem)
        for index in range(config.encoder_layers):
            yield _Stage((linear + attention) / 1e9, partial(self._encoder_layer, index))
        yield _Stage(cross / 1e9, self._read_audio)

    def _stem(self, job: _Job) -> None:
        samples = torch.from_numpy(np.ascontiguousarray(job.request.samples, np.float32).copy())
        mel = self._log_mel(samples, job.frames * FRAME_SAMPLES)
        job.hidden = self._model.encoder.stem(mel)

    def _encoder_layer(self, index: int, job: _Job) -> None:
        job.hidden = self._model.encoder.layers[index](job.hidden)

    def _read_audio(self, job: _Job) -> None:
        encoded = self._model.encoder.norm(job.hidden)
        request = job.request
        job.state = self._model.decoder.new_state(len(request.prefix_ids) + request.max_tokens)
        self._model.decoder.read_audio(job.state, encoded)
        job.hidden = None

    @torch.inference_mode()
    def _start(self, job: _Job) -> list[Choice]:
        """Reads the prefix and verifies the draft; returns the ids that the model chose."""
        request, decoder = job.request, self._model.decoder
        assert job.state is not None
        prefix = request.prefix_ids
        draft = request.draft_ids[: request.max_tokens - 1] if job.sampler.is_greedy else ()
        last = len(prefix) - 1
        first_logits = last if request.no_speech_id is None else self._start_index(prefix)
        ids = torch.tensor([[*prefix, *draft]])
        logits = decoder(ids, job.state, first_logits)[0]
        if request.no_speech_id is not None:
            job.delivery.no_speech_prob = no_speech_probability(logits[0], request.no_speech_id)
        choices: list[Choice] = []
        for row, drafted in enumerate((*draft, None), start=last - first_logits):
            choices.append(job.sampler.choose(logits[row]))
            if choices[-1].token != drafted:
                break
        job.state.self_kv.truncate(last + len(choices))
        return choices

    def _start_index(self, prefix: tuple[int, ...]) -> int:
        # No speech is predicted right after the start of transcript, which may follow the
        # text of an earlier window.
        start_id = self._model.config.start_id
        return prefix.index(start_id) if start_id in prefix else 0

    @torch.inference_mode()
    def _advance(self, job: _Job, token: int) -> Choice:
        assert job.state is not None
        logits: Tensor = self._model.decoder(torch.tensor([[token]]), job.state)
        return job.sampler.choose(logits[0, 0])
