"""The session object's life: defaults, deep merge, validation as a whole, exact echo.

How an update is read: an absent key keeps its value; null clears the keys in `CLEARABLE`
and is otherwise the same as absent; an object is merged, unless its `type` changes, which
makes it a new one; free-form objects (tools, tracing, prompt) are replaced.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from protocols.audio_formats import AudioFormat, Encoding
from protocols.openai.session_models import (
    AudioInput,
    AudioOutput,
    Format,
    PcmaFormat,
    PcmFormat,
    PcmuFormat,
    RealtimeAudio,
    RealtimeSession,
    SemanticVad,
    ServerVad,
    Transcription,
    TranscriptionAudio,
    TranscriptionSession,
    Vad,
    WireSession,
)
from protocols.openai.validation import Refusal, short, validated
from streams.config import SessionConfig, TurnDetection

G711_RATE_HZ = 8_000

MERGED = frozenset(
    {
        "audio",
        "input",
        "output",
        "format",
        "turn_detection",
        "noise_reduction",
        "transcription",
    }
)
CLEARABLE = frozenset(
    {
        "turn_detection",
        "noise_reduction",
        "transcription",
        "language",
        "languages",
        "prompt",
        "keywords",
        "delay",
        "idle_timeout_ms",
        "strength",
        "tracing",
        "reasoning",
        "include",
    }
)
SERVER_KEYS = frozenset({"id", "object", "expires_at", "client_secret"})
"""Keys that only the server sets; clients that send the object back have them in it."""

SEMANTIC_SILENCE_MS: Mapping[str, int] = {"low": 1200, "medium": 700, "auto": 700, "high": 400}
"""Interim: until a model judges whether a sentence is complete, eagerness chooses the
silence that ends a turn. Upstream's longest waits are 8, 4 and 2 s."""


@dataclass(frozen=True, slots=True)
class RealtimeSettings:
    """Is what the operator sets for all realtime sessions.

    Attributes:
        model: reported to clients that named none.
        transcription_model: reported to clients that named none.
        base: configuration that sessions begin with.
        max_session_s: longest life, announced as `expires_at`.
        voices: names that the voice knows. Clients name OpenAI's voices without being
            asked, so any other name is taken, echoed, and spoken by the base's voice.
        languages: codes that the recogniser knows; another one is refused at once and not
            at every utterance. Empty takes any.
    """

    model: str = "antiphon"
    transcription_model: str = "whisper-base"
    base: SessionConfig = field(default_factory=SessionConfig)
    max_session_s: float = 3600.0
    voices: frozenset[str] = frozenset()
    languages: frozenset[str] = frozenset()

    def known_voice(self, name: str) -> str:
        """Returns the voice that speaks for a name."""
        return name if name in self.voices else self.base.voice


def default_session(
    settings: RealtimeSettings, *, model: str | None, transcription: bool
) -> WireSession:
    """Returns the session as it begins.

    Transcription is on from the start, unlike upstream: here the words are made anyway.
    """
    base = settings.base
    heard = AudioInput(
        turn_detection=_vad(base.turn_detection),
        transcription=Transcription(
            model=settings.transcription_model,
            language=base.language,
            prompt=base.transcription_prompt or None,
        ),
    )
    if transcription:
        return TranscriptionSession(type="transcription", audio=TranscriptionAudio(input=heard))
    spoken = AudioOutput(
        format=PcmFormat(rate=base.output_rate_hz), voice=base.voice, speed=base.speed
    )
    return RealtimeSession(
        type="realtime",
        model=model or settings.model,
        output_modalities=["audio" if base.output_audio else "text"],
        instructions=base.instructions,
        max_output_tokens=base.max_output_tokens or "inf",
        audio=RealtimeAudio(input=heard, output=spoken),
    )


def updated_session(
    current: WireSession, update: Mapping[str, Any], settings: RealtimeSettings, *, keep_model: bool
) -> WireSession:
    """Returns the session after a `session.update`; `current` stays as it is.

    Args:
        current: the session so far.
        update: the event's `session`.
        settings: names the transcription model where the client does not.
        keep_model: the URL named the model, so that the update's is ignored.

    Raises:
        Refusal: the update, or what it would lead to, is not valid.
    """
    _check_type(current, update)
    changes = {key: value for key, value in update.items() if key not in SERVER_KEYS}
    if keep_model:
        changes.pop("model", None)
    merged = _merge(current.model_dump(exclude_none=True), changes)
    _name_transcription_model(merged, settings.transcription_model)
    session = validated(type(current), merged, "session")
    language = _language(session.audio.input.transcription)
    if language is not None and settings.languages and language not in settings.languages:
        param = "session.audio.input.transcription.language"
        raise Refusal("invalid_value", f"The language '{short(language)}' is not known.", param)
    return session


