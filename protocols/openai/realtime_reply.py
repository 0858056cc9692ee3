"""One reply on the wire: its lifecycle events, deltas, and the response object."""

from dataclasses import dataclass, field
from typing import Any, Literal

from protocols.audio_formats import Samples, encode, encode_base64
from protocols.errors import wire_error
from protocols.openai.realtime_output import Event, item_added, item_done, item_object
from protocols.openai.realtime_session import audio_format, voice_name
from protocols.openai.session_models import RealtimeSession
from streams.config import ResponseOptions
from streams.errors import SessionErrorCode
from streams.events import (
    Item,
    OutputDone,
    OutputStarted,
    ResponseDone,
    ResponseStarted,
    ResponseStatus,
    TextDelta,
    Usage,
)

MAX_DELTA_BYTES = 120_000
"""Audio in one delta; with base64 and its envelope a frame stays far under 256 KiB, which
the smallest receive limits among clients take."""

AUDIO_TOKENS_PER_S = 20
"""What upstream counts for a second of assistant audio; clients add these up."""


@dataclass(slots=True)
class ReplyWriter:
    """Writes the events of one reply.

    Args:
        started: the session's event that began it.
        session: the session object as it was then; a later update does not change it.
        conversation_id: of the session's only conversation.
    """

    started: ResponseStarted
    session: RealtimeSession
    conversation_id: str
    _items: list[str] = field(default_factory=list)
    _kind: Literal["audio", "text"] = "audio"

    def __post_init__(self) -> None:
        chosen = self.started.options.output_audio
        spoken = self.session.output_modalities == ["audio"] if chosen is None else chosen
        self._kind = "audio" if spoken else "text"

    def created(self) -> list[Event]:
        """Returns the events that begin the reply."""
        return [{"type": "response.created", "response": self._response("in_progress")}]

    def output_started(self, output: OutputStarted) -> list[Event]:
        """Returns the events that begin its item, with the one part that it has."""
        self._items.append(output.item.item_id)
        item = item_object(output.item)
        return [
            self._item_event("response.output_item.added", item),
            item_added(output.item, output.previous_item_id),
            self._event(output.item.item_id, "content_part.added", part=self._part("")),
        ]

    def text(self, delta: TextDelta) -> list[Event]:
        """Returns the event of a piece of text."""
        return [self._event(delta.item_id, f"{self._text_name}.delta", delta=delta.text)]

    def audio(self, item_id: str, samples: Samples, rate_hz: int) -> list[Event]:
        """Returns the events of a piece of audio, as many as its size needs.

        Raises:
            ValueError: the audio is not at the rate of the reply's format.
        """
        wire = audio_format(self.session.audio.output.format)
        if rate_hz != wire.rate_hz:
            raise ValueError(f"audio at {rate_hz} Hz for a format of {wire.rate_hz} Hz")
        data = encode(samples, wire.encoding)
        pieces = [data[at : at + MAX_DELTA_BYTES] for at in range(0, len(data), MAX_DELTA_BYTES)]
        return [
            self._event(item_id, "output_audio.delta", delta=encode_base64(piece))
            for piece in pieces
        ]

    def output_done(self, output: OutputDone) -> list[Event]:
        """Returns the events that end its item."""
        item_id, said = output.item.item_id, _said(output.item)
        if item_id not in self._items:
            return []  # cancelled before it was announced
        final = {"transcript" if self._kind == "audio" else "text": said}
        events = [self._event(item_id, "output_audio.done")] if self._kind == "audio" else []
        return [
            *events,
            self._event(item_id, f"{self._text_name}.done", **final),
            self._event(item_id, "content_part.done", part=self._part(said)),
            self._item_event("response.output_item.done", item_object(output.item)),
            item_done(output.item, output.previous_item_id),
        ]

    def done(self, done: ResponseDone) -> list[Event]:
        """Returns the event that ends the reply."""
        response = self._response(str(done.status))
        response["status_details"] = _status_details(done)
        response["usage"] = usage_object(done.usage)
        known = [item for item in done.items if item.item_id in self._items]
        response["output"] = [item_object(item) for item in known]
        return [{"type": "response.done", "response": response}]

    @property
    def _text_name(self) -> str:
        return "output_audio_transcript" if self._kind == "audio" else "output_text"

    def _part(self, text: str) -> dict[str, str]:
        if self._kind == "audio":
            return {"type": "audio", "transcript": text}
        return {"type": "text", "text": text}

    def _response(self, status: str) -> dict[str, Any]:
        options, spoken = self.started.options, self.session.audio.output
        output = {
            "format": spoken.format.model_dump(),
            "voice": options.voice or voice_name(spoken),
        }
        return {
            "id": self.started.response_id,
            "object": "realtime.response",
            "status": status,
            "status_details": None,
            "output": [],
            "conversation_id": self.conversation_id,
            "output_modalities": [self._kind],
            "max_output_tokens": options.max_output_tokens or self.session.max_output_tokens,
            "audio": {"output": output},
            "metadata": _metadata(options),
            "usage": None,
        }

    def _event(self, item_id: str, name: str, **fields: Any) -> Event:
        return {
            "type": f"response.{name}",
            "response_id": self.started.response_id,
            "item_id": item_id,
            "output_index": self._index(item_id),
            "content_index": 0,
            **fields,
        }

    def _item_event(self, name: str, item: dict[str, Any]) -> Event:
        return {
            "type": name,
            "response_id": self.started.response_id,
            "output_index": self._index(item["id"]),
            "item": item,
        }

    def _index(self, item_id: str) -> int:
        return self._items.index(item_id)


def usage_object(usage: Usage) -> dict[str, Any]:
    """Returns every count of the wire; what a reply cannot have is 0, never left out."""
    audio_tokens = round(usage.output_audio_ms * AUDIO_TOKENS_PER_S / 1000)
    output_tokens = usage.output_text_tokens + audio_tokens
    cached = {"text_tokens": usage.cached_tokens, "audio_tokens": 0, "image_tokens": 0}
    return {
        "total_tokens": usage.input_text_tokens + output_tokens,
        "input_tokens": usage.input_text_tokens,
        "output_tokens": output_tokens,
        "input_token_details": {
            "text_tokens": usage.input_text_tokens,
            "audio_tokens": 0,
            "image_tokens": 0,
            "cached_tokens": usage.cached_tokens,
            "cached_tokens_details": cached,
        },
        "output_token_details": {
            "text_tokens": usage.output_text_tokens,
            "audio_tokens": audio_tokens,
        },
    }


def _said(item: Item) -> str:
    return "".join(part.text or "" for part in item.parts)


def _metadata(options: ResponseOptions) -> dict[str, str] | None:
    return dict(options.metadata) or None


def _status_details(done: ResponseDone) -> dict[str, Any] | None:
    if done.status is ResponseStatus.COMPLETED:
        return None
    details: dict[str, Any] = {"type": str(done.status)}
    if done.reason is not None:
        details["reason"] = str(done.reason)
    if done.status is ResponseStatus.FAILED:
        row = wire_error(done.error_code or SessionErrorCode.INTERNAL)
        details["error"] = {
            "type": row.type,
            "code": row.code,
            "message": done.error_message or "The reply could not be made.",
        }
    return details
