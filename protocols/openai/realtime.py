"""OpenAI Realtime (GA) as a state machine without I/O.

A shell gives it the client's frames and the session's outputs, and asks after each call
what to send (`events_to_send`) and whether to close (`close`). Nothing here waits or reads
a clock. No client input raises: what is wrong becomes an `error` event, and the session
lives.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from protocols.errors import Close, close_for, close_reason, wire_error, with_retry_hint
from protocols.openai.realtime_errors import (
    door_event,
    end_event,
    refusal_event,
    session_error_event,
)
from protocols.openai.realtime_events import (
    AnyClientEvent,
    AudioAppend,
    AudioClear,
    AudioCommit,
    InputEnd,
    ResponseCreate,
    ResponseParams,
    SessionUpdate,
    event_id_of,
    parse_client_event,
)
from protocols.openai.realtime_input import make_ref, split_ref, to_input, to_options
from protocols.openai.realtime_output import Event, conversation_event, transcript_event
from protocols.openai.realtime_reply import ReplyWriter
from protocols.openai.realtime_session import RealtimeSettings, wire_session
from protocols.openai.realtime_state import SessionState
from protocols.openai.session_models import RealtimeSession
from protocols.openai.validation import Refusal, parse_object
from streams.config import SessionConfig
from streams.errors import AntiphonError, BadRequest
from streams.events import (
    AudioDelta,
    CreateResponse,
    OutputDone,
    OutputStarted,
    PlaybackCleared,
    ResponseDone,
    ResponseStarted,
    SessionClosed,
    SessionError,
    SessionInput,
    SessionOutput,
    SessionStarted,
    SessionUpdated,
    TextDelta,
    TranscriptCompleted,
    TranscriptDelta,
    TranscriptFailed,
    UpdateSession,
)


class RealtimeProtocol:
    """Translates between one WebSocket and one session.

    Args:
        settings: the operator's.
    """

    def __init__(self, settings: RealtimeSettings) -> None:
        self._settings = settings
        self._state = SessionState(settings, model=None, transcription=False)
        self._session_id = ""
        self._expires_at = 0
        self._replies: dict[str, ReplyWriter] = {}
        self._events: list[Event] = []
        self._sent_events = 0
        self._refused_events = 0
        self._close: Close | None = None

    @property
    def close(self) -> Close | None:
        """Returns how to close once everything is sent; None while the session lives."""
        return self._close

    @property
    def counters(self) -> dict[str, int]:
        """Returns what was thrown away so far."""
        return {
            "odd_bytes_dropped": self._state.dropped_bytes,
            "events_refused": self._refused_events,
        }

    def start(self, query: Mapping[str, str], now_s: float) -> SessionConfig:
        """Reads the URL's query and returns the configuration to open the session with.

        Args:
            query: `intent=transcription` makes a session that only writes down; `model`
                is kept as the session's name for it; all else is ignored.
            now_s: Unix time, from which the session's `expires_at` is counted.
        """
        self._state = SessionState(
            self._settings,
            model=query.get("model") or None,
            transcription=query.get("intent") == "transcription",
        )
        self._expires_at = int(now_s + self._settings.max_session_s)
        return self._state.config()

    def receive_text(self, data: str) -> list[SessionInput]:
        """Takes a text frame and returns what to give to the session, in order."""
        event_id: str | None = None
        try:
            frame = parse_object(data)
            event_id = event_id_of(frame)
            return self._inputs_of(parse_client_event(frame))
        except Refusal as refusal:
            self._refuse_event(refusal, event_id)
        except BadRequest as error:
            self._refuse_event(Refusal("invalid_value", error.message, error.param), event_id)
        return []

    def receive_binary(self, data: bytes) -> list[SessionInput]:
        """Takes a binary frame, which this protocol does not have."""
        message = (
            f"A binary frame of {len(data)} bytes came; all frames are JSON text, with audio "
            "as base64 in input_audio_buffer.append."
        )
        self._refuse_event(Refusal("invalid_type", message), None)
        return []

    def receive_output(self, output: SessionOutput) -> None:
        """Takes what the session says; the events are then in `events_to_send`."""
        match output:
            case SessionStarted(session_id, _):
                self._session_id = session_id
                # Before what was refused in the meantime: it is always the first event.
                self._events.insert(0, self._session_event("session.created"))
            case SessionUpdated():
                self._state.confirm()
                self._events.append(self._session_event("session.updated"))
            case TranscriptDelta() | TranscriptCompleted() | TranscriptFailed():
                if self._state.wants_transcripts:
                    self._events.append(transcript_event(output))
            case SessionError():
                if split_ref(output.ref)[0] == "session.update":
                    self._state.reject()
                self._events.append(session_error_event(output))
            case SessionClosed():
                self._end(output)
            case PlaybackCleared():
                pass  # over WebSocket a client drops its audio at speech_started by itself
            case ResponseStarted():
                self._begin_reply(output)
            case OutputStarted() | TextDelta() | AudioDelta() | OutputDone() | ResponseDone():
                self._continue_reply(output)
            case _:
                self._events.append(conversation_event(output))

    def refuse(self, error: AntiphonError) -> None:
        """Ends before a session began: the error is sent, then the socket is closed."""
        self._events.append(door_event(error))
        message = with_retry_hint(error.message, getattr(error, "retry_after_s", None))
        self._close = Close(wire_error(error).close_code, close_reason(message))

    def events_to_send(self) -> list[Event]:
        """Returns the events to send now, each once.

        `session.created` is always first: what is refused before that waits for it.
        """
        if not self._session_id and self._close is None:
            return []
        events, self._events = self._events, []
        return [self._numbered(event) for event in events]

    def _inputs_of(self, event: AnyClientEvent) -> list[SessionInput]:
        match event:
            case AudioAppend():
                return self._state.decode(event.audio)
            case SessionUpdate():
                self._state.ask(event.session)
                ref = make_ref(event.type, event.event_id)
                return [UpdateSession(self._state.config(), ref)]
            case AudioCommit() | AudioClear() | InputEnd():
                self._state.end_audio()
            case ResponseCreate():
                return [self._create_response(event)]
            case _:
                pass
        return [to_input(event)]

    def _create_response(self, event: ResponseCreate) -> SessionInput:
        """Adds what depends on the session. Raises `Refusal`."""
        session = self._state.newest
        if not isinstance(session, RealtimeSession):
            raise Refusal("invalid_parameter", "A transcription session does not reply.", "type")
        audio = event.response.audio if event.response else None
        wanted = audio.output.format if audio and audio.output else None
        if wanted is not None and wanted != session.audio.output.format:
            message = "A reply has the session's output format; session.update changes that."
            raise Refusal("invalid_value", message, "response.audio.output.format")
        options = to_options(event.response or ResponseParams())
        if options.voice is not None:
            options = replace(options, voice=self._settings.known_voice(options.voice))
        return CreateResponse(options, make_ref(event.type, event.event_id))

    def _begin_reply(self, started: ResponseStarted) -> None:
        session = self._state.conversation
        if session is None:
            return  # a session that only writes down has none
        conversation_id = f"conv_{self._session_id.removeprefix('sess_')}"
        reply = ReplyWriter(started, session, conversation_id)
        self._replies[started.response_id] = reply
        self._events += reply.created()

    def _continue_reply(
        self, output: OutputStarted | TextDelta | AudioDelta | OutputDone | ResponseDone
    ) -> None:
        reply = self._replies.get(output.response_id)
        if reply is None:
            return  # it has ended: what comes late is stale
        match output:
            case OutputStarted():
                self._events += reply.output_started(output)
            case TextDelta():
                self._events += reply.text(output)
            case AudioDelta():
                self._events += reply.audio(output.item_id, output.samples, output.rate_hz)
            case OutputDone():
                self._events += reply.output_done(output)
            case ResponseDone():
                self._events += reply.done(output)
                del self._replies[output.response_id]
            case _:
                assert_never(output)

    def _end(self, closed: SessionClosed) -> None:
        self._state.end_audio()
        told = end_event(closed)
        if told is not None:
            self._events.append(told)
        self._close = close_for(closed.code, with_retry_hint(closed.message, closed.retry_after_s))

    def _refuse_event(self, refusal: Refusal, event_id: str | None) -> None:
        self._refused_events += 1
        self._events.append(refusal_event(refusal, event_id))

    def _session_event(self, name: str) -> Event:
        session = wire_session(self._state.in_force, self._session_id, self._expires_at)
        return {"type": name, "session": session}

    def _numbered(self, event: Event) -> Event:
        self._sent_events += 1
        connection = self._session_id.removeprefix("sess_")[:12] or "none"
        event_id = f"event_{connection}_{self._sent_events}"
        return {"type": event["type"], "event_id": event_id, **event}
