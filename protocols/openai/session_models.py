"""The session object of OpenAI Realtime (GA), as wire classes.

A key that is not here is refused with `unknown_parameter`, as upstream does: a setting that
is misspelt must not look as if it were in force. Taken and echoed, but without effect so
far, are: noise_reduction, idle_timeout_ms, tools, tool_choice, parallel_tool_calls, include,
prompt, reasoning, tracing, truncation, and a transcription's delay and keywords.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MIN_RATE_HZ = 8_000
MAX_RATE_HZ = 48_000


def _whole(value: object) -> object:
    """Returns 300 for 300.0: JavaScript and Python clients compute times as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


LongText = Annotated[str, Field(max_length=65_536)]
"""Far more than a model's context holds; a megabyte takes half a second to tokenize."""

ShortText = Annotated[str, Field(max_length=1024)]
"""A bound also refuses lone surrogates, which JSON can carry and no tokenizer takes."""

WireInt = Annotated[int, BeforeValidator(_whole)]
Millis = Annotated[WireInt, Field(ge=0)]
OutputTokens = Annotated[WireInt, Field(ge=1, le=4096)] | Literal["inf"]
Modalities = Annotated[list[Literal["text", "audio"]], Field(min_length=1, max_length=1)]
"""One of the two: audio always brings its transcript, so both together is refused."""


class StrictModel(BaseModel):
    """Refuses keys that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PcmFormat(StrictModel):
    """16-bit little-endian mono; upstream knows 24000 only, we take any rate in range."""

    type: Literal["audio/pcm"] = "audio/pcm"
    rate: Annotated[WireInt, Field(ge=MIN_RATE_HZ, le=MAX_RATE_HZ)] = 24_000


class PcmuFormat(StrictModel):
    """G.711 mu-law at 8 kHz."""

    type: Literal["audio/pcmu"]
    rate: Annotated[Literal[8_000] | None, Field(exclude=True)] = None


class PcmaFormat(StrictModel):
    """G.711 A-law at 8 kHz."""

    type: Literal["audio/pcma"]
    rate: Annotated[Literal[8_000] | None, Field(exclude=True)] = None


Format = Annotated[PcmFormat | PcmuFormat | PcmaFormat, Field(discriminator="type")]


class ServerVad(StrictModel):
    """Ends a turn after a silence."""

    type: Literal["server_vad"]
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.5
    prefix_padding_ms: Annotated[Millis, Field(le=10_000)] = 300
    silence_duration_ms: Annotated[Millis, Field(ge=1, le=10_000)] = 500
    create_response: bool = True
    interrupt_response: bool = True
    idle_timeout_ms: Millis | None = None


class SemanticVad(StrictModel):
    """Ends a turn when what was said seems complete."""

    type: Literal["semantic_vad"]
    eagerness: Literal["low", "medium", "high", "auto"] = "auto"
    create_response: bool = True
    interrupt_response: bool = True


Vad = Annotated[ServerVad | SemanticVad, Field(discriminator="type")]


class NoiseReduction(StrictModel):
    """Names the kind of microphone."""

    type: Literal["near_field", "far_field"] = "near_field"
    strength: float | None = None


class Transcription(StrictModel):
    """Says how the speaker's words are written down."""

    model: ShortText
    language: ShortText | None = None
    prompt: LongText | None = None
    languages: list[ShortText] | None = None
    keywords: list[ShortText] | None = None
    delay: Literal["minimal", "low", "medium", "high", "xhigh"] | None = None


class VoiceId(StrictModel):
    """Names a custom voice."""

    id: str


class AudioInput(StrictModel):
    """Is the speaker's side."""

    format: Format = PcmFormat()
    turn_detection: Vad | None = None
    noise_reduction: NoiseReduction | None = None
    transcription: Transcription | None = None


class AudioOutput(StrictModel):
    """Is the voice's side."""

    format: Format = PcmFormat()
    voice: str | VoiceId
    speed: Annotated[float, Field(ge=0.25, le=1.5)] = 1.0


class RealtimeAudio(StrictModel):
    """Is both sides of a conversation."""

    input: AudioInput
    output: AudioOutput


class TranscriptionAudio(StrictModel):
    """Is the only side of a transcription session."""

    input: AudioInput


class FunctionTool(BaseModel):
    """Is a function that the client offers; its schema is the client's own."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: Literal["function"]
    name: str


class RealtimeSession(StrictModel):
    """Is a conversation session."""

    type: Literal["realtime"]
    model: str
    output_modalities: Modalities = ["audio"]
    instructions: LongText = ""
    audio: RealtimeAudio
    max_output_tokens: OutputTokens = "inf"
    tools: Annotated[list[FunctionTool], Field(max_length=128)] = []
    tool_choice: Literal["none", "auto", "required"] | dict[str, Any] = "auto"
    truncation: Literal["auto", "disabled"] | dict[str, Any] = "auto"
    parallel_tool_calls: bool | None = None
    tracing: Literal["auto"] | dict[str, Any] | None = None
    prompt: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    include: list[Literal["item.input_audio_transcription.logprobs"]] | None = None


class TranscriptionSession(StrictModel):
    """Is a session that only writes down."""

    type: Literal["transcription"]
    audio: TranscriptionAudio
    include: list[Literal["item.input_audio_transcription.logprobs"]] | None = None


WireSession = RealtimeSession | TranscriptionSession
