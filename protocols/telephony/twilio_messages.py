"""Twilio Media Streams: the messages that come in, as wire classes.

Numbers are strings on this wire. Keys and events that are not here are ignored, as Twilio
asks of its clients.
"""

import json
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

Number = Annotated[int, Field(ge=0)]  # pydantic reads the strings


class WireModel(BaseModel):
    """Ignores keys that it does not know."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class MediaFormat(WireModel):
    """Is what the payloads are; Twilio knows this one only."""

    encoding: str = "audio/x-mulaw"
    sampleRate: Number = 8000
    channels: Number = 1


class StartDetails(WireModel):
    """Describes the call."""

    streamSid: str = ""
    callSid: str = ""
    accountSid: str = ""
    customParameters: dict[str, str] = {}
    mediaFormat: MediaFormat = MediaFormat()


class Start(WireModel):
    """Comes once, before any media."""

    event: Literal["start"]
    streamSid: Annotated[str, Field(min_length=1)]
    start: StartDetails


class MediaDetails(WireModel):
    """Is a piece of audio. `outbound` is what the caller hears."""

    payload: str
    track: str = "inbound"
    chunk: Number | None = None


class Media(WireModel):
    """Brings audio."""

    event: Literal["media"]
    streamSid: str | None = None
    media: MediaDetails


class MarkDetails(WireModel):
    """Names a mark."""

    name: str


class MarkBack(WireModel):
    """Says that the audio before a mark was played, or cleared."""

    event: Literal["mark"]
    mark: MarkDetails


class DtmfDetails(WireModel):
    """Is one key."""

    digit: Annotated[str, Field(pattern=r"^[0-9*#A-D]$")]


class Dtmf(WireModel):
    """Says that the caller pressed a key."""

    event: Literal["dtmf"]
    dtmf: DtmfDetails


class Stop(WireModel):
    """Says that the call, or its stream, has ended."""

    event: Literal["stop"]


class Connected(WireModel):
    """Comes first and says nothing that we need."""

    event: Literal["connected"]


TwilioMessage = Connected | Start | Media | MarkBack | Dtmf | Stop

_MESSAGE: TypeAdapter[TwilioMessage] = TypeAdapter(
    Annotated[TwilioMessage, Field(discriminator="event")]
)


def parse_message(text: str) -> TwilioMessage | None:
    """Returns the typed message, None for what is unknown or malformed."""
    try:
        return _MESSAGE.validate_python(json.loads(text))
    except (ValidationError, ValueError, RecursionError):
        return None
