"""Who owns which block of the paged KV cache: sharing, copying, evicting, counting.

Only block numbers live here; the tensors are in `engines.torch.layers.paged_kv`. A block is
in exactly one of three states: used (some sequence refers to it), cached (findable by its
content, referred to by nobody) or unused.
"""

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engines.torch.free_runs import FreeRuns
from engines.torch.prefix_index import (
    Entry,
    Match,
    PositionKey,
    PrefixIndex,
    chain_identity,
    root_identity,
)


class BlockTable:
    """Holds one sequence's blocks in order.

    Attributes:
        blocks: block numbers; position p lies in `blocks[p // block_size]`.
        reused: positions that were computed before the sequence began.
        findable: leading blocks that have been offered for reuse.
        identity: of the chain up to the last of these.
        owner: whose it is.
    """

    __slots__ = ("_runs", "blocks", "findable", "identity", "owner", "reused")

    def __init__(
        self, blocks: list[int], reused: int, findable: int, identity: bytes, owner: str = ""
    ) -> None:
        self.blocks = blocks
        self.owner = owner
        self.reused = reused
        self.findable = findable
        self.identity = identity
        self._runs: tuple[tuple[int, int], ...] | None = None

    def runs(self) -> tuple[tuple[int, int], ...]:
        """Returns maximal runs of consecutive blocks as (first block, count)."""
        if self._runs is None:
            runs: list[list[int]] = []
            for block in self.blocks:
                if runs and runs[-1][0] + runs[-1][1] == block:
                    runs[-1][1] += 1
                else:
                    runs.append([block, 1])
            self._runs = tuple((first, count) for first, count in runs)
        return self._runs

    def append(self, blocks: Iterable[int]) -> None:
        """Adds blocks at the end."""
        self.blocks.extend(blocks)
        self._runs = None


@dataclass(frozen=True, slots=True)
class Opened:
    """Is a fresh table.

    Attributes:
        table: the sequence's blocks.
        copies: (source, destination) pairs to be copied before anything is written.
    """

    table: BlockTable
    copies: tuple[tuple[int, int], ...] = ()


