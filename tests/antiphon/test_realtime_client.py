import asyncio
import base64
import time

import numpy as np
import pytest

from antiphon.realtime_client import hold_turn, open_conversation, spoken
from antiphon.spoken_turn import SpokenTurn
from engines.errors import (
    AntiphonError,
    BadRequest,
    EngineFailed,
    NotFound,
    Overloaded,
    Timeout,
    Unauthorized,
)
from tests.support.scripted_realtime import ScriptedRealtime, scripted_realtime

RATE_HZ = 16_000
TENTH = np.full(RATE_HZ // 10, 0.25, np.float32)


async def ask(server: ScriptedRealtime, key: str = "", timeout_s: float = 5.0) -> SpokenTurn:
    turn = SpokenTurn(spoken_s=0.1)
    async with open_conversation(server.url, key, input_rate_hz=RATE_HZ) as client:
        await hold_turn(client, spoken(TENTH, RATE_HZ), turn, timeout_s=timeout_s)
    return turn


async def test_question_is_sent_in_whole_frames_with_its_rate_declared() -> None:
    async with scripted_realtime() as server:
        await ask(server)
    update, *appends = server.received
    assert update["session"]["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": RATE_HZ}
    audio = [base64.b64decode(event["audio"]) for event in appends]
    assert {len(frame) for frame in audio} == {640}
    sent = np.frombuffer(b"".join(audio), "<i2")
    assert (sent[: len(TENTH)] == 8192).all()
    assert not sent[len(TENTH) :].any()


async def test_frames_come_no_sooner_than_a_microphone_would_have_them() -> None:
    frames = spoken(TENTH, RATE_HZ)
    started_s = time.monotonic()
    for count in range(1, 6):
        await anext(frames)
        assert time.monotonic() - started_s >= count * 0.02 - 0.001


async def test_turn_is_filled_with_the_reply() -> None:
    async with scripted_realtime() as server:
        turn = await ask(server)
    assert (turn.transcript, turn.reply, turn.failure) == ("hello there", "General Kenobi.", None)


async def test_key_goes_out_as_a_bearer_token() -> None:
    async with scripted_realtime() as server:
        await ask(server, key="secret")
        assert server.keys == ["Bearer secret"]


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, Unauthorized), (403, Unauthorized), (503, Overloaded), (404, NotFound)],
)
async def test_refused_upgrade_becomes_a_typed_error(
    status: int, error: type[AntiphonError]
) -> None:
    async with scripted_realtime(lambda server: setattr(server, "refuse", status)) as server:
        with pytest.raises(error, match=str(status)):
            await ask(server)


async def test_nobody_at_the_address_is_said_with_what_to_do() -> None:
    with pytest.raises(NotFound, match="antiphon serve"):
        async with open_conversation("ws://127.0.0.1:9/v1/realtime", input_rate_hz=RATE_HZ):
            pass


async def test_http_address_is_refused_as_no_websocket() -> None:
    with pytest.raises(BadRequest, match="ws://"):
        async with open_conversation("http://127.0.0.1:9/", input_rate_hz=RATE_HZ):
            pass


@pytest.mark.parametrize(("code", "error"), [(1011, EngineFailed), (1013, Overloaded)])
async def test_server_that_closes_in_mid_turn_is_reported_with_its_reason(
    code: int, error: type[AntiphonError]
) -> None:
    def close_early(server: ScriptedRealtime) -> None:
        server.script, server.close = [], (code, "going down")

    async with scripted_realtime(close_early) as server:
        with pytest.raises(error, match="going down"):
            await ask(server)


async def test_reply_that_never_ends_is_given_up_after_the_timeout() -> None:
    async with scripted_realtime(lambda server: server.script.pop()) as server:
        with pytest.raises(Timeout):
            await ask(server, timeout_s=0.2)


async def test_no_task_is_left_after_a_turn() -> None:
    before = asyncio.all_tasks()
    async with scripted_realtime() as server:
        await ask(server)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() <= before
