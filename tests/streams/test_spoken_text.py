from streams.spoken_text import SpokenText


def spoken(*clauses: tuple[str, float]) -> SpokenText:
    text = SpokenText()
    for display, duration_ms in clauses:
        text.begin(display)
        text.extend(duration_ms)
    return text


def test_clause_boundaries_follow_the_audio() -> None:
    text = spoken(("First.", 400), (" Second.", 600))
    assert text.duration_ms == 1000
    assert text.heard(400) == "First."
    assert text.heard(1000) == "First. Second."


def test_word_cut_in_half_was_not_heard() -> None:
    text = spoken(("aaaa bbbb cccc dddd", 2000))
    assert text.heard(999) == "aaaa"
    assert text.heard(1000) == "aaaa bbbb"


def test_clause_of_several_pieces_is_one_stretch() -> None:
    text = SpokenText()
    text.begin("aaaa bbbb")
    text.extend(500)
    text.extend(500)
    assert text.heard(500) == "aaaa"


def test_nothing_heard_is_no_text() -> None:
    assert spoken(("Hello.", 500)).heard(0) == ""
    assert SpokenText().heard(100) == ""
