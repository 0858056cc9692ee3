"""The page in a real browser: a fake microphone speaks, and what it hears back is counted."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from playwright.async_api import Page, async_playwright

from antiphon.server_process import ServerProcess
from asr.audio_file import read_audio
from asr.config import SAMPLE_RATE_HZ
from asr.wer import word_error_rate
from engines.base import Samples
from tests.e2e.conftest import AUDIO

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
]
Stats = dict[str, Any]
STATEMENT = (
    "after early nightfall the yellow lamps would light up here and there "
    "the squalid quarter of the brothels"
)
QUESTION = "what is natural language processing"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(170)]


def clip(name: str) -> Samples:
    return np.concatenate(list(read_audio(AUDIO / name)))


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * SAMPLE_RATE_HZ), np.float32)


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    """Yields a page whose microphone asks, waits until the reply plays, and asks again."""
    assert CHROMIUM is not None, "no Chromium on the PATH: apt-get install chromium"
    first, second = (clip(name) for name in ("1089-134686-0001.flac", "en-US_sample.flac"))
    spoken = np.concatenate([silence(1.0), first, silence(2.5), second, silence(20.0)])
    microphone = tmp_path / "microphone.wav"
    soundfile.write(microphone, spoken, SAMPLE_RATE_HZ, subtype="PCM_16")
    flags = [*FLAGS, f"--use-file-for-fake-audio-capture={microphone}%noloop"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield await browser.new_page()
        await browser.close()


async def until(page: Page, wanted: Callable[[Stats], bool], within_s: float = 60.0) -> Stats:
    """Waits until the page's counters are as wanted, and returns them.

    By polling: the page's policy forbids what Playwright's own waiting does (eval).
    """
    deadline_s = time.monotonic() + within_s
    while True:
        seen: Stats = await page.evaluate("structuredClone(window.antiphonStats)")
        if wanted(seen):
            return seen
        assert time.monotonic() < deadline_s, seen
        await asyncio.sleep(0.05)


async def test_page_hears_answers_and_is_interrupted(page: Page, server: ServerProcess) -> None:
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
    sent: list[str] = []
    page.on(
        "websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame)))
    )
    await page.goto(server.base_url)
    await page.get_by_role("button", name="Start talking").click()
    growing = await until(page, lambda s: s["partials"] > 0)
    assert growing["finals"] == []
    heard = await until(page, lambda s: len(s["finals"]) == 1)
    assert word_error_rate(STATEMENT, heard["finals"][0]) <= 0.2, heard
    playing = await until(page, lambda s: s["samplesPlayed"] > 12_000)
    assert playing["latencyMs"] > 0
    reply = page.get_by_role("log").locator(".assistant")
    assert (await reply.first.inner_text()).strip(" …")
    cut = await until(page, lambda s: s["clears"] == 1)
    (truncation,) = cut["truncations"]
    assert truncation["audio_end_ms"] > 250
    assert cut["samplesPlayed"] < cut["samplesReceived"]  # the rest was dropped
    assert any(truncation["item_id"] in each for each in sent if ".item.truncate" in each)
    heard = await until(page, lambda s: len(s["finals"]) == 2)
    assert word_error_rate(QUESTION, heard["finals"][1]) <= 0.2, heard
    last = await until(page, lambda s: s["samplesPlayed"] > cut["samplesPlayed"] + 12_000)
    assert await reply.count() == 2
    assert last["underruns"] == 0
    assert last["errors"] == wrong == []
