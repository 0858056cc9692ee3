import pytest

from asr.wer import edit_distance, normalized_words, word_error_rate, word_errors


@pytest.mark.parametrize(
    ("reference", "hypothesis", "distance"),
    [
        ("", "", 0),
        ("a b c", "a b c", 0),
        ("a b c", "", 3),
        ("", "a b", 2),
        ("a b c", "a x c", 1),
        ("a b c", "a c", 1),
        ("a c", "a b c", 1),
        ("a b c d", "b c d e", 2),
        ("kitten x", "x kitten", 2),
    ],
)
def test_distance_counts_the_fewest_edits(reference, hypothesis, distance):
    assert edit_distance(reference.split(), hypothesis.split()) == distance


def test_case_marks_and_number_words_do_not_count():
    spoken = "Hello, thirty-five percent of forty equals fourteen!"
    assert normalized_words(spoken) == ["hello", "35%", "of", "40", "equals", "14"]
    assert word_errors("where'd you find this", "Where'd you find THIS?") == (0, 5)


def test_the_rate_is_wrong_words_per_word_of_the_reference():
    assert word_error_rate("one red apple fell", "one bread apple") == pytest.approx(0.5)
    assert word_error_rate("stop", "stop it now please") == pytest.approx(3.0)


def test_an_empty_reference_is_met_by_an_empty_text_only():
    assert word_error_rate("", "") == 0.0
    assert word_error_rate("", "thank you") == float("inf")
