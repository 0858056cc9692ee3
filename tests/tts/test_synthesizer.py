"""What every voice checks before it speaks."""

import pytest

from engines.errors import BadRequest, NotFound
from tts.synthesizer import VoiceOptions, check_voice


def test_an_unknown_voice_is_refused_with_the_known_ones() -> None:
    with pytest.raises(NotFound, match="joe"):
        check_voice(VoiceOptions("ann"), ("default", "joe"))


@pytest.mark.parametrize("speed", [0.0, 0.2, 4.1, float("nan")])
def test_a_speed_out_of_range_is_refused(speed: float) -> None:
    with pytest.raises(BadRequest, match="speed"):
        check_voice(VoiceOptions(speed=speed), ("default",))


def test_the_default_options_suit_every_voice() -> None:
    check_voice(VoiceOptions(), ("default",))
