"""The session object over time: in force, asked for, and what it means for incoming audio."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from protocols.audio_formats import AudioDecoder, decode_base64
from protocols.openai.realtime_session import (
    RealtimeSettings,
    audio_format,
    default_session,
    session_config,
    updated_session,
)
from protocols.openai.session_models import RealtimeSession, WireSession
from streams.config import SessionConfig
from streams.events import AudioIn, KeepAlive, SessionInput

PIECE_S = 1.0
"""A long append enters the session in pieces of this length, so that its inbox counts
work and its other events are not kept waiting behind minutes of audio."""


class SessionState:
    """Holds the session object of one connection and decodes audio in its input format.

    Args:
        settings: the operator's.
        model: named by the URL; None lets an update name it.
        transcription: the session only writes down.
    """

    def __init__(
        self, settings: RealtimeSettings, *, model: str | None, transcription: bool
    ) -> None:
        self._settings = settings
        self._keep_model = model is not None
        self._in_force = default_session(settings, model=model, transcription=transcription)
        self._asked: deque[WireSession] = deque()  # updates that are not answered yet
        self._decoder = AudioDecoder(audio_format(self.newest.audio.input.format))
        self._dropped_bytes = 0

    @property
    def in_force(self) -> WireSession:
        """Returns the session as the core has confirmed it."""
        return self._in_force

    @property
    def newest(self) -> WireSession:
        """Returns the session as the client sees it: with updates still on their way."""
        return self._asked[-1] if self._asked else self._in_force

    @property
    def conversation(self) -> RealtimeSession | None:
        """Returns the session in force where it is one that replies."""
        return self._in_force if isinstance(self._in_force, RealtimeSession) else None

    @property
    def wants_transcripts(self) -> bool:
        """Returns whether the speaker's words go to the client."""
        return not self.conversation or self._in_force.audio.input.transcription is not None

    @property
    def dropped_bytes(self) -> int:
        """Returns how many bytes were half a sample at an end of the audio."""
        return self._dropped_bytes + self._decoder.dropped_bytes

    def config(self) -> SessionConfig:
        """Returns the newest session as the core needs it."""
        return session_config(self.newest, self._settings)

    def ask(self, update: Mapping[str, Any]) -> None:
        """Notes an update until the core answers it. Raises `Refusal` if it is not valid."""
        asked = updated_session(self.newest, update, self._settings, keep_model=self._keep_model)
        self._asked.append(asked)
        self._renew_decoder()  # what is appended next is meant in the new format

    def confirm(self) -> None:
        """Puts the oldest update that waits into force."""
        if self._asked:
            self._in_force = self._asked.popleft()

    def reject(self) -> None:
        """Forgets the oldest update that waits."""
        if self._asked:
            self._asked.popleft()
            self._renew_decoder()

    def decode(self, audio: str) -> list[SessionInput]:
        """Returns appended base64 as inputs; without one whole sample, as a sign of life.

        Raises:
            BadRequest: it is not base64.
        """
        samples = self._decoder.push(decode_base64(audio, param="audio"))
        if len(samples) == 0:
            return [KeepAlive()]
        rate_hz = self._decoder.format.rate_hz
        step = round(PIECE_S * rate_hz)
        return [AudioIn(samples[at : at + step], rate_hz) for at in range(0, len(samples), step)]

    def end_audio(self) -> None:
        """Drops half a sample that waits: the audio ends here."""
        self._decoder.finish()

    def _renew_decoder(self) -> None:
        wanted = audio_format(self.newest.audio.input.format)
        if wanted != self._decoder.format:
            self._decoder.finish()
            self._dropped_bytes += self._decoder.dropped_bytes
            self._decoder = AudioDecoder(wanted)
