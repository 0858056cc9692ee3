import pytest
from hypothesis import given
from hypothesis import strategies as st

from asr.hypothesis import LocalAgreement


def test_nothing_is_stable_after_one_hypothesis():
    assert LocalAgreement().push("and so my fellow") == ""


def test_words_on_which_two_hypotheses_agree_become_stable():
    agreement = LocalAgreement()
    agreement.push("and so my fell")
    assert agreement.push("and so my fellow Americans") == "and so my"
    assert agreement.push("and so my fellow Americans ask not") == " fellow Americans"


def test_only_the_last_two_hypotheses_count():
    agreement = LocalAgreement()
    agreement.push("one two")
    agreement.push("one three")
    assert agreement.push("one two") == ""
    assert agreement.emitted == "one"


def test_case_and_marks_do_not_hinder_agreement():
    agreement = LocalAgreement()
    agreement.push("And so, my fellow")
    assert agreement.push("and so my fellow.") == "and so my fellow"


def test_the_mark_after_the_last_stable_word_waits_for_the_next_word():
    agreement = LocalAgreement()
    agreement.push("And so.")
    assert agreement.push("And so.") == "And so"
    agreement.push("And so, my fellow")
    assert agreement.push("And so, my fellow Americans.") == ", my fellow"
    assert agreement.finish("And so, my fellow Americans, ask.") == " Americans, ask."
    assert agreement.emitted == "And so, my fellow Americans, ask."


def test_stable_text_is_not_taken_back_when_a_later_hypothesis_disagrees():
    agreement = LocalAgreement()
    agreement.push("ice cream now")
    assert agreement.push("ice cream now") == "ice cream now"
    assert agreement.push("I scream now and then") == ""
    assert agreement.push("I scream now and then") == " and then"


def test_a_word_split_in_two_later_does_not_repeat_its_neighbour():
    agreement = LocalAgreement()
    agreement.push("the database is")
    agreement.push("the database is")
    agreement.push("the data base is full of")
    assert agreement.push("the data base is full of") == " full of"


def test_a_shorter_hypothesis_emits_nothing_and_loses_nothing():
    agreement = LocalAgreement()
    agreement.push("one two three four")
    agreement.push("one two three four")
    assert agreement.push("one two") == ""
    assert agreement.finish("one two three four five") == " five"


def test_finish_without_hypotheses_gives_the_whole_text():
    assert LocalAgreement().finish("  Hello there. ") == "Hello there."


def test_finish_after_exact_agreement_gives_the_rest_with_its_marks():
    agreement = LocalAgreement()
    agreement.push("Hello, there")
    agreement.push("Hello, there my")
    assert agreement.finish("Hello, there my friend!") == " my friend!"


def test_finish_that_differs_in_case_appends_only_the_tail():
    agreement = LocalAgreement()
    agreement.push("hello there my")
    agreement.push("hello there my")
    assert agreement.finish("Hello there, my friend.") == " friend."


def test_finish_shorter_than_what_was_emitted_appends_no_word():
    agreement = LocalAgreement()
    agreement.push("thank you so much")
    agreement.push("thank you so much")
    assert agreement.finish("Thank you.").strip(".") == ""


def test_an_empty_final_appends_nothing():
    agreement = LocalAgreement()
    agreement.push("you")
    agreement.push("you")
    assert agreement.finish("") == ""


def test_a_dash_between_spaces_belongs_to_the_word_before_it():
    agreement = LocalAgreement()
    agreement.push("yes - I think")
    assert agreement.push("yes I think") == "yes I think"
    agreement = LocalAgreement()
    agreement.push("yes I think")
    assert agreement.push("yes - I think") == "yes - I think"


def test_a_mark_before_the_first_word_is_kept():
    agreement = LocalAgreement()
    agreement.push("¿Dónde está")
    assert agreement.push("¿Dónde está la") == "¿Dónde está"
    assert agreement.finish("¿Dónde está la casa?") == " la casa?"


def test_scripts_without_spaces_agree_character_by_character():
    agreement = LocalAgreement()
    agreement.push("富士康在因")
    assert agreement.push("富士康在印度") == "富士康在"
    assert agreement.finish("富士康在印度工厂。") == "印度工厂。"


WORDS = st.lists(st.sampled_from(["a", "b", "Cc", "d,", "e.", "it's", "-", "富士"]), max_size=8)


@given(st.lists(WORDS, max_size=6), WORDS)
def test_deltas_joined_are_always_what_was_emitted(hypotheses, final):
    agreement = LocalAgreement()
    parts = []
    for words in hypotheses:
        parts.append(agreement.push(" ".join(words)))
    parts.append(agreement.finish(" ".join(final)))
    assert "".join(parts) == agreement.emitted


@given(WORDS, st.lists(st.integers(0, 8), max_size=8))
def test_growing_prefixes_of_the_final_text_end_in_exactly_the_final_text(words, sizes):
    final = " ".join(words)
    agreement = LocalAgreement()
    for size in sorted(sizes):
        agreement.push(" ".join(words[:size]))
    agreement.finish(final)
    assert agreement.emitted == final


@pytest.mark.parametrize("text", ["", "   ", "...", "- -"])
def test_text_without_words_is_harmless(text):
    agreement = LocalAgreement()
    assert agreement.push(text) == ""
    assert agreement.push(text) == ""
