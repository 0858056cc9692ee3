import torch

from engines.torch.layers.kv_cache import KvCache, KvShape
from engines.torch.session_cache import SessionCache, SessionKey

SHAPE = KvShape(layers=1, heads=1, head_dim=4, dtype=torch.float32)
ALICE, BOB = SessionKey("", "alice"), SessionKey("", "bob")


def _cache(length: int) -> KvCache:
    cache = KvCache(SHAPE, capacity=8, limit=8)
    cache.advance(length)
    return cache


SIZE = _cache(1).nbytes


def test_next_prompt_gets_the_prefix_that_it_shares() -> None:
    sessions = SessionCache(SIZE)
    sessions.put(ALICE, (1, 2, 3, 4), _cache(4))
    taken = sessions.take(ALICE, (1, 2, 9, 4, 5))
    assert taken is not None and taken.length == 2


def test_equal_prompt_leaves_its_last_position_to_be_computed() -> None:
    sessions = SessionCache(SIZE)
    sessions.put(ALICE, (1, 2, 3), _cache(3))
    taken = sessions.take(ALICE, (1, 2, 3))
    assert taken is not None and taken.length == 2


def test_positions_beyond_the_cache_are_not_promised() -> None:
    sessions = SessionCache(SIZE)
    sessions.put(ALICE, (1, 2, 3), _cache(2))  # the last id was chosen, never computed
    taken = sessions.take(ALICE, (1, 2, 3, 4))
    assert taken is not None and taken.length == 2


def test_taken_cache_is_gone_until_it_is_put_back() -> None:
    sessions = SessionCache(SIZE)
    sessions.put(ALICE, (1, 2), _cache(2))
    assert sessions.take(ALICE, (1, 2, 3)) is not None
    assert sessions.nbytes == 0
    assert sessions.take(ALICE, (1, 2, 3)) is None


def test_caches_are_not_shared_between_sessions_or_salts() -> None:
    sessions = SessionCache(SIZE)
    sessions.put(ALICE, (1, 2), _cache(2))
    assert sessions.take(BOB, (1, 2, 3)) is None
    assert sessions.take(SessionKey("other", "alice"), (1, 2, 3)) is None


def test_work_without_a_session_leaves_nothing() -> None:
    sessions = SessionCache(SIZE)
    sessions.put(SessionKey("", ""), (1, 2), _cache(2))
    assert sessions.nbytes == 0


def test_least_recently_used_goes_first_when_the_budget_is_full() -> None:
    sessions = SessionCache(2 * SIZE)
    carol = SessionKey("", "carol")
    for key in (ALICE, BOB, ALICE, carol):
        sessions.put(key, (1, 2), _cache(2))
    assert sessions.nbytes == 2 * SIZE
    assert sessions.take(BOB, (1, 2)) is None
    assert sessions.take(ALICE, (1, 2)) is not None


def test_cache_larger_than_the_budget_is_not_kept_and_drives_none_out() -> None:
    sessions = SessionCache(SIZE)
    sessions.put(BOB, (1, 2), _cache(2))
    large = KvCache(SHAPE, capacity=100, limit=100)
    large.advance(2)
    sessions.put(ALICE, (1, 2), large)
    assert sessions.take(BOB, (1, 2)) is not None


def test_prompt_that_shares_nothing_frees_the_old_cache() -> None:
    sessions = SessionCache(SIZE)
    sessions.put(ALICE, (1, 2), _cache(2))
    assert sessions.take(ALICE, (5, 6)) is None
    assert sessions.nbytes == 0
