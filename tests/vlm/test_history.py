"""Which turns are left out of a long conversation, and how seldom that changes."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from vlm.history import first_kept

BUDGET = 200


def turns(count: int) -> list[str]:
    return ["user" if number % 2 == 0 else "assistant" for number in range(count)]


sizes_strategy = st.lists(st.integers(1, 60), min_size=1, max_size=60)


def test_a_conversation_within_the_budget_is_kept_whole() -> None:
    assert first_kept(turns(4), [50] * 4, BUDGET) == 0


def test_oldest_turns_go_in_pairs() -> None:
    assert first_kept(turns(5), [50] * 5, BUDGET) == 2


@given(sizes_strategy)
def test_what_is_kept_fits_and_starts_with_the_user(sizes: list[int]) -> None:
    roles = turns(len(sizes))
    start = first_kept(roles, sizes, BUDGET)
    last_user = len(sizes) - 1 - (len(sizes) - 1) % 2
    assert roles[start] == "user"
    assert sum(sizes[start:]) <= BUDGET or start == last_user


def test_the_last_question_is_kept_even_if_it_alone_is_too_long() -> None:
    assert first_kept(turns(3), [10, 10, 1000], BUDGET) == 2


def test_the_cut_stays_in_place_for_many_turns() -> None:
    sizes = [10] * 400
    starts = [first_kept(turns(count), sizes[:count], BUDGET) for count in range(1, 400, 2)]
    moves = sum(before != after for before, after in pairwise(starts))
    assert starts == sorted(starts)
    assert 0 < moves <= 400 * 10 / (BUDGET / 2)
