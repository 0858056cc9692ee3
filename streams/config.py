"""What a client may set in a session, and what the operator sets for all of them."""

from dataclasses import dataclass, field

from engines.base import Tier

__all__ = ["ResponseOptions", "SessionConfig", "SessionLimits", "Tier", "TurnDetection"]


@dataclass(frozen=True, slots=True)
class TurnDetection:
    """Says when a turn begins and ends, and what follows from it.

    Attributes:
        threshold: speech probability from which a chunk counts as speech, 0..1. Higher is
            deaf to noise and to soft voices alike.
        prefix_padding_ms: audio kept from before the first voiced chunk (first words).
        silence_ms: silence that ends a turn. Shorter answers faster and cuts off people
            who think while they speak.
        create_response: reply when a turn has ended.
        interrupt_response: a speaker who starts during a reply stops it (barge-in).
    """

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_ms: int = 500
    create_response: bool = True
    interrupt_response: bool = True


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """Is the complete configuration of one session; an update brings a new one.

    Attributes:
        turn_detection: None leaves turns to `CommitAudio` and `CreateResponse`.
        instructions: system prompt.
        voice: name of the voice; one voice is embedded.
        speed: 0.25..1.5, 1 is the voice's own.
        output_audio: speak the reply; False gives text only.
        output_rate_hz: rate of the audio that goes out; the voice is resampled to it.
        max_output_tokens: per reply; None leaves it to the server's limit.
        language: ISO 639-1 code of the speech; None detects it.
        transcription_prompt: words that the recogniser should expect.
        respond: False for sessions that only transcribe.
    """

    turn_detection: TurnDetection | None = field(default_factory=TurnDetection)
    instructions: str = ""
    voice: str = "default"
    speed: float = 1.0
    output_audio: bool = True
    output_rate_hz: int = 24_000
    max_output_tokens: int | None = None
    language: str | None = None
    transcription_prompt: str = ""
    respond: bool = True


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """Overrides the session for one reply; None keeps the session's value.

    Attributes:
        instructions, output_audio, max_output_tokens, voice: as in `SessionConfig`.
        metadata: handed back unread, as pairs.
    """

    instructions: str | None = None
    output_audio: bool | None = None
    max_output_tokens: int | None = None
    voice: str | None = None
    metadata: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Is what the operator sets; each knob with its trade-off.

    Attributes:
        idle_timeout_s: a session without client events and without a reply in progress
            for this long is closed. Shorter frees slots sooner and hangs up on thinkers.
        max_session_s: longest life of a session.
        inbox_events: client events waiting for the session; past it the reader is paused.
        outbox_bytes: output waiting for the client; past it the session pauses.
        slow_consumer_s: a client that reads nothing for this long is closed.
        max_buffer_s: uncommitted audio kept; past it the oldest is dropped and said so.
        min_commit_ms: a commit of less audio is refused as empty.
        partial_interval_s: pause between partial transcripts; 0 switches them off.
            Shorter feels livelier and costs a decode each.
        generate_ahead_s: synthesis of the next clause waits while this much audio is
            unheard. Longer survives hiccups; shorter wastes less on barge-in.
        route_ahead_s: audio handed to the transport ahead of playback; None hands it over
            as it is made (clients that buffer), telephony sets 0.2.
        max_output_tokens: longest reply in tokens.
        transcript_timeout_s, reply_timeout_s, synthesis_timeout_s: deadlines of a final
            transcript, of the text of a whole reply, and of one clause of speech; past
            them the turn fails with a typed error and the session lives on.
        eager_final: start the final transcript at the first pause instead of at the end
            of the turn; hides most of its time, costs a decode per pause.
    """

    idle_timeout_s: float = 120.0
    max_session_s: float = 3600.0
    inbox_events: int = 256
    outbox_bytes: int = 4_000_000
    slow_consumer_s: float = 20.0
    max_buffer_s: float = 300.0
    min_commit_ms: int = 1
    partial_interval_s: float = 0.6
    generate_ahead_s: float = 20.0
    route_ahead_s: float | None = None
    max_output_tokens: int = 256
    transcript_timeout_s: float = 20.0
    reply_timeout_s: float = 60.0
    synthesis_timeout_s: float = 15.0
    eager_final: bool = True
