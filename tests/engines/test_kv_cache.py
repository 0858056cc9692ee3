"""Block accounting against a plain model of it: contents by position, states by set."""

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engines.torch.free_runs import FreeRuns
from engines.torch.kv_cache import BlockTable, KvBlocks
from engines.torch.prefix_index import PositionKey

SIZE = 4
TOTAL = 12


class CacheMachine(RuleBasedStateMachine):
    """Runs sequences over a small cache and keeps what each slot was computed from.

    The content of a slot is the whole history that leads to it, so that a block shared or
    copied wrongly is noticed wherever it is read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.blocks = KvBlocks(TOTAL, SIZE)
        self.slots: dict[int, tuple[PositionKey, ...]] = {}
        self.open: list[tuple[BlockTable, list[PositionKey], int, str]] = []

    @rule(
        keys=st.lists(st.integers(0, 1), min_size=1, max_size=14),
        more=st.integers(0, 10),
        salt=st.sampled_from(["", "x"]),
    )
    def begin(self, keys: list[PositionKey], more: int, salt: str) -> None:
        free, used = self.blocks.free, self.blocks.used
        opened = self.blocks.open(keys, len(keys) + more, salt)
        if opened is None:
            assert (self.blocks.free, self.blocks.used) == (free, used)
            assert self.blocks.needed(len(keys) + more) > free - self._cached_of(keys, salt)
            return
        for source, destination in opened.copies:
            for offset in range(SIZE):
                self.slots[destination * SIZE + offset] = self.slots.get(source * SIZE + offset, ())
        table = opened.table
        assert len(table.blocks) == self.blocks.needed(len(keys) + more)
        assert table.reused < len(keys)
        for position in range(table.reused):
            assert self._at(table, position) == (salt, *keys[: position + 1])
        self.open.append((table, list(keys), table.reused, salt))

    def _cached_of(self, keys: list[PositionKey], salt: str) -> int:
        return len(keys) // SIZE + 1  # sharing may make a request smaller, never larger

    @precondition(lambda self: self.open)
    @rule(pick=st.integers(0, 99), count=st.integers(1, 6), chosen=st.integers(0, 1))
    def compute(self, pick: int, count: int, chosen: int) -> None:
        index = pick % len(self.open)
        table, keys, computed, salt = self.open[index]
        end = min(computed + count, len(keys), len(table.blocks) * SIZE)
        for position in range(computed, end):
            slot = self._slot(table, position)
            assert not self._is_shared(table, position), "a shared block is written"
            self.slots[slot] = (salt, *keys[: position + 1])
        if end == len(keys) and end < len(table.blocks) * SIZE:
            keys.append(chosen)
        self.blocks.commit(table, keys, end)
        self.open[index] = (table, keys, end, salt)

    @precondition(lambda self: self.open)
    @rule(pick=st.integers(0, 99), more=st.integers(1, 9))
    def extend(self, pick: int, more: int) -> None:
        table = self.open[pick % len(self.open)][0]
        before, free = list(table.blocks), self.blocks.free
        if self.blocks.extend(table, len(before) * SIZE + more):
            assert table.blocks[: len(before)] == before
            assert len(table.blocks) == len(before) + self.blocks.needed(more)
        else:
            assert table.blocks == before and self.blocks.needed(more) > free

    @precondition(lambda self: self.open)
    @rule(pick=st.integers(0, 99), how=st.sampled_from(["close", "discard"]))
    def end(self, pick: int, how: str) -> None:
        table, keys, computed, _ = self.open.pop(pick % len(self.open))
        if how == "close":
            self.blocks.close(table, keys, computed)
        else:
            self.blocks.discard(table)
        assert table.blocks == []

    @rule(keys=st.lists(st.integers(0, 1), max_size=14), salt=st.sampled_from(["", "x"]))
    def forget(self, keys: list[PositionKey], salt: str) -> None:
        used = self.blocks.used
        self.blocks.forget(keys, salt)
        assert self.blocks.used == used

    @invariant()
    def every_block_is_in_one_state(self) -> None:
        used = {block for table, *_ in self.open for block in table.blocks}
        assert self.blocks.used == len(used)
        assert self.blocks.used + self.blocks.free == TOTAL
        assert 0 <= self.blocks.cached <= self.blocks.free

    @invariant()
    def what_was_computed_stays_as_it_was(self) -> None:
        for table, keys, computed, salt in self.open:
            for position in range(computed):
                assert self._at(table, position) == (salt, *keys[: position + 1])

    def _slot(self, table: BlockTable, position: int) -> int:
        return table.blocks[position // SIZE] * SIZE + position % SIZE

    def _at(self, table: BlockTable, position: int) -> tuple[PositionKey, ...]:
        return self.slots[self._slot(table, position)]

    def _is_shared(self, table: BlockTable, position: int) -> bool:
        block = table.blocks[position // SIZE]
        return any(block in other.blocks for other, *_ in self.open if other is not table)


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def _run(blocks: KvBlocks, keys: list[PositionKey], salt: str = "") -> int:
    opened = blocks.open(keys, len(keys), salt)
    assert opened is not None
    blocks.close(opened.table, keys, len(keys))
    return opened.table.reused


def test_full_blocks_are_shared_and_the_rest_is_copied() -> None:
    blocks = KvBlocks(8, SIZE)
    _run(blocks, [1, 2, 3, 4, 5, 6])
    opened = blocks.open([1, 2, 3, 4, 5, 7, 8], 7)
    assert opened is not None and opened.table.reused == 5
    assert len(opened.copies) == 1
    assert (blocks.mismatched, blocks.mismatch_position) == (1, 5)


def test_least_recently_used_goes_first_and_from_its_end() -> None:
    blocks = KvBlocks(4, SIZE)
    _run(blocks, list(range(8)))
    _run(blocks, list(range(10, 18)))
    _run(blocks, [20, 21, 22, 23])  # takes one block: the end of the oldest
    assert blocks.open([*range(4), 99], 5) is not None
    blocks = KvBlocks(4, SIZE)
    _run(blocks, list(range(8)))
    _run(blocks, list(range(10, 18)))
    _run(blocks, [*range(8)])  # used again, so the other one is the oldest now
    _run(blocks, [20, 21, 22, 23])
    assert _run(blocks, [*range(7), 99]) == 7


def test_picture_with_other_content_is_another_prefix() -> None:
    blocks = KvBlocks(8, SIZE)
    cat: list[PositionKey] = [1, ("cat", 0), ("cat", 1), 2, 3]
    _run(blocks, cat)
    assert _run(blocks, [1, ("dog", 0), ("dog", 1), 2, 3]) == 1
    assert _run(blocks, cat) == 4


def test_without_reuse_nothing_stays() -> None:
    blocks = KvBlocks(4, SIZE, reuse=False)
    assert _run(blocks, list(range(8))) == 0
    assert (blocks.used, blocks.cached, blocks.free) == (0, 0, 4)
    assert _run(blocks, list(range(8))) == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=60))
def test_free_runs_never_give_a_block_twice(steps: list[tuple[bool, int]]) -> None:
    runs, held = FreeRuns(16), list[int]()
    for takes, count in steps:
        if takes and count <= runs.count:
            taken = runs.take(count, held[-1] if held else None)
            assert len(set(taken)) == count and not set(taken) & set(held)
            held += taken
        elif not takes and held:
            runs.give(held[:count])
            del held[:count]
        assert runs.count == 16 - len(held)


def test_what_several_owners_share_outlives_each_of_them() -> None:
    blocks = KvBlocks(8, SIZE)
    head: list[PositionKey] = [1, 2, 3, 4]
    for owner in ("a", "b"):
        opened = blocks.open([*head, 5, 6], 6, owner=owner)
        assert opened is not None
        blocks.close(opened.table, [*head, 5, 6], 6)
    for left in (2, 1):  # each has an end of its own
        blocks.forget([*head, 5, 6])
        assert blocks.cached == left
    assert _run(blocks, [*head, 7]) == 4
