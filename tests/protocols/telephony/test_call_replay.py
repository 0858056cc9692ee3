"""A whole call in memory: Twilio's codec, a real session, and a network that plays."""

import base64
import json
from dataclasses import replace

import numpy as np

from protocols.audio_formats import Encoding, encode
from protocols.telephony.twilio import TwilioProtocol, TwilioSettings
from streams.config import SessionLimits
from streams.events import CreateResponse, OutputDone, ResponseDone
from tests.support.session_driver import SessionDriver, typed

FRAME_S = 0.02
SPEECH = encode(np.full(160, 0.3, np.float32), Encoding.MULAW)
SILENCE = encode(np.zeros(160, np.float32), Encoding.MULAW)
WORDS = ["banana "] * 30
"""Thirty words of equal length: 10.5 s at the scripted voice's pace."""


class Call:
    """Moves frames between the codec, its session and a network that plays at 1x."""

    def __init__(self, driver: SessionDriver, codec: TwilioProtocol) -> None:
        self.driver = driver
        self.codec = codec
        self.played_frames = 0
        self.clears: list[float] = []
        self.media_after_clear = 0
        self._seen = 0
        self._queue: list[str | None] = []  # a mark's name, or None for a frame
        self._chunk = 0

    async def receive(self, **message: object) -> None:
        text = json.dumps({"streamSid": "MZ1", "sequenceNumber": "1", **message})
        await self.driver.send(*self.codec.receive_text(text))

    async def tick(self, frame: bytes = SILENCE) -> None:
        """Lives through 20 ms."""
        self._chunk += 1
        media = {
            "track": "inbound",
            "chunk": str(self._chunk),
            "timestamp": str(20 * self._chunk),
            "payload": base64.b64encode(frame).decode(),
        }
        await self.receive(event="media", media=media)
        await self.driver.clock.advance(FRAME_S)
        self._take_output()
        while self._queue and (name := self._queue[0]) is not None:
            self._queue.pop(0)
            await self.receive(event="mark", mark={"name": name})
        if self._queue:
            self._queue.pop(0)
            self.played_frames += 1

    def _take_output(self) -> None:
        for event in self.driver.out[self._seen :]:
            self.codec.receive_output(event)
        self._seen = len(self.driver.out)
        for message in self.codec.events_to_send():
            match message["event"]:
                case "media":
                    self._queue.append(None)
                    self.media_after_clear += bool(self.clears)
                case "mark":
                    self._queue.append(message["mark"]["name"])
                case "clear":
                    self.clears.append(self.driver.clock.now_s())
                    self._queue.clear()


async def test_caller_who_speaks_at_4_s_leaves_the_words_of_the_first_4_s() -> None:
    codec = TwilioProtocol(TwilioSettings())
    media = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
    start = {"streamSid": "MZ1", "callSid": "CA1", "tracks": ["inbound"], "mediaFormat": media}
    codec.receive_text(json.dumps({"event": "start", "streamSid": "MZ1", "start": start}))
    limits = SessionLimits(route_ahead_s=0.2)
    async with SessionDriver(replace(codec.config()), limits) as driver:
        driver.responder.words = WORDS
        call = Call(driver, codec)
        await driver.send(typed("tell me"), CreateResponse())
        while call.played_frames < round(4.0 / FRAME_S):
            await call.tick()
        assert driver.responder.running == 0  # the text has long been written
        onset_s = driver.clock.now_s()
        while not call.clears:
            await call.tick(SPEECH)
            assert driver.clock.now_s() - onset_s < 0.2
        for _ in range(50):
            await call.tick(SPEECH)
        assert call.media_after_clear == 0
        assert len(call.clears) == 1
        assert driver.responder.aborted == 0
        item = driver.of(OutputDone)[0].item
        assert len(driver.of(ResponseDone)) == 1
        heard = driver.session._ctx.conversation.remembered(item.item_id).parts[0].text or ""
        heard_s = len(heard.split()) * 10.5 / len(WORDS)
        assert abs(heard_s - 4.0) <= 0.35  # 0.3 s, and the word that was cut in half
