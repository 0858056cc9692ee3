"""Writes down one utterance of up to 30 s, and does not believe everything it reads.

The first decode sees a window as short as the audio allows, which costs a fraction of the
full one. Where its text loops, breaks its budget or is unsure, one more sees the full
window; where that loops too, a few temperatures are tried. A loop is never returned.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from asr.config import MAX_WINDOW_S, SAMPLE_RATE_HZ, TranscriberConfig
from asr.evidence import VoiceEvidence
from asr.guards import (
    Decoded,
    heard_nothing,
    is_doubtful,
    is_looping,
    is_no_speech,
    loop_start,
    token_budget,
    without_loop,
)
from asr.transcript import TranscribeOptions, Transcript
from asr.whisper_tokens import WhisperTokens
from engines.base import (
    FinishReason,
    Samples,
    Sampling,
    Seq2SeqEngine,
    SpeechRequest,
    Ticket,
)
from engines.errors import BadRequest

_LOOP_CHECK_EVERY = 8  # ids between looks for a loop while the text still comes


class Transcriber:
    """Drives a speech engine for any number of sessions; holds no state of theirs.

    Args:
        engine: runs the model.
        tokens: the ids of the same checkpoint.
        config: knobs.
    """

    def __init__(
        self,
        engine: Seq2SeqEngine,
        tokens: WhisperTokens,
        config: TranscriberConfig | None = None,
    ) -> None:
        self._engine = engine
        self._tokens = tokens
        self._config = config or TranscriberConfig()

    async def transcribe(
        self,
        samples: Samples,
        *,
        ticket: Ticket,
        options: TranscribeOptions | None = None,
        evidence: VoiceEvidence | None = None,
        draft_ids: tuple[int, ...] = (),
    ) -> Transcript:
        """Writes down 16 kHz mono audio of shape (samples,), 30 s at most.

        Cancelling the call aborts the engine's work.

        Args:
            samples: the utterance, with what came before its first word (pre-roll).
            ticket: identity and urgency; further decodes get ids derived from its own.
            options: language, prompt and task.
            evidence: what the voice detector heard in it, where it was asked.
            draft_ids: `Transcript.ids` of an earlier decode of the same speech.

        Raises:
            BadRequest: no samples, too many, not finite, or an unknown language.
            Overloaded, Timeout, EngineFailed: from the engine.
        """
        _check(samples)
        options = options or TranscribeOptions()
        duration_s = len(samples) / SAMPLE_RATE_HZ
        if heard_nothing(samples, evidence, self._config.guard):
            return Transcript("", duration_s, options.language)
        job = _Job(self._engine, self._tokens, self._config, ticket)
        detected = None if options.language else await job.detect_language(samples)
        language = options.language or detected or self._config.fallback_language
        job.prefix = self._tokens.prefix(language, options.task, self._prompt(options))
        decoded, tries = await self._believable(job, samples, evidence, draft_ids)
        said = (decoded.no_speech_prob, decoded.avg_logprob, decoded.ids)
        return Transcript(decoded.text, duration_s, language, *said, retried=tries - 1)

    def _prompt(self, options: TranscribeOptions) -> tuple[int, ...]:
        words = options.prompt.strip()
        ids = self._tokens.encode(f" {words}") if words else ()
        return ids[-self._config.prompt_tokens :]

    async def _believable(
        self,
        job: "_Job",
        samples: Samples,
        evidence: VoiceEvidence | None,
        draft_ids: tuple[int, ...],
    ) -> tuple[Decoded, int]:
        """Decodes until the text can be believed; returns it and the number of decodes."""
        guard = self._config.guard
        decoded = await job.decode(samples, draft_ids=draft_ids)
        tried = [decoded]
        if is_doubtful(decoded, guard) and not is_no_speech(decoded, evidence, guard):
            if job.can_widen(samples) or not decoded.complete:
                tried.append(await job.decode(samples, full=True))
            for temperature in self._config.retry_temperatures:
                if not is_looping(tried[-1], guard):
                    break
                tried.append(await job.decode(samples, full=True, temperature=temperature))
        best = self._best(tried)
        if is_no_speech(best, evidence, guard):
            best = replace(best, text="", ids=())
        return best, len(tried)

    def _best(self, tried: Sequence[Decoded]) -> Decoded:
        guard = self._config.guard
        sound = [decoded for decoded in tried if not is_looping(decoded, guard)]
        whole = [decoded for decoded in sound if decoded.complete] or sound
        if whole:
            return max(whole, key=lambda decoded: decoded.avg_logprob or -math.inf)
        ids = without_loop(tried[0].ids, guard)
        text = self._tokens.decode(ids).strip()
        # Loops are made with confidence: it says nothing about the words that are left.
        cut = replace(tried[0], ids=ids, text=text, avg_logprob=None)
        return replace(cut, ids=(), text="") if is_looping(cut, guard) else cut


class _Job:
    """Runs the decodes of one utterance under ids derived from one ticket."""

    def __init__(
        self,
        engine: Seq2SeqEngine,
        tokens: WhisperTokens,
        config: TranscriberConfig,
        ticket: Ticket,
    ) -> None:
        self._engine = engine
        self._tokens = tokens
        self._config = config
        self._ticket = ticket
        self._runs = 0
        self.prefix: tuple[int, ...] = ()

    def can_widen(self, samples: Samples) -> bool:
        """Says whether the full window is more than what a first decode sees."""
        trimmed = self._engine.capabilities.trimmed_window
        return trimmed and _window_s(len(samples) / SAMPLE_RATE_HZ, self._config) is not None

    async def detect_language(self, samples: Samples) -> str | None:
        """Returns the code of the most likely language; None where it is a guess."""
        config, tokens = self._config, self._tokens
        if not tokens.multilingual:
            return "en"
        head = samples[: round(config.detect_s * SAMPLE_RATE_HZ)]
        request = replace(
            self._request(head, full=False),
            prefix_ids=(tokens.sot,),
            max_tokens=1,
            allowed_first_ids=tuple(tokens.languages.values()),
            suppress_ids=(),
            begin_suppress_ids=(),
        )
        ids, logprobs, _, _ = await self._run(request)
        if not ids or (logprobs and math.exp(logprobs[0]) < config.min_language_prob):
            return None
        return tokens.language_of(ids[0])

    async def decode(
        self,
        samples: Samples,
        *,
        full: bool = False,
        temperature: float = 0.0,
        draft_ids: tuple[int, ...] = (),
    ) -> Decoded:
        """Decodes once. The full window comes with the longest budget."""
        request = replace(
            self._request(samples, full=full),
            draft_ids=draft_ids if self._engine.capabilities.draft else (),
            sampling=Sampling(temperature=temperature, seed=self._runs if temperature else None),
        )
        ids, logprobs, no_speech_prob, complete = await self._run(request)
        words = tuple(token for token in ids if token < self._tokens.eot)
        scored = max(1, len(ids) + complete)  # the end of text is scored too
        return Decoded(
            text=self._tokens.decode(words).strip(),
            ids=words,
            complete=complete,
            no_speech_prob=no_speech_prob,
            avg_logprob=sum(logprobs) / scored if logprobs else None,
        )

    def _request(self, samples: Samples, *, full: bool) -> SpeechRequest:
        config, tokens = self._config, self._tokens
        padded = _pad(samples, config)
        limit = config.max_tokens
        if not full:
            limit = token_budget(len(samples) / SAMPLE_RATE_HZ, limit, config.guard)
        trimmed = self._engine.capabilities.trimmed_window and not full
        return SpeechRequest(
            ticket=self._next_ticket(),
            samples=padded,
            prefix_ids=self.prefix,
            max_tokens=limit,
            window_s=_window_s(len(samples) / SAMPLE_RATE_HZ, config) if trimmed else None,
            stop_ids=(tokens.eot,),
            suppress_ids=tokens.suppress_ids,
            begin_suppress_ids=tokens.begin_suppress_ids,
            no_speech_id=tokens.no_speech,
        )

    def _next_ticket(self) -> Ticket:
        self._runs += 1
        if self._runs == 1:
            return self._ticket
        return replace(self._ticket, request_id=f"{self._ticket.request_id}/{self._runs}")

    async def _run(
        self, request: SpeechRequest
    ) -> tuple[tuple[int, ...], list[float], float | None, bool]:
        """Returns ids, log-probabilities (one a delta), no-speech probability, completeness."""
        ids: list[int] = []
        logprobs: list[float] = []
        no_speech_prob: float | None = None
        finish: FinishReason | None = None
        stream = self._engine.transcribe(request)
        try:
            async for delta in stream:
                ids += delta.ids
                if delta.logprob is not None:
                    logprobs.append(delta.logprob)
                if delta.no_speech_prob is not None:
                    no_speech_prob = delta.no_speech_prob
                finish = delta.finish or finish
                if self._loops(ids):
                    break
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:  # frees the slot in the engine now, not at collection
                await close()
        return tuple(ids), logprobs, no_speech_prob, finish is FinishReason.STOP

    def _loops(self, ids: Sequence[int]) -> bool:
        due = len(ids) > 0 and len(ids) % _LOOP_CHECK_EVERY == 0
        return due and loop_start(ids, self._config.guard) is not None


def _check(samples: Samples) -> None:
    if samples.ndim != 1 or not len(samples):
        raise BadRequest("there is no audio to write down")
    if len(samples) > MAX_WINDOW_S * SAMPLE_RATE_HZ:
        raise BadRequest(f"an utterance is longer than {MAX_WINDOW_S:.0f} s")
    if not np.isfinite(samples).all():
        raise BadRequest("the audio holds samples that are not numbers")


def _pad(samples: Samples, config: TranscriberConfig) -> Samples:
    most = round(MAX_WINDOW_S * SAMPLE_RATE_HZ)
    least = round(config.min_audio_s * SAMPLE_RATE_HZ)
    tail = round(config.tail_padding_s * SAMPLE_RATE_HZ)
    size = min(most, max(least, len(samples) + tail))
    return np.pad(samples, (0, size - len(samples))).astype(np.float32, copy=False)


def _window_s(duration_s: float, config: TranscriberConfig) -> float | None:
    margin = max(config.window_margin_s, config.tail_padding_s)
    least_s = max(config.min_window_s, duration_s + margin)
    steps = math.ceil(least_s / config.window_step_s)
    window_s = steps * config.window_step_s
    return window_s if window_s < MAX_WINDOW_S else None
