"""Stop strings that come in pieces."""

from hypothesis import given
from hypothesis import strategies as st

from vlm.stop_strings import StopStrings

STOPS = ("<|end|>", "\nuser:")


def run(pieces: list[str]) -> tuple[str, bool]:
    stops = StopStrings(STOPS)
    text = "".join(map(stops.push, pieces))
    return text + stops.flush(), stops.stopped


@given(st.lists(st.sampled_from(["<", "<|", "|", "end", "|>", "\n", "user", ":", "a", " "])))
def test_text_ends_at_the_first_stop_string_however_it_arrives(pieces: list[str]) -> None:
    whole = "".join(pieces)
    ends = [whole.find(stop) for stop in STOPS if stop in whole]
    assert run(pieces) == (whole[: min(ends)] if ends else whole, bool(ends))


def test_text_that_cannot_become_a_stop_string_is_not_held_back() -> None:
    stops = StopStrings(STOPS)
    assert stops.push("Hello <") == "Hello "
    assert stops.push("b") == "<b"


def test_after_the_stop_nothing_is_delivered() -> None:
    stops = StopStrings(STOPS)
    assert stops.push("so<|end|>more") == "so"
    assert stops.push("and more") + stops.flush() == ""