def wire_session(session: WireSession, session_id: str, expires_at: int) -> dict[str, Any]:
    """Returns the full effective session as clients get it."""
    name = "session" if isinstance(session, RealtimeSession) else "transcription_session"
    shown = session.model_dump(exclude_none=True)
    heard = shown["audio"]["input"]
    for key in ("turn_detection", "noise_reduction", "transcription"):
        heard.setdefault(key, None)  # null says "off" here; elsewhere it is left out
    return {"object": f"realtime.{name}", "id": session_id, "expires_at": expires_at, **shown}


def session_config(session: WireSession, settings: RealtimeSettings) -> SessionConfig:
    """Returns what the session core needs to know of the session."""
    heard = session.audio.input
    words = heard.transcription
    config = replace(
        settings.base,
        turn_detection=_turn_detection(heard.turn_detection),
        language=_language(words),
        transcription_prompt=(words.prompt or "") if words else "",
        respond=isinstance(session, RealtimeSession),
    )
    if not isinstance(session, RealtimeSession):
        return config
    spoken, tokens = session.audio.output, session.max_output_tokens
    return replace(
        config,
        instructions=session.instructions,
        voice=settings.known_voice(voice_name(spoken)),
        speed=float(spoken.speed),
        output_audio=session.output_modalities == ["audio"],
        output_rate_hz=audio_format(spoken.format).rate_hz,
        max_output_tokens=None if isinstance(tokens, str) else tokens,
    )


def audio_format(wire: Format) -> AudioFormat:
    """Returns the typed format of a wire format."""
    match wire:
        case PcmFormat(rate=rate):
            return AudioFormat(Encoding.PCM16, rate)
        case PcmuFormat():
            return AudioFormat(Encoding.MULAW, G711_RATE_HZ)
        case PcmaFormat():
            return AudioFormat(Encoding.ALAW, G711_RATE_HZ)


def voice_name(spoken: AudioOutput) -> str:
    """Returns the name of the voice, whichever way the client gave it."""
    return spoken.voice if isinstance(spoken.voice, str) else spoken.voice.id


def _check_type(current: WireSession, update: Mapping[str, Any]) -> None:
    wanted = update.get("type")
    if wanted is None:
        message = "Missing required parameter: 'session.type'."
        raise Refusal("missing_required_parameter", message, "session.type")
    if wanted != current.type:
        message = f"This is a '{current.type}' session; '{short(wanted)}' does not fit it."
        raise Refusal("invalid_parameter", message, "session.type")


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        if value is None:
            if key in CLEARABLE:
                merged.pop(key, None)
        elif key in MERGED and isinstance(value, Mapping) and isinstance(old, Mapping):
            changed = "type" in value and value["type"] != old.get("type")
            merged[key] = _merge({} if changed else old, value)
        elif key in MERGED and isinstance(value, Mapping):
            # Nothing to merge with; null still means absent.
            merged[key] = {name: part for name, part in value.items() if part is not None}
        else:
            merged[key] = value
    return merged


def _name_transcription_model(merged: dict[str, Any], model: str) -> None:
    audio = merged.get("audio")
    heard = audio.get("input") if isinstance(audio, dict) else None
    words = heard.get("transcription") if isinstance(heard, dict) else None
    if isinstance(words, dict):
        words.setdefault("model", model)


def _vad(turns: TurnDetection | None) -> ServerVad | None:
    if turns is None:
        return None
    return ServerVad(
        type="server_vad",
        threshold=turns.threshold,
        prefix_padding_ms=turns.prefix_padding_ms,
        silence_duration_ms=turns.silence_ms,
        create_response=turns.create_response,
        interrupt_response=turns.interrupt_response,
    )


def _turn_detection(vad: Vad | None) -> TurnDetection | None:
    match vad:
        case None:
            return None
        case ServerVad():
            return TurnDetection(
                threshold=float(vad.threshold),
                prefix_padding_ms=vad.prefix_padding_ms,
                silence_ms=vad.silence_duration_ms,
                create_response=vad.create_response,
                interrupt_response=vad.interrupt_response,
            )
        case SemanticVad():
            return TurnDetection(
                silence_ms=SEMANTIC_SILENCE_MS[vad.eagerness],
                create_response=vad.create_response,
                interrupt_response=vad.interrupt_response,
            )


def _language(words: Transcription | None) -> str | None:
    """Returns the language where the client named exactly one; several are a hint only."""
    if words is None:
        return None
    several = words.languages or []
    named = words.language or (several[0] if len(several) == 1 else "")
    return named.replace("_", "-").partition("-")[0].lower() or None  # "en-US" is "en"
