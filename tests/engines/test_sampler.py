import math
from collections import Counter

import pytest
import torch

from engines.base import Sampling
from engines.errors import BadRequest, EngineFailed
from engines.torch.sampler import IdRules, Sampler, check_sampling, no_speech_probability

LOGITS = (1.0, 4.0, 3.0, -2.0, 0.0)


def _logits() -> torch.Tensor:
    return torch.tensor(LOGITS)


def _draws(sampling: Sampling, count: int = 300) -> Counter[int]:
    sampler = Sampler(sampling)
    return Counter(sampler.choose(_logits()).token for _ in range(count))


def test_greedy_takes_the_likeliest_and_reports_its_log_probability() -> None:
    choice = Sampler(Sampling()).choose(_logits())
    assert choice.token == 1
    assert choice.logprob == pytest.approx(float(_logits().log_softmax(-1)[1]))


def test_suppressed_id_never_comes_and_its_mass_is_shared_out() -> None:
    choice = Sampler(Sampling(), IdRules(suppress=(1,))).choose(_logits())
    rest = torch.tensor([1.0, 3.0, -2.0, 0.0]).log_softmax(-1)
    assert choice.token == 2
    assert choice.logprob == pytest.approx(float(rest[1]))


def test_begin_suppressed_id_may_come_second() -> None:
    sampler = Sampler(Sampling(), IdRules(begin_suppress=(1, 2)))
    assert [sampler.choose(_logits()).token for _ in range(2)] == [0, 1]


def test_first_id_is_one_of_those_allowed_and_the_second_is_free() -> None:
    sampler = Sampler(Sampling(), IdRules(allowed_first=(3, 4)))
    first, second = (sampler.choose(_logits()) for _ in range(2))
    assert (first.token, second.token) == (4, 1)
    assert first.logprob == pytest.approx(float(torch.tensor([-2.0, 0.0]).log_softmax(-1)[1]))


def test_nothing_left_to_choose_is_an_engine_failure() -> None:
    for sampling in (Sampling(), Sampling(temperature=1.0)):
        with pytest.raises(EngineFailed, match="no id"):
            Sampler(sampling, IdRules(suppress=tuple(range(5)))).choose(_logits())


def test_logits_that_are_not_numbers_are_an_engine_failure() -> None:
    with pytest.raises(EngineFailed):
        Sampler(Sampling()).choose(torch.full((5,), math.nan))


def test_repetition_penalty_counts_prompt_and_output_once_each() -> None:
    sampler = Sampler(Sampling(repetition_penalty=2.0), prompt_ids=(1, 1))
    # 4 / 2 is less than 3; then 3 / 2 is less than 4 / 2.
    assert [sampler.choose(_logits()).token for _ in range(2)] == [2, 1]


def test_repetition_penalty_makes_a_negative_logit_more_negative() -> None:
    sampler = Sampler(Sampling(repetition_penalty=2.0), prompt_ids=(0,))
    assert sampler.choose(torch.tensor([-1.0, -1.5])).token == 1


def test_repetition_penalty_remembers_more_ids_than_it_first_had_room_for() -> None:
    sampler = Sampler(Sampling(repetition_penalty=1e6))
    logits = torch.linspace(2.0, 1.0, 200)
    tokens = [sampler.choose(logits.clone()).token for _ in range(200)]
    assert tokens == list(range(200))


def test_same_seed_gives_the_same_ids() -> None:
    sampling = Sampling(temperature=1.5, seed=5)
    first, second = Sampler(sampling), Sampler(sampling)
    for _ in range(20):
        assert first.choose(_logits()) == second.choose(_logits())


def test_without_a_seed_two_requests_differ() -> None:
    flat = torch.zeros(1000)
    first, second = (Sampler(Sampling(temperature=1.0)) for _ in range(2))
    ids = [[s.choose(flat.clone()).token for _ in range(8)] for s in (first, second)]
    assert ids[0] != ids[1]


def test_plain_sampling_follows_the_distribution() -> None:
    counts = _draws(Sampling(temperature=2.0, seed=1), count=4000)
    wanted = (_logits() / 2.0).softmax(-1)
    for token, share in enumerate(wanted.tolist()):
        assert counts[token] / 4000 == pytest.approx(share, abs=0.03)


def test_top_k_keeps_the_k_likeliest() -> None:
    assert set(_draws(Sampling(temperature=5.0, top_k=2, seed=1))) == {1, 2}


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    # The probabilities are 0.69, 0.25, 0.03, 0.01 and less.
    assert set(_draws(Sampling(temperature=1.0, top_p=0.6, seed=1))) == {1}
    assert set(_draws(Sampling(temperature=1.0, top_p=0.9, seed=1))) == {1, 2}


def test_top_p_of_a_flat_distribution_looks_beyond_the_first_candidates() -> None:
    sampler = Sampler(Sampling(temperature=1.0, top_p=0.99, seed=1))
    tokens = {sampler.choose(torch.zeros(4096)).token for _ in range(400)}
    assert len(tokens) > 350


def test_top_p_applies_to_what_top_k_left() -> None:
    # Of the two that top-k leaves the first holds 0.73.
    assert set(_draws(Sampling(temperature=1.0, top_k=2, top_p=0.7, seed=1))) == {1}


def test_reported_log_probability_does_not_depend_on_the_temperature() -> None:
    hot = Sampler(Sampling(temperature=3.0, top_k=1, seed=0)).choose(_logits())
    assert hot == Sampler(Sampling()).choose(_logits())


def test_no_speech_probability_is_that_of_one_id() -> None:
    assert no_speech_probability(_logits(), 2) == pytest.approx(float(_logits().softmax(-1)[2]))


@pytest.mark.parametrize(
    ("sampling", "param"),
    [
        (Sampling(temperature=-1.0), "sampling.temperature"),
        (Sampling(temperature=math.nan), "sampling.temperature"),
        (Sampling(top_k=-1), "sampling.top_k"),
        (Sampling(top_p=0.0), "sampling.top_p"),
        (Sampling(top_p=1.1), "sampling.top_p"),
        (Sampling(repetition_penalty=0.0), "sampling.repetition_penalty"),
    ],
)
def test_meaningless_sampling_is_refused_by_name(sampling: Sampling, param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        check_sampling(sampling, vocab=5)
    assert caught.value.param == param
