import json

import pytest

from asr.formats import FORMATS, to_json, to_srt, to_text, to_vtt
from asr.transcript import Segment

SEGMENTS = [
    Segment(0.0, 1.5, "Who built it?", "en"),
    Segment(3661.25, 3662.9996, "Sí & <no> --> ok", "en"),
]


def test_text_is_one_line_a_segment():
    assert to_text(SEGMENTS) == "Who built it?\nSí & <no> --> ok\n"


def test_json_holds_the_whole_text_and_the_times_in_seconds():
    document = json.loads(to_json(SEGMENTS))
    assert document["text"] == "Who built it? Sí & <no> --> ok"
    assert document["language"] == "en"
    assert document["segments"][1] == {
        "start": 3661.25,
        "end": 3663.0,
        "text": "Sí & <no> --> ok",
    }
    assert "Sí" in to_json(SEGMENTS)


def test_srt_numbers_its_cues_and_rounds_to_milliseconds():
    assert to_srt(SEGMENTS) == (
        "1\n00:00:00,000 --> 00:00:01,500\nWho built it?\n"
        "\n"
        "2\n01:01:01,250 --> 01:01:03,000\nSí & <no> --> ok\n"
    )


def test_vtt_has_a_header_and_escapes_its_text():
    assert to_vtt(SEGMENTS) == (
        "WEBVTT\n"
        "\n"
        "00:00:00.000 --> 00:00:01.500\nWho built it?\n"
        "\n"
        "01:01:01.250 --> 01:01:03.000\nSí &amp; &lt;no&gt; --&gt; ok\n"
    )


@pytest.mark.parametrize(
    ("name", "empty"),
    [
        ("text", ""),
        ("json", '{\n  "text": "",\n  "language": null,\n  "segments": []\n}\n'),
        ("srt", ""),
        ("vtt", "WEBVTT\n"),
    ],
)
def test_a_file_without_words_gives_an_empty_document(name, empty):
    assert FORMATS[name]([]) == empty
