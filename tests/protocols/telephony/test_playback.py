import numpy as np

from protocols.audio_formats import Encoding, decode_g711
from protocols.telephony.playback import (
    FRAME_SAMPLES,
    MAX_MARKS,
    Frame,
    Mark,
    Playback,
    Played,
)

TONE = (np.sin(np.arange(8_000) / 4) / 2).astype(np.float32)


def frames(sent: list[Frame | Mark]) -> bytes:
    return b"".join(piece.payload for piece in sent if isinstance(piece, Frame))


def marks(sent: list[Frame | Mark]) -> list[str]:
    return [piece.name for piece in sent if isinstance(piece, Mark)]


def test_audio_in_odd_pieces_goes_out_in_whole_frames_without_a_gap() -> None:
    playback, sent = Playback(), []
    for at in range(0, len(TONE), 777):
        sent += playback.push("r", "i", TONE[at : at + 777])
    sent += playback.finish("r")
    assert {len(piece.payload) for piece in sent if isinstance(piece, Frame)} == {FRAME_SAMPLES}
    assert np.abs(decode_g711(frames(sent), Encoding.MULAW) - TONE).max() < 0.02


def test_last_frame_is_filled_with_silence() -> None:
    playback = Playback()
    assert playback.push("r", "i", TONE[:100]) == []
    frame, mark = playback.finish("r")
    assert isinstance(frame, Frame) and isinstance(mark, Mark)
    assert frame.payload[100:] == b"\xff" * 60
    assert playback.returned(mark.name) == Played("i", 12)  # 100 samples, not the filling


def test_marks_come_every_200_ms_and_tell_what_was_played() -> None:
    playback = Playback()
    names = marks(playback.push("r", "i", TONE))
    assert names == ["r1-s1", "r1-s2", "r1-s3", "r1-s4", "r1-s5"]
    assert [playback.returned(name) for name in names] == [
        Played("i", played_ms) for played_ms in (200, 400, 600, 800, 1000)
    ]
    assert playback.returned("r1-s1") is None  # a mark counts once


def test_reply_that_ends_between_marks_gets_a_last_one() -> None:
    playback = Playback()
    assert marks(playback.push("r", "i", TONE[:1_920])) == ["r1-s1"]
    assert marks(playback.finish("r")) == ["r1-s2"]
    assert playback.finish("r") == []


def test_marks_that_wait_at_a_clear_mean_nothing_any_more() -> None:
    playback = Playback()
    names = marks(playback.push("r", "i", TONE))
    playback.clear()
    assert [playback.returned(name) for name in names] == [None] * 5
    assert marks(playback.push("r2", "i2", TONE[:1_600])) == ["r2-s1"]


def test_marks_that_never_return_are_bounded() -> None:
    playback = Playback()
    for reply in range(MAX_MARKS + 10):
        playback.push(str(reply), "i", TONE[:1_600])
    assert playback.returned("r1-s1") is None
    assert playback.returned(f"r{MAX_MARKS + 10}-s1") is not None
