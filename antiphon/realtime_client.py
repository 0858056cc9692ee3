"""A thin asyncio client of the Realtime protocol, for `antiphon talk` and the benchmarks.

It knows the wire's event names and the clock, and nothing of models or of the server's
inside: what it measures is what any client would see.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from antiphon.spoken_turn import REPLY_FORMAT, SpokenTurn, WireEvent
from engines.base import Samples
from engines.errors import (
    AntiphonError,
    BadRequest,
    EngineFailed,
    NotFound,
    Overloaded,
    Unauthorized,
)
from engines.errors import Timeout as DeadlinePassed
from protocols.audio_formats import Encoding, encode, encode_base64

FRAME_MS = 20
DEFAULT_URL = "ws://127.0.0.1:8000/v1/realtime"
_OPEN_TIMEOUT_S = 10.0
_LATE_ONSET_S = 0.5  # speech at the very end of a file is reported up to this much later
_UNHEARD_S = 5.0  # past the end of the file: no server that hears it is as slow as this
_TICK_S = 0.25  # how often deadlines are looked at
_TRY_AGAIN_LATER = 1013  # RFC 6455 registry of close codes


class RealtimeClient:
    """Is one open conversation. Made by `open_conversation`.

    Attributes:
        session: the session as the server describes it after our settings.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.session: dict[str, Any] = {}

    async def send(self, kind: str, **fields: Any) -> None:
        """Sends one event."""
        try:
            await self._socket.send(json.dumps({"type": kind, **fields}))
        except ConnectionClosed as error:
            raise _closed(error) from error

    async def append(self, samples: Samples) -> None:
        """Sends audio, mono float32, at the input rate of the session."""
        audio = encode_base64(encode(samples, Encoding.PCM16))
        await self.send("input_audio_buffer.append", audio=audio)

    async def next_event(self) -> WireEvent:
        """Waits for the next event; raises what the close code means where there is none."""
        try:
            event: WireEvent = json.loads(await self._socket.recv())
        except ConnectionClosed as error:
            raise _closed(error) from error
        return event

    async def configure(self, input_rate_hz: int) -> None:
        """Declares the rates, asks for transcripts, and waits until the server agrees."""
        audio = {
            "input": {
                "format": {"type": "audio/pcm", "rate": input_rate_hz},
                "transcription": {"model": "whisper-1"},
            },
            "output": {"format": {"type": "audio/pcm", "rate": REPLY_FORMAT.rate_hz}},
        }
        await self.send("session.update", session={"type": "realtime", "audio": audio})
        while True:
            event = await self.next_event()
            if event["type"] == "error":
                raise BadRequest(str(event["error"]["message"]))
            if event["type"] == "session.updated":
                self.session = event["session"]
                return


@asynccontextmanager
async def open_conversation(
    url: str, key: str = "", *, input_rate_hz: int
) -> AsyncIterator[RealtimeClient]:
    """Connects, declares the rates and yields the client; closes the socket at the end.

    Raises:
        NotFound: nobody answers at `url`.
        Unauthorized, Overloaded, BadRequest: as the server says.
        Timeout: it says nothing.
    """
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        socket = await connect(
            url, additional_headers=headers, open_timeout=_OPEN_TIMEOUT_S, max_size=None
        )
    except InvalidURI as error:
        raise BadRequest(f"{url} is not a WebSocket address (ws:// or wss://)") from error
    except InvalidStatus as error:
        raise _refused(error.response.status_code, url) from error
    except (OSError, InvalidHandshake) as error:  # OSError: TimeoutError too
        raise NotFound(f"no server answers at {url}; start one with `antiphon serve`") from error
    async with socket:
        client = RealtimeClient(socket)
        try:
            async with asyncio.timeout(_OPEN_TIMEOUT_S):
                await client.configure(input_rate_hz)
        except TimeoutError as error:
            raise DeadlinePassed(f"{url} does not answer session.update") from error
        yield client


async def spoken(samples: Samples, rate_hz: int) -> AsyncIterator[Samples]:
    """Yields 20 ms frames when a microphone would have them, then silence for ever.

    The first frame is due 20 ms after the first step: sample n has been "spoken" n / rate
    seconds after it, which makes the true end of speech known to the caller.
    """
    frame_samples = rate_hz * FRAME_MS // 1000
    started_s = time.monotonic()
    position = 0
    while True:
        frame = samples[position : position + frame_samples]
        frame = np.pad(frame, (0, frame_samples - len(frame)))
        position += frame_samples
        await asyncio.sleep(max(0.0, started_s + position / rate_hz - time.monotonic()))
        yield frame


async def hold_turn(
    client: RealtimeClient,
    frames: AsyncIterator[Samples],
    turn: SpokenTurn,
    *,
    timeout_s: float,
    on_event: Callable[[WireEvent], None] = lambda event: None,
) -> None:
    """Sends frames until `turn` has been answered, filling it on the way.

    Args:
        client: an open conversation.
        frames: the speaker, in real time; see `spoken`.
        turn: filled with what comes back; its `spoken_s` says when the speaker is done.
        timeout_s: seconds after the end of the question within which the reply must end.
        on_event: is told each server event, after `turn`.

    Raises:
        Timeout: the reply did not end in time, or nothing was heard.
    """
    turn.started_s = time.monotonic()
    deadline_s = turn.end_s + timeout_s
    speaker = asyncio.create_task(_send_frames(client, frames))
    try:
        while not (turn.settled and time.monotonic() > turn.end_s + _LATE_ONSET_S):
            if speaker.done():
                speaker.result()  # raises why it could not go on
            _check_patience(turn, time.monotonic(), deadline_s)
            try:
                async with asyncio.timeout(_TICK_S):
                    event = await client.next_event()
            except TimeoutError:
                continue
            turn.take(event, time.monotonic())
            on_event(event)
    finally:
        speaker.cancel()
        await asyncio.gather(speaker, return_exceptions=True)


def _check_patience(turn: SpokenTurn, now_s: float, deadline_s: float) -> None:
    if now_s > deadline_s:
        raise DeadlinePassed("the turn did not end in time")
    if turn.spoken_s and not turn.heard and now_s > turn.end_s + _UNHEARD_S:
        raise DeadlinePassed("the server heard no speech")


async def _send_frames(client: RealtimeClient, frames: AsyncIterator[Samples]) -> None:
    async for frame in frames:
        await client.append(frame)


def _refused(status: int, url: str) -> AntiphonError:
    match status:
        case 401 | 403:
            return Unauthorized(
                f"{url} wants an API key, or another one (HTTP {status}): --key or ANTIPHON_API_KEY"
            )
        case 429 | 503:
            return Overloaded(f"{url} has no room now (HTTP {status})")
        case _:
            return NotFound(f"{url} is no Realtime address (HTTP {status})")


def _closed(error: ConnectionClosed) -> AntiphonError:
    code = error.rcvd.code if error.rcvd else 1006
    reason = (error.rcvd.reason if error.rcvd else "") or f"code {code}"
    message = f"the server ended the conversation: {reason}"
    return Overloaded(message) if code == _TRY_AGAIN_LATER else EngineFailed(message)
