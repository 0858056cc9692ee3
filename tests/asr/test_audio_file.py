from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr.audio_file import AudioInfo, inspect_audio, read_audio
from engines.errors import AntiphonError, BadRequest, NotFound

MP3 = Path(__file__).parent.parent / "data" / "audio" / "silero_test.mp3"


def tone(rate_hz: int, seconds: float = 1.0, hertz: float = 440.0) -> np.ndarray:
    times = np.arange(round(rate_hz * seconds)) / rate_hz
    return (0.5 * np.sin(2 * np.pi * hertz * times)).astype(np.float32)


def pitch_hz(samples: np.ndarray) -> float:
    return float(np.argmax(np.abs(np.fft.rfft(samples))) * 16_000 / len(samples))


def read_all(path: Path, **knobs) -> np.ndarray:
    return np.concatenate(list(read_audio(path, **knobs)))


@pytest.mark.parametrize(
    ("name", "subtype"),
    [
        ("a.wav", "PCM_16"),
        ("a.wav", "PCM_24"),
        ("a.wav", "PCM_U8"),
        ("a.wav", "FLOAT"),
        ("a.wav", "ULAW"),
        ("a.flac", "PCM_16"),
        ("a.ogg", "VORBIS"),
        ("a.mp3", "MPEG_LAYER_III"),
    ],
)
@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 44_100, 48_000])
def test_every_format_and_rate_keeps_duration_and_pitch(tmp_path, name, subtype, rate_hz):
    path = tmp_path / name
    soundfile.write(path, tone(rate_hz), rate_hz, subtype=subtype)
    samples = read_all(path)
    assert samples.dtype == np.float32
    assert len(samples) == pytest.approx(16_000, rel=0.15 if name.endswith("mp3") else 0.01)
    assert pitch_hz(samples) == pytest.approx(440, abs=2)


def test_the_content_counts_and_not_the_name(tmp_path):
    path = tmp_path / "speech.mp3"
    soundfile.write(path, tone(16_000), 16_000, format="FLAC")
    np.testing.assert_allclose(read_all(path), tone(16_000), atol=1e-4)


def test_channels_are_averaged(tmp_path):
    stereo = np.stack([tone(16_000), -tone(16_000)], axis=1)
    soundfile.write(tmp_path / "s.wav", stereo, 16_000, subtype="FLOAT")
    assert np.abs(read_all(tmp_path / "s.wav")).max() < 1e-6


def test_blocks_of_any_size_give_the_same_audio(tmp_path):
    path = tmp_path / "a.wav"
    sound = np.random.default_rng(0).uniform(-0.5, 0.5, 44_100).astype(np.float32)
    soundfile.write(path, sound, 44_100, subtype="FLOAT")
    whole = read_all(path, block_s=10)
    pieces = list(read_audio(path, block_s=0.05))
    assert len(pieces) > 10
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-6)


def test_samples_beyond_full_scale_are_clipped(tmp_path):
    soundfile.write(tmp_path / "a.wav", 4 * tone(16_000), 16_000, subtype="FLOAT")
    assert np.abs(read_all(tmp_path / "a.wav")).max() == 1.0


def test_a_file_says_what_it_is():
    info = inspect_audio(MP3)
    assert info == AudioInfo("MP3", 44_100, 2, pytest.approx(2.534, abs=1e-3))


def test_a_real_mp3_is_read_whole():
    assert len(read_all(MP3)) == pytest.approx(2.534 * 16_000, abs=16)


@pytest.mark.parametrize("missing", [1, 100, 209, 2_000, 20_000, 41_000, 41_170, 200_000, 331_900])
def test_a_truncated_mp3_is_refused_wherever_it_is_cut(tmp_path, missing, capfd):
    path = tmp_path / "cut.mp3"
    path.write_bytes(MP3.read_bytes()[:-missing])
    assert_refused(path, "cut.mp3")
    assert capfd.readouterr().err == ""  # nothing from the decoder's own mouth


def assert_refused(path: Path, *said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_all(path)
    message = str(caught.value)
    assert "\n" not in message and all(word in message for word in said)


def test_a_text_file_is_refused_whatever_its_name(tmp_path):
    for name in ("notes.txt", "notes.wav", "notes.mp3", "notes.flac"):
        (tmp_path / name).write_text("Dear diary,\nnothing happened.\n" * 50)
        assert_refused(tmp_path / name, name, "not audio")


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "empty.wav").touch()
    assert_refused(tmp_path / "empty.wav", "empty.wav is empty")


def test_a_file_without_samples_is_refused(tmp_path):
    soundfile.write(tmp_path / "none.wav", np.zeros(0, dtype=np.float32), 16_000)
    assert_refused(tmp_path / "none.wav", "no audio")


def test_a_truncated_flac_is_refused(tmp_path):
    whole = tmp_path / "whole.flac"
    soundfile.write(whole, tone(16_000, 5), 16_000)
    data = whole.read_bytes()
    for share in (0.3, 0.7, 0.99):
        (tmp_path / "cut.flac").write_bytes(data[: round(len(data) * share)])
        assert_refused(tmp_path / "cut.flac", "cut.flac")


def test_a_wav_with_a_length_that_was_never_filled_in_is_read_to_its_end(tmp_path):
    path = tmp_path / "stream.wav"
    soundfile.write(path, tone(16_000), 16_000, subtype="PCM_16")
    data = bytearray(path.read_bytes())
    data[4:8] = data[40:44] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    assert len(read_all(path)) == 16_000


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_samples_that_are_not_numbers_are_refused(tmp_path, bad):
    sound = tone(16_000)
    sound[500] = bad
    soundfile.write(tmp_path / "bad.wav", sound, 16_000, subtype="FLOAT")
    assert_refused(tmp_path / "bad.wav", "not numbers")


def test_random_bytes_are_refused(tmp_path):
    (tmp_path / "noise.bin").write_bytes(np.random.default_rng(0).bytes(50_000))
    assert_refused(tmp_path / "noise.bin", "not audio")


def test_a_missing_file_and_a_directory_are_told_apart(tmp_path):
    with pytest.raises(NotFound, match="there is no file"):
        inspect_audio(tmp_path / "nowhere.wav")
    with pytest.raises(BadRequest, match="not a file"):
        inspect_audio(tmp_path)
    assert issubclass(NotFound, AntiphonError)
