"""Text of token streams, piece by piece."""

from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from vlm.chat_template import ChatTemplate
from vlm.detokenizer import Detokenizer


def pieces_of(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(tokenizer)
    return [*(detokenizer.push([token]) for token in ids), detokenizer.flush()]


@given(st.lists(st.integers(0, 49_151), max_size=40))
def test_pieces_of_random_tokens_add_up_to_the_decoded_whole(
    smollm2: ChatTemplate, ids: list[int]
) -> None:
    whole = smollm2.tokenizer.decode(ids, skip_special_tokens=True)
    assert "".join(pieces_of(smollm2.tokenizer, ids)) == whole


@given(st.text(max_size=60))
def test_no_piece_holds_half_a_character(smollm2: ChatTemplate, text: str) -> None:
    ids = smollm2.tokenizer.encode(text, add_special_tokens=False).ids
    assume(smollm2.tokenizer.decode(ids) == text)  # some rare bytes are not in the vocabulary
    pieces = pieces_of(smollm2.tokenizer, ids)
    assert "".join(pieces) == text
    assert "\ufffd" in text or not any("\ufffd" in piece for piece in pieces)


@given(st.lists(st.integers(0, 49_151), max_size=30), st.integers(1, 7))
def test_the_size_of_the_pushes_does_not_matter(
    smollm2: ChatTemplate, ids: list[int], size: int
) -> None:
    detokenizer = Detokenizer(smollm2.tokenizer)
    pieces = [detokenizer.push(ids[at : at + size]) for at in range(0, len(ids), size)]
    assert "".join([*pieces, detokenizer.flush()]) == smollm2.tokenizer.decode(ids)


def test_words_come_out_with_their_spaces_as_they_are_made(smollm2: ChatTemplate) -> None:
    ids = smollm2.tokenizer.encode("Good morning to you.").ids
    assert pieces_of(smollm2.tokenizer, ids) == ["Good", " morning", " to", " you", ".", ""]


def test_spaces_stay_right_where_the_tokenizer_strips_the_first_one() -> None:
    vocabulary = {"\u2581Good": 0, "\u2581day": 1, "s": 2, "<0xC3>": 3, "<0xA9>": 4}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    assert pieces_of(tokenizer, [0, 1, 2, 3, 4, 1]) == [
        "Good",
        " day",
        "s",
        "",
        "\u00e9",
        " day",
        "",
    ]


def test_special_tokens_leave_no_trace(smollm2: ChatTemplate) -> None:
    ids = smollm2.tokenizer.encode("a<|im_end|>b").ids
    assert "".join(pieces_of(smollm2.tokenizer, ids)) == "ab"
