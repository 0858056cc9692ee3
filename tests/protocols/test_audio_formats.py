import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.audio_formats import (
    AudioDecoder,
    AudioFormat,
    Encoding,
    decode_base64,
    decode_g711,
    encode,
    encode_base64,
)
from streams.errors import BadRequest

PCM = AudioFormat(Encoding.PCM16, 24_000)

# ITU-T G.711, tables 5 and 6: one period of the 1 kHz "digital milliwatt" at 8 kHz.
MILLIWATT_ALAW = bytes.fromhex("34212134b4a1a1b4")
MILLIWATT_MULAW = bytes.fromhex("1e0b0b1e9e8b8b9e")


def linear(data: bytes, encoding: Encoding) -> list[int]:
    return [round(float(value) * 32_768) for value in decode_g711(data, encoding)]


@pytest.mark.parametrize(
    ("encoding", "byte", "value"),
    [
        # The ends, the zeros and one value within a segment of each law, on a 16-bit scale.
        (Encoding.MULAW, 0xFF, 0),
        (Encoding.MULAW, 0x7F, 0),
        (Encoding.MULAW, 0x80, 32_124),
        (Encoding.MULAW, 0x00, -32_124),
        (Encoding.MULAW, 0xFE, 8),
        (Encoding.MULAW, 0xEF, 132),
        (Encoding.ALAW, 0xD5, 8),
        (Encoding.ALAW, 0x55, -8),
        (Encoding.ALAW, 0xAA, 32_256),
        (Encoding.ALAW, 0x2A, -32_256),
        (Encoding.ALAW, 0xC5, 264),
    ],
)
def test_g711_byte_decodes_to_the_value_of_the_table(
    encoding: Encoding, byte: int, value: int
) -> None:
    assert linear(bytes([byte]), encoding) == [value]


@pytest.mark.parametrize(
    ("encoding", "data"),
    [(Encoding.MULAW, MILLIWATT_MULAW), (Encoding.ALAW, MILLIWATT_ALAW)],
)
def test_digital_milliwatt_is_a_sine_of_1_khz_at_its_stated_level(
    encoding: Encoding, data: bytes
) -> None:
    heard = decode_g711(data * 100, encoding)
    spectrum = np.abs(np.fft.rfft(heard)) / len(heard) * 2
    peak = int(spectrum.argmax())
    assert peak * 8_000 / len(heard) == 1_000
    # 0 dBm0 is 3.17 dB (mu-law) or 3.14 dB (A-law) below full scale.
    below_full_db = -20 * np.log10(spectrum[peak])
    assert below_full_db == pytest.approx(3.17 if encoding is Encoding.MULAW else 3.14, abs=0.2)


@pytest.mark.parametrize("encoding", [Encoding.MULAW, Encoding.ALAW])
def test_every_g711_byte_comes_back_from_its_own_value(encoding: Encoding) -> None:
    every = bytes(range(256))
    back = encode(decode_g711(every, encoding), encoding)
    if encoding is Encoding.MULAW:
        every = every.replace(b"\x7f", b"\xff")  # its two zeros are one value
    assert back == every


@pytest.mark.parametrize("encoding", [Encoding.MULAW, Encoding.ALAW])
def test_g711_is_as_close_as_its_steps_allow(encoding: Encoding) -> None:
    samples = np.linspace(-0.99, 0.99, 4_001, dtype=np.float32)
    back = decode_g711(encode(samples, encoding), encoding)
    # The widest step of a segment is 1/16 of its lower end: half of that is the error.
    assert np.all(np.abs(back - samples) <= np.abs(samples) / 32 + 16 / 32_768)


@given(st.binary(max_size=200), st.lists(st.integers(1, 7), max_size=100))
def test_pcm_cut_anywhere_gives_the_same_samples(data: bytes, cuts: list[int]) -> None:
    whole, pieces = AudioDecoder(PCM), AudioDecoder(PCM)
    expected = whole.push(data)
    heard, at = [], 0
    for size in [*cuts, len(data)]:
        heard.append(pieces.push(data[at : at + size]))
        at += size
    assert np.array_equal(np.concatenate(heard), expected)


def test_lone_byte_at_the_end_is_dropped_and_counted_once() -> None:
    decoder = AudioDecoder(PCM)
    assert len(decoder.push(b"\x01\x02\x03")) == 1
    decoder.finish()
    decoder.finish()
    assert decoder.dropped_bytes == 1
    assert decoder.push(b"\x00\x40").tolist() == [0.5]  # not shifted by the lost half


def test_pcm_is_little_endian_and_round_trips() -> None:
    samples = np.array([0.0, 0.5, -0.5, -1.0, 1 / 32_768], dtype=np.float32)
    data = encode(samples, Encoding.PCM16)
    assert data == b"\x00\x00\x00\x40\x00\xc0\x00\x80\x01\x00"
    assert np.array_equal(AudioDecoder(PCM).push(data), samples)


def test_too_loud_is_clipped_and_nan_is_silence() -> None:
    samples = np.array([2.0, -2.0, np.nan, np.inf, -np.inf], dtype=np.float32)
    values = np.frombuffer(encode(samples, Encoding.PCM16), dtype="<i2").tolist()
    assert values == [32_767, -32_768, 0, 32_767, -32_768]


@pytest.mark.parametrize("text", ["QQ", "QQ=", "Q Q=", "QQ==\n", "QQ==QQ==", "Q-_=", "é", "====="])
def test_sloppy_base64_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode_base64(text, param="audio")
    assert caught.value.param == "audio"


@given(st.binary(max_size=100))
def test_base64_round_trips_without_line_breaks(data: bytes) -> None:
    text = encode_base64(data)
    assert "\n" not in text
    assert decode_base64(text) == data
