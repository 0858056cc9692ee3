"""Walks the frames of an MP3 file to see whether it ends before it should.

Decoders play what is there and say nothing when the end is missing. Header layout: ISO/IEC
11172-3, section 2.4.1.3 and 13818-3; the count of frames that encoders write into the first
frame: "Xing" or "Info", as in LAME.
"""

from dataclasses import dataclass
from mmap import mmap

_BITRATES_KBPS = {  # (MPEG version is 1, layer) -> by index; index 0 is free format
    (True, 1): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES_HZ = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
_INFO_WITHIN = 64  # bytes of the first frame in which its "Xing" mark must stand


@dataclass(frozen=True, slots=True)
class Mp3Scan:
    """Is what the frame headers say.

    Attributes:
        frames: complete frames with audio.
        declared_frames: count in the first frame, None where there is none.
        ends_inside_frame: the last header asks for more bytes than there are.
    """

    frames: int
    declared_frames: int | None
    ends_inside_frame: bool

    @property
    def truncated(self) -> bool:
        """Says whether the end is missing. Encoders disagree by one frame on the count."""
        short = self.declared_frames is not None and self.frames < self.declared_frames - 1
        return self.ends_inside_frame or short


def frame_bytes(header: bytes) -> int | None:
    """Returns the length of the frame that starts with these 4 bytes, header included.

    Returns:
        None where no frame with a known length starts here.
    """
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE0 != 0xE0:
        return None
    version, layer = header[1] >> 3 & 3, 4 - (header[1] >> 1 & 3)
    bitrate, rate = header[2] >> 4, header[2] >> 2 & 3
    if version == 1 or layer == 4 or bitrate in (0, 15) or rate == 3:
        return None
    bits = _BITRATES_KBPS[version == 3, layer][bitrate] * 1000
    hertz = _RATES_HZ[version][rate]
    padding = header[2] >> 1 & 1
    if layer == 1:
        return (12 * bits // hertz + padding) * 4
    samples = 576 if layer == 3 and version != 3 else 1152
    return samples // 8 * bits // hertz + padding


def looks_like_mp3(head: bytes) -> bool:
    """Says whether a file that starts with these 4 bytes may be an MP3."""
    return head.startswith(b"ID3") or frame_bytes(head) is not None


def scan_mp3(data: bytes | mmap) -> Mp3Scan:
    """Walks all frames of a file, which may be memory-mapped."""
    offset = _skip_id3(data)
    if offset > len(data):  # the tag itself is cut
        return Mp3Scan(0, None, ends_inside_frame=True)
    if frame_bytes(data[offset : offset + 4]) is None:
        offset = _next_frame(data, offset)
    declared = _declared_frames(data[offset : offset + 4 + _INFO_WITHIN])
    frames = 0 if declared is None else -1  # the frame with the count holds no audio
    while offset + 4 <= len(data) and not _is_tag(data, offset):
        length = frame_bytes(data[offset : offset + 4])
        if length is None:
            offset = _next_frame(data, offset + 1)
            continue
        if offset + length > len(data):
            return Mp3Scan(max(frames, 0), declared, ends_inside_frame=True)
        frames += 1
        offset += length
    cut_header = 0 < len(data) - offset < 4 and data[offset] == 0xFF
    return Mp3Scan(max(frames, 0), declared, ends_inside_frame=cut_header)


def _skip_id3(data: bytes | mmap) -> int:
    offset = 0
    while data[offset : offset + 3] == b"ID3" and len(data) >= offset + 10:
        size = 0
        for byte in data[offset + 6 : offset + 10]:  # 7 bits a byte (ID3v2.4, 6.2)
            size = size << 7 | byte & 0x7F
        offset += 10 + size
    return offset


def _next_frame(data: bytes | mmap, offset: int) -> int:
    """Finds the next header that another header, a tag or the very end follows."""
    while (offset := data.find(b"\xff", offset)) >= 0:
        length = frame_bytes(data[offset : offset + 4])
        if length is not None:
            after = offset + length
            if after == len(data) or _is_tag(data, after):
                return offset
            if frame_bytes(data[after : after + 4]) is not None:
                return offset
        offset += 1
    return len(data)


def _is_tag(data: bytes | mmap, offset: int) -> bool:
    head = data[offset : offset + 8]
    return head.startswith((b"TAG", b"3DI")) or head in (b"APETAGEX", b"LYRICSBE")


def _declared_frames(head: bytes) -> int | None:
    for mark in (b"Xing", b"Info"):
        place = head.find(mark)
        if place >= 0 and len(head) >= place + 12 and head[place + 7] & 1:
            return int.from_bytes(head[place + 8 : place + 12], "big")
    return None
