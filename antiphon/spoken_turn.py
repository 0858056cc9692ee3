"""Writes down one spoken question and its reply as the wire's events tell it. Pure."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engines.base import Samples
from protocols.audio_formats import AudioDecoder, AudioFormat, Encoding, decode_base64

WireEvent = dict[str, Any]
"""One decoded JSON event of the Realtime protocol."""

REPLY_FORMAT = AudioFormat(Encoding.PCM16, 24_000)
"""What replies come in."""

VOICED_SHARE = 0.02
"""A sample counts as speech above this share of the peak (-34 dB): past it lie breath and room."""


def end_of_speech(samples: Samples, rate_hz: int) -> float:
    """Returns the time of the last voiced sample in seconds; 0 where there is none."""
    loud = np.flatnonzero(np.abs(samples) > VOICED_SHARE * np.abs(samples).max(initial=0.0))
    return float(loud[-1] + 1) / rate_hz if len(loud) else 0.0


@dataclass(slots=True)
class SpokenTurn:
    """Is filled event by event. All times are in seconds on the caller's clock.

    A pause inside a question may end the server's turn early; the next words then take the
    reply back. So what concerns the reply is that of the last one begun.

    Attributes:
        spoken_s: length of the question's speech from `started_s` to its last voiced sample.
        started_s: when the first sample was spoken.
        heard: transcript by item, in the order of speaking.
        stopped_s: when the server said that the speaker had stopped.
        final_s: when the final transcript came.
        first_text_s, first_audio_s, done_s: milestones of the reply.
        reply: its words.
        audio: its sound, mono float32, chunk by chunk.
        failure: why there is no reply, in the server's words.
    """

    spoken_s: float = 0.0
    started_s: float = 0.0
    heard: dict[str, str] = field(default_factory=dict)
    stopped_s: float | None = None
    final_s: float | None = None
    first_text_s: float | None = None
    first_audio_s: float | None = None
    done_s: float | None = None
    reply: str = ""
    audio: list[Samples] = field(default_factory=list)
    failure: str | None = None
    _unwritten: set[str] = field(default_factory=set)
    _decoder: AudioDecoder = field(default_factory=lambda: AudioDecoder(REPLY_FORMAT))

    @property
    def end_s(self) -> float:
        """Returns the true end of speech."""
        return self.started_s + self.spoken_s

    def after_speech_ms(self, at_s: float | None) -> float | None:
        """Returns how long after the true end of speech a milestone came."""
        return None if at_s is None else (at_s - self.end_s) * 1000

    @property
    def transcript(self) -> str:
        """Returns all that was heard."""
        return " ".join(filter(None, map(str.strip, self.heard.values())))

    @property
    def sound(self) -> Samples:
        """Returns the reply's sound in one piece, shape (samples,)."""
        return np.concatenate(self.audio) if self.audio else np.zeros(0, np.float32)

    @property
    def settled(self) -> bool:
        """Returns whether something was heard and nothing more is to come of it."""
        answered = self.done_s is not None or (self.stopped_s is not None and not self.transcript)
        return not self._unwritten and (answered or self.failure is not None)

    def take(self, event: WireEvent, now_s: float) -> None:
        """Notes what one server event, received at `now_s`, says of the turn."""
        match event["type"]:
            case "input_audio_buffer.speech_started":
                self._unwritten.add(event["item_id"])
                self.heard[event["item_id"]] = ""
                self.stopped_s = self.final_s = None
                self._forget_reply()
            case "input_audio_buffer.speech_stopped":
                self.stopped_s = now_s
            case "conversation.item.input_audio_transcription.delta":
                self.heard[event["item_id"]] = self.heard.get(event["item_id"], "") + event["delta"]
            case "conversation.item.input_audio_transcription.completed":
                self.heard[event["item_id"]] = event["transcript"]
                self._unwritten.discard(event["item_id"])
                self.final_s = now_s
            case "conversation.item.input_audio_transcription.failed":
                self._unwritten.discard(event["item_id"])
                self.failure = str(event["error"].get("message", "transcription failed"))
            case "error":
                self.failure = str(event["error"]["message"])
            case _:
                self._take_reply(event, now_s)

    def _take_reply(self, event: WireEvent, now_s: float) -> None:
        match event["type"]:
            case "response.created":
                self._forget_reply()
            case "response.output_audio_transcript.delta" | "response.output_text.delta":
                self.first_text_s = self.first_text_s or now_s
                self.reply += event["delta"]
            case "response.output_audio.delta":
                self.first_audio_s = self.first_audio_s or now_s
                self.audio.append(self._decoder.push(decode_base64(event["delta"])))
            case "response.done":
                status = event["response"]["status"]
                if status == "failed":
                    details = event["response"].get("status_details") or {}
                    error = details.get("error") or {}
                    self.failure = str(error.get("message", "the reply failed"))
                if status != "cancelled":
                    self.done_s = now_s

    def _forget_reply(self) -> None:
        self.first_text_s = self.first_audio_s = self.done_s = None
        self.reply = ""
        self.audio.clear()