class KvBlocks:
    """Accounts for all blocks of a cache.

    A sequence writes only to positions that it has not computed, and these lie in blocks
    that it owns alone: full blocks are shared as they are, a partly matching one is copied.

    Args:
        blocks: how many there are.
        block_size: positions in a block.
        reuse: whether what a sequence computed can be found by later ones.
    """

    def __init__(self, blocks: int, block_size: int = 16, reuse: bool = True) -> None:
        self.total = blocks
        self.block_size = block_size
        self._reuse = reuse
        self._unused = FreeRuns(blocks)
        self._references: dict[int, int] = {}
        # Oldest first; a sequence's last block comes before those that it continues, so a
        # chain is evicted from its end.
        self._cached: OrderedDict[int, None] = OrderedDict()
        self._index = PrefixIndex(block_size)
        self._owners: dict[int, str] = {}  # who computed a findable block
        self._common: set[int] = set()  # blocks that somebody else has used since
        self.prompt_tokens = 0
        """Prompt positions of all opened sequences."""
        self.cached_tokens = 0
        """How many of them were found."""
        self.mismatched = 0
        """Prompts that differed from a cached sequence before its end."""
        self.mismatch_position = 0
        """Where the last of them did, as an index into the prompt."""

    @property
    def free(self) -> int:
        """Blocks that can be had: unused, and cached ones that can be evicted."""
        return self._unused.count + len(self._cached)

    @property
    def used(self) -> int:
        """Blocks that open tables refer to."""
        return len(self._references)

    @property
    def cached(self) -> int:
        """Blocks that are kept for reuse only."""
        return len(self._cached)

    def needed(self, positions: int) -> int:
        """Returns how many blocks hold that many positions."""
        return math.ceil(positions / self.block_size)

    def open(
        self, keys: Sequence[PositionKey], positions: int, salt: str = "", owner: str = ""
    ) -> Opened | None:
        """Reserves blocks for a sequence and finds what is computed already.

        Args:
            keys: of all known positions; the last one is never taken from the cache, since
                its logits are wanted.
            positions: that the table must hold, at least `len(keys)`.
            salt: keeps tenants apart.
            owner: whose sequence it is; what several owners share is not forgotten.

        Returns:
            None, and nothing has changed, if there are not enough blocks now.
        """
        found = Match((), root_identity(salt))
        if self._reuse:
            found = self._index.match(keys, salt, len(keys) - 1)
        missing = self.needed(positions) - len(found.blocks)
        shared_cached = sum(block in self._cached for block in found.blocks)
        room = self.free - shared_cached
        source = found.partial
        if source in self._cached and missing > room - 1:
            source = None  # it may have to be evicted for this very sequence
        if missing > room:
            return None
        self._count(found, keys, source)
        return self._open(found, missing, source, owner)

    def _count(self, found: Match, keys: Sequence[PositionKey], source: int | None) -> None:
        self.prompt_tokens += len(keys)
        self.cached_tokens += len(found.blocks) * self.block_size
        self.cached_tokens += found.partial_tokens if source is not None else 0
        if found.mismatch is not None:
            self.mismatched += 1
            self.mismatch_position = found.mismatch

    def _open(self, found: Match, missing: int, source: int | None, owner: str) -> Opened:
        shared = list(found.blocks)
        for block in shared:
            self._refer(block)
            if self._owners[block] != owner:
                self._common.add(block)
        was_cached = source in self._cached
        if was_cached and source is not None:
            del self._cached[source]  # not to be evicted meanwhile
        fresh = self._take(missing, shared[-1] if shared else None)
        if was_cached and source is not None:
            self._cached[source] = None
        reused = len(shared) * self.block_size
        copies: tuple[tuple[int, int], ...] = ()
        if source is not None:
            copies = ((source, fresh[0]),)
            reused += found.partial_tokens
        table = BlockTable(shared + fresh, reused, len(shared), found.identity, owner)
        return Opened(table, copies)

    def extend(self, table: BlockTable, positions: int) -> bool:
        """Makes room for that many positions in all; False, and nothing changes, if full."""
        missing = self.needed(positions) - len(table.blocks)
        if missing <= 0:
            return True
        if missing > self.free:
            return False
        table.append(self._take(missing, table.blocks[-1] if table.blocks else None))
        return True

    def commit(self, table: BlockTable, keys: Sequence[PositionKey], computed: int) -> None:
        """Makes blocks findable whose positions, up to `computed`, are all written."""
        size = self.block_size
        while self._reuse and (table.findable + 1) * size <= computed:
            start = table.findable * size
            held = tuple(keys[start : start + size])
            identity = chain_identity(table.identity, held)
            block = table.blocks[table.findable]
            if self._index.put(block, Entry(table.identity, held, identity)):
                self._owners[block] = table.owner
            table.identity = identity
            table.findable += 1

    def close(self, table: BlockTable, keys: Sequence[PositionKey], computed: int) -> None:
        """Ends a sequence; what it computed stays cached, the rest is unused at once."""
        self.commit(table, keys, computed)
        start = table.findable * self.block_size
        if self._reuse and start < computed:
            held = tuple(keys[start:computed])
            self._index.put(table.blocks[table.findable], Entry(table.identity, held, None))
        self._leave(table)

    def discard(self, table: BlockTable) -> None:
        """Ends a sequence whose last step failed: nothing is made findable any more."""
        self._leave(table)

    def forget(self, keys: Sequence[PositionKey], salt: str = "") -> None:
        """Frees what is cached of a sequence, as far as nobody else used or continues it."""
        if not self._reuse:
            return
        found = self._index.match(keys, salt, len(keys))
        chain = [*found.blocks, *(() if found.partial is None else (found.partial,))]
        for block in reversed(chain):
            if block not in self._cached or block in self._common:
                break
            if self._index.has_children(block):
                break
            self._evict(block)

    def _leave(self, table: BlockTable) -> None:
        unused: list[int] = []
        for block in reversed(table.blocks):
            self._references[block] -= 1
            if self._references[block]:
                continue
            del self._references[block]
            if block in self._index:
                self._cached[block] = None
            else:
                unused.append(block)
        self._unused.give(unused)
        table.blocks = []

    def _refer(self, block: int) -> None:
        self._cached.pop(block, None)
        self._references[block] = self._references.get(block, 0) + 1

    def _take(self, count: int, after: int | None) -> list[int]:
        while self._unused.count < count:
            self._evict(next(iter(self._cached)))
        taken = self._unused.take(count, after)
        for block in taken:
            self._references[block] = 1
        return taken

    def _evict(self, block: int) -> None:
        del self._cached[block]
        self._index.drop(block)
        self._owners.pop(block, None)
        self._common.discard(block)
        self._unused.give((block,))
