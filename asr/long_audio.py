"""Writes down recordings of any length: voice segmentation, then one decode a piece.

Memory depends on the longest piece, not on the recording: audio is read block by block and
forgotten once its piece is cut.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace

from asr.config import CHUNK_SAMPLES, SAMPLE_RATE_HZ, LongAudioConfig
from asr.segmenter import Piece, Segmenter
from asr.transcriber import Transcriber
from asr.transcript import Segment, TranscribeOptions, Transcript
from asr.utterance import UtteranceBuffer
from asr.vad import VoiceActivityDetector
from engines.base import Samples, Ticket, Tier, VoiceActivityEngine

_SLACK_S = 15.0  # padding and the audio scored ahead of a cut, generously


class LongTranscriber:
    """Works through files and other audio longer than an utterance, as batch work.

    Args:
        transcriber: writes down the pieces.
        voice: scores the audio for speech.
        config: knobs.
    """

    def __init__(
        self,
        transcriber: Transcriber,
        voice: VoiceActivityEngine,
        config: LongAudioConfig | None = None,
    ) -> None:
        self._transcriber = transcriber
        self._voice = voice
        self._config = config or LongAudioConfig()

    async def transcribe(
        self,
        blocks: Iterable[Samples],
        *,
        request_id: str,
        options: TranscribeOptions | None = None,
        tier: Tier = Tier.BATCH,
        due_in_s: float | None = None,
    ) -> AsyncIterator[Segment]:
        """Yields the pieces that hold words, in order, as soon as each is known.

        Where no language is given, that of the first piece with words counts for all.
        Closing the iterator aborts what is running.

        Args:
            blocks: 16 kHz mono audio, shape (samples,) each; read in a thread.
            request_id: unique; the pieces get ids derived from it.
            options: language, prompt and task.
            tier: urgency of the work.
            due_in_s: how soon each piece is wanted; None is within its time-out.
        """
        job = _Job(self._transcriber, self._config, request_id, tier)
        job.due_in_s = self._config.timeout_s if due_in_s is None else due_in_s
        job.options = options or TranscribeOptions()
        cuts = self._cut(blocks, job.ticket("voice"))
        try:
            async for piece, samples in cuts:
                job.start(piece, samples)
                while job.must_wait:
                    if (segment := await job.next()) is not None:
                        yield segment
            while job.busy:
                if (segment := await job.next()) is not None:
                    yield segment
        finally:
            await job.cancel()
            await cuts.aclose()  # type: ignore[attr-defined]  # an async generator

    async def _cut(
        self, blocks: Iterable[Samples], ticket: Ticket
    ) -> AsyncIterator[tuple[Piece, Samples]]:
        config = self._config
        detector = VoiceActivityDetector(self._voice, ticket)
        segmenter = Segmenter(config.segmenter)
        audio = UtteranceBuffer(config.segmenter.max_segment_s + _SLACK_S)
        iterator = iter(blocks)
        await detector.open()
        try:
            while (block := await asyncio.to_thread(next, iterator, None)) is not None:
                for batch in _batches(block, config.vad_batch_chunks * CHUNK_SAMPLES):
                    audio.append(batch)
                    for piece in segmenter.push(await detector.push(batch)):
                        yield piece, audio.slice(piece.start_sample, piece.end_sample)
                    audio.discard_before(segmenter.needed_from)
            for piece in [*segmenter.push(await detector.flush()), *segmenter.flush()]:
                yield piece, audio.slice(piece.start_sample, piece.end_sample)
        finally:
            await detector.close()


class _Job:
    """Keeps a few decodes running and hands their results out in order."""

    def __init__(
        self, transcriber: Transcriber, config: LongAudioConfig, request_id: str, tier: Tier
    ) -> None:
        self._transcriber = transcriber
        self._config = config
        self._request_id = request_id
        self._tier = tier
        self._running: deque[tuple[Piece, asyncio.Task[Transcript]]] = deque()
        self._count = 0
        self.options = TranscribeOptions()
        self.due_in_s = config.timeout_s

    @property
    def busy(self) -> bool:
        return bool(self._running)

    @property
    def must_wait(self) -> bool:
        """Says whether a result must be taken before the next piece may start."""
        most = 1 if self.options.language is None else self._config.parallel
        return len(self._running) >= most

    def ticket(self, name: str) -> Ticket:
        timeout_s = self._config.timeout_s
        request_id = f"{self._request_id}/{name}"
        return Ticket(request_id, "", self._tier, due_in_s=self.due_in_s, timeout_s=timeout_s)

    def start(self, piece: Piece, samples: Samples) -> None:
        self._count += 1
        work = self._transcriber.transcribe(
            samples,
            ticket=self.ticket(str(self._count)),
            options=self.options,
            evidence=piece.evidence,
        )
        self._running.append((piece, asyncio.create_task(work)))

    async def next(self) -> Segment | None:
        """Waits for the oldest piece; None where it holds no words."""
        piece, task = self._running[0]
        result = await task
        self._running.popleft()
        if not result.text:
            return None
        if self.options.language is None:
            self.options = replace(self.options, language=result.language)
        return Segment(
            start_s=piece.speech_start / SAMPLE_RATE_HZ,
            end_s=piece.speech_end / SAMPLE_RATE_HZ,
            text=result.text,
            language=result.language,
        )

    async def cancel(self) -> None:
        tasks = [task for _, task in self._running]
        self._running.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _batches(block: Samples, size: int) -> Iterator[Samples]:
    for begin in range(0, len(block), size):
        yield block[begin : begin + size]
