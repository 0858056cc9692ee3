"""Twilio Media Streams as a state machine without I/O.

A shell gives it the provider's frames and the session's outputs, and asks after each call
what to send and whether to close. No session may be opened before `call` is set: until
then the caller is nobody. Unknown messages are ignored and counted.
"""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from protocols.audio_formats import AudioFormat, Encoding, decode_base64, decode_g711, encode_base64
from protocols.errors import (
    POLICY_CLOSE,
    TOO_BIG_CLOSE,
    Close,
    close_for,
    close_reason,
    wire_error,
)
from protocols.telephony.playback import RATE_HZ, Frame, Mark, Playback
from protocols.telephony.reorder import ReorderBuffer
from protocols.telephony.twilio_messages import (
    Connected,
    Dtmf,
    MarkBack,
    Media,
    Start,
    Stop,
    TwilioMessage,
    parse_message,
)
from streams.config import SessionConfig, Tier
from streams.errors import AntiphonError, BadRequest
from streams.events import (
    AudioDelta,
    AudioIn,
    DtmfDigit,
    OutputDone,
    PlaybackCleared,
    PlaybackProgress,
    SessionClosed,
    SessionInput,
    SessionOutput,
)

MAX_FRAME_BYTES = 65_536
"""A media message is about 300 bytes; one over this is no Twilio."""

LINE = AudioFormat(Encoding.MULAW, RATE_HZ)
"""What the line carries, both ways."""

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TwilioSettings:
    """Is what the operator sets for calls.

    Attributes:
        auth_token: of the Twilio account; upgrades are then checked by their signature.
        stream_token: must come as `<Parameter name="token">`; None asks for none.
        public_url: the stream's URL as the TwiML has it; None takes it from the request.
        base: configuration that calls begin with.
        tier: whose place calls take.
        start_timeout_s: a socket without `start` for this long is closed.
        max_waiting: sockets that may wait for their `start` at once.
    """

    auth_token: str | None = None
    stream_token: str | None = None
    public_url: str | None = None
    base: SessionConfig = field(default_factory=SessionConfig)
    tier: Tier = Tier.FREE
    start_timeout_s: float = 10.0
    max_waiting: int = 64

    @property
    def is_guarded(self) -> bool:
        """Returns whether a call must prove anything."""
        return self.auth_token is not None or self.stream_token is not None


@dataclass(frozen=True, slots=True)
class Call:
    """Is what `start` told of a call."""

    stream_id: str
    call_id: str


class Phase(Enum):
    """Says how far a stream has come."""

    WAITING = "waiting for start"
    RUNNING = "running"
    ENDED = "ended"


