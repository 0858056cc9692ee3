"""The page in a real browser: a fake microphone speaks, and what it hears back is counted."""

import shutil
from collections.abc import AsyncIterator
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

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
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
QUESTION = "what is natural language processing"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(170),
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium on the PATH (apt-get install chromium)"
    ),
]


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * SAMPLE_RATE_HZ), np.float32)


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    """Yields a page whose microphone asks, waits until the reply plays, and asks again."""
    question = np.concatenate(list(read_audio(AUDIO / "en-US_sample.flac")))
    spoken = np.concatenate([silence(1.0), question, silence(3.5), question, silence(20.0)])
    microphone = tmp_path / "microphone.wav"
    soundfile.write(microphone, spoken, SAMPLE_RATE_HZ, subtype="PCM_16")
    flags = [*FLAGS, f"--use-file-for-fake-audio-capture={microphone}%noloop"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield await browser.new_page()
        await browser.close()


async def stats(page: Page) -> dict[str, Any]:
    result: dict[str, Any] = await page.evaluate("structuredClone(window.antiphonStats)")
    return result


async def until(page: Page, condition: str) -> None:
    """Waits for an expression over the page's counters, `s`."""
    await page.wait_for_function(
        f"(() => {{ const s = window.antiphonStats; return {condition}; }})()", timeout=60_000
    )


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
    await until(page, "s.partials > 0 && s.finals.length === 0")  # it grows before it is final
    await until(page, "s.finals.length > 0")
    await until(page, "s.samplesPlayed > 12000")
    log = page.get_by_role("log")
    assert await log.locator(".user").count() == 1
    assert (await log.locator(".assistant").first.inner_text()).strip(" …")
    await until(page, "s.clears > 0 && s.truncations.length > 0")
    interrupted = await stats(page)
    await until(page, "s.finals.length > 1")
    await until(page, f"s.samplesPlayed > {interrupted['samplesPlayed'] + 12_000}")  # the new reply
    final = await stats(page)
    assert word_error_rate(QUESTION, final["finals"][0]) <= 0.2, final["finals"]
    (cut,) = interrupted["truncations"]
    assert cut["audio_end_ms"] > 250
    assert interrupted["samplesPlayed"] < interrupted["samplesReceived"]  # the rest was dropped
    assert any(
        '"conversation.item.truncate"' in frame and cut["item_id"] in frame for frame in sent
    )
    assert final["latencyMs"] is not None
    assert final["underruns"] == 0
    assert final["errors"] == wrong == []
