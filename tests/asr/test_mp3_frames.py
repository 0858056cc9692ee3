from pathlib import Path

import pytest

from asr.mp3_frames import Mp3Scan, frame_bytes, looks_like_mp3, scan_mp3

FILE = Path(__file__).parent.parent / "data" / "audio" / "silero_test.mp3"
HEADER = b"\xff\xfb\x50\x00"  # MPEG-1 layer III, 64 kbit/s, 44.1 kHz: 208 bytes
FRAME = HEADER + bytes(204)
TAG = b"ID3\x04\x00\x00\x00\x00\x01\x00" + bytes(128)


@pytest.mark.parametrize(
    ("header", "length"),
    [
        (HEADER, 208),
        (b"\xff\xfb\x52\x00", 209),  # padded by one byte
        (b"\xff\xfb\x90\x00", 417),  # 128 kbit/s
        (b"\xff\xf3\x50\x00", 130),  # MPEG-2, 40 kbit/s, 22.05 kHz
        (b"\xff\xe3\x58\x00", 360),  # MPEG-2.5, 40 kbit/s, 8 kHz
        (b"\xff\xfd\x80\x00", 417),  # layer II, 128 kbit/s
        (b"\xff\xff\x42\x00", 140),  # layer I, 128 kbit/s, one slot of padding
        (b"\xff\xfb\x00\x00", None),  # free format tells no length
        (b"\xff\xfb\xf0\x00", None),
        (b"\xff\xfb\x5c\x00", None),  # reserved rate
        (b"\xff\xeb\x50\x00", None),  # reserved version
        (b"\xff\xf9\x50\x00", None),  # reserved layer: AAC looks like this
        (b"RIFF", None),
        (b"\xff\xfb", None),
    ],
)
def test_the_length_of_a_frame_follows_from_its_header(header, length):
    assert frame_bytes(header) == length


def info_frame(frames: int) -> bytes:
    mark = HEADER + bytes(32) + b"Info" + (1).to_bytes(4, "big") + frames.to_bytes(4, "big")
    return mark + bytes(208 - len(mark))


def test_whole_frames_are_counted_behind_a_tag():
    assert scan_mp3(TAG + FRAME * 5) == Mp3Scan(5, None, ends_inside_frame=False)


def test_the_frame_that_holds_the_count_is_not_counted():
    scan = scan_mp3(info_frame(5) + FRAME * 5)
    assert scan == Mp3Scan(5, 5, ends_inside_frame=False)
    assert not scan.truncated


@pytest.mark.parametrize("cut", [1, 4, 100, 205, 207])
def test_a_file_that_ends_inside_a_frame_is_truncated(cut):
    assert scan_mp3((FRAME * 5)[:-cut]).truncated


def test_a_file_cut_between_frames_is_truncated_if_it_declares_more():
    assert scan_mp3(info_frame(5) + FRAME * 3).truncated
    assert not scan_mp3(info_frame(5) + FRAME * 4).truncated  # encoders differ by one
    assert not scan_mp3(FRAME * 3).truncated


def test_a_file_that_ends_inside_its_first_frame_or_tag_is_truncated():
    assert scan_mp3(FRAME[:100]).truncated
    assert scan_mp3(TAG + FRAME[:50]).truncated
    assert scan_mp3(TAG[:60]).truncated


@pytest.mark.parametrize("tail", [b"TAG" + bytes(125), b"APETAGEX" + bytes(90), bytes(3)])
def test_tags_and_a_little_padding_at_the_end_are_no_truncation(tail):
    assert scan_mp3(FRAME * 3 + tail) == Mp3Scan(3, None, ends_inside_frame=False)


def test_junk_between_frames_is_skipped():
    junk = b"\xff\xfb\x50\x00 not a frame, for none follows \xff"
    assert scan_mp3(FRAME * 2 + junk + FRAME * 2).frames >= 3
    assert not scan_mp3(bytes(500) + FRAME * 4).truncated


@pytest.mark.parametrize("data", [b"", b"\xff", b"hello, this is text", bytes(10_000)])
def test_what_holds_no_frame_has_none(data):
    assert scan_mp3(data).frames == 0


def test_an_mp3_is_recognised_by_its_first_bytes():
    assert looks_like_mp3(TAG[:4]) and looks_like_mp3(HEADER)
    assert not looks_like_mp3(b"RIFF") and not looks_like_mp3(b"")


def test_a_real_file_is_whole_and_none_of_its_beginnings_is():
    data = FILE.read_bytes()
    assert scan_mp3(data) == Mp3Scan(98, 98, ends_inside_frame=False)
    for kept in range(10, len(data) - 419, 9973):
        assert scan_mp3(data[:kept]).truncated or scan_mp3(data[:kept]).frames == 0