class TwilioProtocol:
    """Translates between one Twilio stream and one session."""

    def __init__(self, settings: TwilioSettings) -> None:
        self._settings = settings
        self._phase = Phase.WAITING
        self._call: Call | None = None
        self._close: Close | None = None
        self._media: ReorderBuffer[bytes] = ReorderBuffer()
        self._playback = Playback()
        self._cleared = ""  # the reply that was interrupted last; more of it is stale
        self._messages: list[Message] = []
        self._ignored = 0

    @property
    def call(self) -> Call | None:
        """Returns the call once an acceptable `start` has come."""
        return self._call

    @property
    def close(self) -> Close | None:
        """Returns how to close once everything is sent; None while the stream lives."""
        return self._close

    @property
    def counters(self) -> dict[str, int]:
        """Returns what was thrown away so far."""
        return {
            "messages_ignored": self._ignored,
            "media_dropped": self._media.dropped,
            "media_lost": self._media.lost,
        }

    def config(self) -> SessionConfig:
        """Returns the configuration to open the session with."""
        return replace(self._settings.base, output_rate_hz=RATE_HZ, output_audio=True)

    def receive_text(self, data: str) -> list[SessionInput]:
        """Takes a text frame and returns what to give to the session, in order."""
        if self._phase is Phase.ENDED:
            return []
        if len(data) > MAX_FRAME_BYTES:
            self._end(Close(TOO_BIG_CLOSE, f"A message holds at most {MAX_FRAME_BYTES} bytes."))
            return []
        message = parse_message(data)
        if message is None:
            self._ignored += 1
            return []
        if self._phase is Phase.WAITING:
            self._await_start(message)
            return []
        return self._inputs_of(message)

    def receive_binary(self, data: bytes) -> list[SessionInput]:
        """Takes a binary frame, which this protocol does not have."""
        self._ignored += 1
        if len(data) > MAX_FRAME_BYTES:
            self._end(Close(TOO_BIG_CLOSE, f"A message holds at most {MAX_FRAME_BYTES} bytes."))
        return []

    def receive_output(self, output: SessionOutput) -> None:
        """Takes what the session says; text and lifecycle have no place on a telephone."""
        match output:
            case AudioDelta():
                if output.rate_hz != RATE_HZ:
                    raise ValueError(f"audio at {output.rate_hz} Hz for a line of {RATE_HZ} Hz")
                if output.response_id != self._cleared:
                    reply, item = output.response_id, output.item_id
                    self._send(self._playback.push(reply, item, output.samples))
            case OutputDone():
                if output.response_id != self._cleared:
                    self._send(self._playback.finish(output.response_id))
            case PlaybackCleared():
                self._clear(output.response_id)
            case SessionClosed():
                self._end(close_for(output.code, output.message))
            case _:
                pass

    def refuse(self, error: AntiphonError) -> None:
        """Ends before a session began."""
        self._end(Close(wire_error(error).close_code, close_reason(error.message)))

    def time_out(self) -> None:
        """Ends a stream whose `start` did not come in time."""
        if self._phase is Phase.WAITING:
            self._end(Close(POLICY_CLOSE, "No start message came in time."))

    def events_to_send(self) -> list[Message]:
        """Returns the messages to send now, each once."""
        messages, self._messages = self._messages, []
        return messages

    # ------------------------------------------------------------ from the provider

    def _await_start(self, message: TwilioMessage) -> None:
        match message:
            case Connected():
                pass
            case Start():
                self._start(message)
            case Stop():
                self._end(Close())
            case _:
                self._end(Close(POLICY_CLOSE, "The start message must come first."))

    def _start(self, message: Start) -> None:
        wanted, given = self._settings.stream_token, message.start.customParameters.get("token", "")
        if wanted is not None and not hmac.compare_digest(_octets(wanted), _octets(given)):
            self._end(Close(POLICY_CLOSE, "The token parameter is not valid."))
            return
        line = message.start.mediaFormat
        if (line.encoding, line.sampleRate, line.channels) != ("audio/x-mulaw", RATE_HZ, 1):
            self._end(Close(POLICY_CLOSE, "Only audio/x-mulaw at 8000 Hz, mono, is taken."))
            return
        self._call = Call(message.streamSid, message.start.callSid)
        self._phase = Phase.RUNNING

    def _inputs_of(self, message: TwilioMessage) -> list[SessionInput]:
        match message:
            case Media():
                return self._hear(message)
            case MarkBack():
                played = self._playback.returned(message.mark.name)
                return [PlaybackProgress(played.item_id, played.played_ms)] if played else []
            case Dtmf():
                return [DtmfDigit(message.dtmf.digit)]
            case Stop():
                self._end(Close())  # the caller hung up: nobody waits for the rest
                return []
            case _:
                self._ignored += 1  # a second start or connected
                return []

    def _hear(self, message: Media) -> list[SessionInput]:
        other_stream = message.streamSid not in (None, self._call and self._call.stream_id)
        if other_stream or message.media.track != "inbound":
            self._ignored += 1
            return []
        try:
            data = decode_base64(message.media.payload)
        except BadRequest:
            self._ignored += 1
            return []
        chunk = message.media.chunk
        frames = [data] if chunk is None else self._media.push(chunk, data)
        heard = b"".join(frames)
        return [AudioIn(decode_g711(heard, LINE.encoding), LINE.rate_hz)] if heard else []

    def _end(self, close: Close) -> None:
        self._phase = Phase.ENDED
        if self._close is None:
            self._close = close

    # ------------------------------------------------------------ to the provider

    def _clear(self, response_id: str) -> None:
        """Drops what is not sent yet, then tells the network to drop what it has."""
        self._cleared = response_id
        self._messages = [kept for kept in self._messages if kept["event"] == "clear"]
        self._playback.clear()
        self._messages.append(self._message("clear"))

    def _send(self, pieces: Iterable[Frame | Mark]) -> None:
        for piece in pieces:
            match piece:
                case Frame(payload):
                    media = {"payload": encode_base64(payload)}
                    self._messages.append(self._message("media", media=media))
                case Mark(name):
                    self._messages.append(self._message("mark", mark={"name": name}))

    def _message(self, event: str, **fields: Any) -> Message:
        stream_id = self._call.stream_id if self._call else ""
        return {"event": event, "streamSid": stream_id, **fields}


def _octets(text: str) -> bytes:
    """Returns the bytes of any text that JSON can hold, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")
