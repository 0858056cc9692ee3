"""Writes segments down: plain text, JSON, SubRip and WebVTT."""

import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from asr.transcript import Segment


def _clock(seconds: float, mark: str) -> str:
    millis = max(0, round(seconds * 1000))
    hours, millis = divmod(millis, 3_600_000)
    minutes, millis = divmod(millis, 60_000)
    whole, millis = divmod(millis, 1000)
    return f"{hours:02d}:{minutes:02d}:{whole:02d}{mark}{millis:03d}"


def _cue(segment: Segment, mark: str) -> str:
    times = f"{_clock(segment.start_s, mark)} --> {_clock(segment.end_s, mark)}"
    return f"{times}\n{segment.text}\n"


def to_text(segments: Iterable[Segment]) -> str:
    """Writes one line for each segment."""
    return "".join(f"{segment.text}\n" for segment in segments)


def to_json(segments: Iterable[Segment]) -> str:
    """Writes one object: the whole text, its language and the segments with times in s."""
    pieces = list(segments)
    document = {
        "text": " ".join(piece.text for piece in pieces),
        "language": next((piece.language for piece in pieces if piece.language), None),
        "segments": [
            {"start": round(piece.start_s, 3), "end": round(piece.end_s, 3), "text": piece.text}
            for piece in pieces
        ],
    }
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def to_srt(segments: Iterable[Segment]) -> str:
    """Writes SubRip: numbered cues, a comma before the milliseconds."""
    cues = (f"{number}\n{_cue(piece, ',')}" for number, piece in enumerate(segments, start=1))
    return "\n".join(cues)


def to_vtt(segments: Iterable[Segment]) -> str:
    """Writes WebVTT (W3C): a header, then cues with a full stop before the milliseconds.

    "-->" may not stand in a cue's text, and "&" and "<" are escaped.
    """
    cues = []
    for piece in segments:
        text = piece.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        cues.append(_cue(Segment(piece.start_s, piece.end_s, text), "."))
    return "\n".join(["WEBVTT\n", *cues])


FORMATS: Mapping[str, Callable[[Iterable[Segment]], str]] = MappingProxyType(
    {"text": to_text, "json": to_json, "srt": to_srt, "vtt": to_vtt}
)
"""Name of a format -> its writer."""
