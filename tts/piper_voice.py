"""Speaks through a Piper voice: phonemes here, the acoustic model in an engine."""

import logging
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path

from engines.base import Samples, Ticket, WaveformEngine, WaveformRequest
from engines.errors import EngineFailed
from tts.checks import Flaw, find_flaw, limits_after, shape_silence
from tts.phonemes import PhonemeIds, Phonemizer, read_voice_config
from tts.synthesizer import DEFAULT_VOICE, VoiceOptions, check_voice

log = logging.getLogger(__name__)

PIECE_S = 0.25
"""Speech is handed on in pieces of this length."""


class PiperSynthesizer:
    """Is a `Synthesizer` over a whole-utterance engine.

    Args:
        engine: runs the voice's acoustic model.
        voice_dir: holds `<voice>.onnx.json`.

    Raises:
        NotFound: there is no voice in the directory.
        Unsupported: piper-tts is not installed, or the voice is of another kind.
    """

    def __init__(self, engine: WaveformEngine, voice_dir: Path) -> None:
        self._engine = engine
        config = read_voice_config(voice_dir)
        self._ids = PhonemeIds(config["phoneme_id_map"])
        self._phonemizer = Phonemizer(config["espeak"]["voice"])
        self._voices = tuple(dict.fromkeys((DEFAULT_VOICE, config.get("dataset", DEFAULT_VOICE))))

    @property
    def sample_rate_hz(self) -> int:
        """Rate of the samples, the model's own."""
        return self._engine.sample_rate_hz

    @property
    def voices(self) -> tuple[str, ...]:
        """Names that `VoiceOptions.voice` may have; all mean the one voice."""
        return self._voices

    async def speak(
        self, text: str, *, voice: VoiceOptions, ticket: Ticket
    ) -> AsyncGenerator[Samples, None]:
        """Yields the speech in pieces of `PIECE_S`, sentence after sentence."""
        check_voice(voice, self._voices)
        if not any(map(str.isalnum, text)):
            return  # espeak-ng would read out the names of emoji
        sentences = self._phonemizer.phonemize(text)
        utterances = [piece for sentence in sentences for piece in self._ids.pieces(sentence)]
        step = round(PIECE_S * self.sample_rate_hz)
        for number, phonemes in enumerate(utterances):
            own = replace(ticket, request_id=f"{ticket.request_id}.{number}")
            samples = await self._utterance(phonemes, voice.speed, own)
            for start in range(0, len(samples), step):
                yield samples[start : start + step]

    async def _utterance(self, phonemes: Sequence[str], speed: float, ticket: Ticket) -> Samples:
        """Speaks one sentence; an implausible result is made once more, then taken as it is.

        The model draws noise for timing and timbre, so a second try comes out differently.
        """
        request = WaveformRequest(ticket, self._ids.encode(phonemes), 1 / speed)
        samples = await self._engine.synthesize(request)
        # Phonemes are about as many as letters, and they are what the model was asked for.
        written = "".join(phonemes)
        flaw = find_flaw(samples, self.sample_rate_hz, written, speed)
        if flaw is not None:
            log.warning("speech made again: %s", flaw)
            again = replace(ticket, request_id=f"{ticket.request_id}.again")
            samples = await self._engine.synthesize(replace(request, ticket=again))
            flaw = find_flaw(samples, self.sample_rate_hz, written, speed)
        if flaw is Flaw.NOT_FINITE:
            raise EngineFailed("The voice made samples that are not numbers.")
        return shape_silence(samples, self.sample_rate_hz, limits_after(written))
