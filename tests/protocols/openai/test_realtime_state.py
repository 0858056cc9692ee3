"""Audio that clients append, in every format and cut anywhere."""

from typing import Any

import numpy as np
import pytest

from protocols.audio_formats import Encoding, encode, encode_base64
from streams.events import (
    AudioIn,
    KeepAlive,
    SessionInput,
)
from tests.protocols.realtime_driver import Driver

RAMP = np.linspace(-0.5, 0.5, 480, dtype=np.float32)


def heard(inputs: list[SessionInput]) -> np.ndarray[Any, Any]:
    """Returns the samples of inputs, all of which must be audio."""
    assert all(isinstance(event, AudioIn) for event in inputs)
    return np.concatenate([event.samples for event in inputs if isinstance(event, AudioIn)])


def append(driver: Driver, data: bytes) -> list[SessionInput]:
    return driver.send("input_audio_buffer.append", audio=encode_base64(data))


def test_appended_pcm_becomes_samples_at_the_declared_rate() -> None:
    driver = Driver().started()
    data = encode(RAMP, Encoding.PCM16)
    (event,) = append(driver, data)
    assert isinstance(event, AudioIn)
    assert event.rate_hz == 24_000
    assert np.abs(event.samples - RAMP).max() <= 0.5 / 32_768


@pytest.mark.parametrize("sizes", [[1323], [1, 4063, 1697], [2000]])
def test_any_split_of_44_khz_pcm_gives_the_same_samples(sizes: list[int]) -> None:
    driver = Driver().started()
    driver.update({"audio": {"input": {"format": {"type": "audio/pcm", "rate": 44_100}}}})
    samples = (np.sin(np.arange(44_100) / 20) / 2).astype(np.float32)
    data, at = encode(samples, Encoding.PCM16) + b"\x07", 0
    inputs: list[list[SessionInput]] = []
    while at < len(data):
        size = sizes[len(inputs) % len(sizes)]
        inputs.append(append(driver, data[at : at + size]))
        at += size
    flat = [event for some in inputs for event in some if isinstance(event, AudioIn)]
    assert {event.rate_hz for event in flat} == {44_100}
    assert len(heard(list(flat))) == 44_100
    assert np.abs(heard(list(flat)) - samples).max() <= 0.5 / 32_768
    assert driver.protocol.counters["odd_bytes_dropped"] == 0
    driver.send("input_audio_buffer.commit")
    assert driver.protocol.counters["odd_bytes_dropped"] == 1
    assert driver.sent() == []


@pytest.mark.parametrize(
    ("wire", "encoding"), [("audio/pcmu", Encoding.MULAW), ("audio/pcma", Encoding.ALAW)]
)
def test_g711_is_decoded_by_its_law_at_8_khz(wire: str, encoding: Encoding) -> None:
    driver = Driver().started()
    driver.update({"audio": {"input": {"format": {"type": wire}}}})
    (event,) = append(driver, encode(RAMP, encoding))
    assert isinstance(event, AudioIn)
    assert event.rate_hz == 8_000
    assert np.abs(event.samples - RAMP).max() < 0.02


def test_long_append_enters_in_pieces_of_a_second() -> None:
    driver = Driver().started()
    inputs = append(driver, bytes(2 * 60_000))
    assert [len(event.samples) for event in inputs if isinstance(event, AudioIn)] == [
        24_000,
        24_000,
        12_000,
    ]


@pytest.mark.parametrize("data", [b"", b"\x01"])
def test_append_without_a_whole_sample_keeps_the_session_alive(data: bytes) -> None:
    assert append(Driver().started(), data) == [KeepAlive()]


def test_new_input_format_drops_the_half_sample_of_the_old_one() -> None:
    driver = Driver().started()
    append(driver, b"\x01")
    driver.update({"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16_000}}}})
    (event,) = append(driver, b"\x00\x40")
    assert isinstance(event, AudioIn)
    assert (event.rate_hz, event.samples.tolist()) == (16_000, [0.5])
    assert driver.protocol.counters["odd_bytes_dropped"] == 1
