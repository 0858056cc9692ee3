"""A socket and a session side by side, at the moments that a real network rarely shows."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest

from protocols.openai.realtime import RealtimeProtocol
from protocols.openai.realtime_session import RealtimeSettings
from protocols.websocket import server
from protocols.websocket.server import Wire, exchange
from streams.config import SessionConfig
from streams.errors import SessionErrorCode
from streams.events import SessionClosed, SessionInput, SessionOutput, SessionStarted
from tests.protocols.scripted_sessions import ScriptedSession

COMMIT = json.dumps({"type": "input_audio_buffer.commit"})


class SlowSocket:
    """Is a client that takes a frame only when it is let, and speaks when it is told."""

    def __init__(self) -> None:
        self.takes = asyncio.Semaphore(0)
        self.frames: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.waiting = asyncio.Event()
        self.sent: list[dict[str, Any]] = []
        self.closed: tuple[int, str] | None = None

    async def receive(self) -> dict[str, Any]:
        return await self.frames.get()

    async def send_text(self, text: str) -> None:
        self.waiting.set()
        await self.takes.acquire()
        self.sent.append(json.loads(text))

    async def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)

    def speak(self, text: str) -> None:
        self.frames.put_nowait({"type": "websocket.receive", "text": text})

    def leave(self) -> None:
        self.frames.put_nowait({"type": "websocket.disconnect", "code": 1006})


class Meeting:
    """Runs an exchange between a slow socket and a scripted session."""

    def __init__(self) -> None:
        self.socket = SlowSocket()
        self.heard = asyncio.Event()
        self.session = ScriptedSession(SessionConfig(), self.hear)
        codec = RealtimeProtocol(RealtimeSettings())
        codec.start({}, 0.0)
        wire = Wire(self.socket, codec)  # type: ignore[arg-type]  # the three calls it makes
        self.session.say(SessionStarted("sess_1", self.session.config))
        self.task = asyncio.create_task(exchange(wire, codec, self.session, self.count))

    def hear(self, event: SessionInput) -> Iterable[SessionOutput]:
        self.heard.set()
        return ()

    def count(self, name: str, amount: int) -> None:
        """Does nothing."""

    async def until_sending(self) -> None:
        """Waits until a frame waits for the client to take it."""
        await self.socket.waiting.wait()
        self.socket.waiting.clear()


async def test_last_error_is_sent_though_the_client_keeps_talking() -> None:
    meeting = Meeting()
    meeting.socket.takes.release()
    await meeting.until_sending()
    meeting.session.say(SessionClosed(SessionErrorCode.IDLE, "Nobody spoke."))
    await meeting.until_sending()  # the error event is stuck in the socket
    meeting.socket.speak(COMMIT)
    await meeting.heard.wait()
    await asyncio.sleep(0)  # a reader that ended by mistake would end the exchange here
    meeting.socket.takes.release()
    await meeting.task
    assert [event["type"] for event in meeting.socket.sent] == ["session.created", "error"]
    assert meeting.socket.closed == (4408, "Nobody spoke.")


async def test_client_is_heard_while_a_frame_is_stuck() -> None:
    meeting = Meeting()
    await meeting.until_sending()
    meeting.socket.speak(COMMIT)
    async with asyncio.timeout(5):
        await meeting.heard.wait()
    meeting.socket.leave()
    await meeting.task


async def test_client_that_leaves_while_a_frame_is_stuck_frees_its_session() -> None:
    meeting = Meeting()
    await meeting.until_sending()
    meeting.socket.leave()
    await meeting.task
    assert meeting.session.closes == 1
    assert meeting.socket.closed is None


async def test_client_that_takes_no_frame_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SEND_TIMEOUT_S", 0.01)
    meeting = Meeting()
    await meeting.task
    assert meeting.session.closes == 1


async def test_cancelled_exchange_frees_its_session() -> None:
    meeting = Meeting()
    await meeting.until_sending()
    meeting.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await meeting.task
    assert meeting.session.closes == 1
