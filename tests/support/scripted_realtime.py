"""A Realtime server that says what it is told to: for tests of the clients alone."""

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

WireEvent = dict[str, Any]

SESSION = {
    "type": "realtime",
    "audio": {"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 500}}},
}


def one_turn(heard: str = "hello there", reply: str = "General Kenobi.") -> list[WireEvent]:
    """Returns what a server says in a turn: half a second of tone as the reply's audio."""
    tone = np.sin(np.arange(12_000) * 2 * np.pi * 440 / 24_000) * 8_000
    audio = base64.b64encode(tone.astype("<i2").tobytes()).decode()
    transcription = "conversation.item.input_audio_transcription"
    first, rest = heard[:5], heard[5:]
    return [
        {"type": "input_audio_buffer.speech_started", "item_id": "u1", "audio_start_ms": 0},
        {"type": f"{transcription}.delta", "item_id": "u1", "delta": first},
        {"type": "input_audio_buffer.speech_stopped", "item_id": "u1", "audio_end_ms": 200},
        {"type": f"{transcription}.delta", "item_id": "u1", "delta": rest},
        {"type": f"{transcription}.completed", "item_id": "u1", "transcript": heard},
        {"type": "response.created", "response": {"id": "r1", "status": "in_progress"}},
        {"type": "response.output_audio_transcript.delta", "item_id": "a1", "delta": reply},
        {"type": "response.output_audio.delta", "item_id": "a1", "delta": audio},
        {"type": "response.done", "response": {"id": "r1", "status": "completed"}},
    ]


@dataclass(slots=True)
class ScriptedRealtime:
    """Plays `script` in every conversation once `after_frames` audio events have come.

    Attributes:
        received: every event of every client, in order.
        refuse: HTTP status for the upgrade, or None.
        close: (code, reason) to close with after the script, or None.
    """

    script: list[WireEvent] = field(default_factory=one_turn)
    after_frames: int = 5
    refuse: int | None = None
    close: tuple[int, str] | None = None
    received: list[WireEvent] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    url: str = ""

    def check(self, socket: ServerConnection, request: Request) -> Response | None:
        """Notes the key, and refuses the upgrade if told to."""
        self.keys.append(request.headers.get("Authorization"))
        return None if self.refuse is None else socket.respond(self.refuse, "no\n")

    async def talk(self, socket: ServerConnection) -> None:
        """Answers one client."""
        frames = 0
        await socket.send(json.dumps({"type": "session.created", "session": SESSION}))
        async for message in socket:
            event = json.loads(message)
            self.received.append(event)
            if event["type"] == "session.update":
                await socket.send(json.dumps({"type": "session.updated", "session": SESSION}))
            frames += event["type"] == "input_audio_buffer.append"
            if frames == self.after_frames:
                for each in self.script:
                    await socket.send(json.dumps(each))
                if self.close is not None:
                    await socket.close(*self.close)


@asynccontextmanager
async def scripted_realtime(
    adjust: Callable[[ScriptedRealtime], object] = lambda server: None,
) -> AsyncIterator[ScriptedRealtime]:
    """Serves on a free port of 127.0.0.1."""
    scripted = ScriptedRealtime()
    adjust(scripted)
    async with serve(scripted.talk, "127.0.0.1", 0, process_request=scripted.check) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        scripted.url = f"ws://127.0.0.1:{port}/v1/realtime"
        yield scripted
