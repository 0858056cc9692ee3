"""Finds cache blocks by what they hold: a hash chain over the keys of their positions."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

PositionKey = int | tuple[str, int]
"""What one position is computed from: a token id, or (content hash, offset) of a span."""

_CHILDREN_LOOKED_AT = 16  # bounds a search among many continuations of one prefix


@dataclass(frozen=True, slots=True)
class Entry:
    """Is what the index knows of a block.

    Attributes:
        parent: identity of the chain before the block.
        keys: of its positions; fewer than a block holds in the last one of a sequence.
        identity: of the chain up to its end; None for a block that is not full.
    """

    parent: bytes
    keys: tuple[PositionKey, ...]
    identity: bytes | None


@dataclass(frozen=True, slots=True)
class Match:
    """Is the longest cached beginning of a prompt.

    Attributes:
        blocks: full blocks that hold it, to be shared.
        identity: of the chain up to their end.
        partial: a block that begins with what follows; None if there is none.
        partial_tokens: how many of its positions fit.
        mismatch: index of the first position that differs from what a cached sequence had
            there; None if nothing more was cached.
    """

    blocks: tuple[int, ...]
    identity: bytes
    partial: int | None = None
    partial_tokens: int = 0
    mismatch: int | None = None


def root_identity(salt: str) -> bytes:
    """Begins a chain; tenants with different salts never meet."""
    return hashlib.blake2b(salt.encode(), digest_size=16, person=b"kv-salt").digest()


def chain_identity(parent: bytes, keys: Sequence[PositionKey]) -> bytes:
    """Continues a chain by one block; a cryptographic hash, since inputs come from clients."""
    encoded = "\0".join(
        str(key) if isinstance(key, int) else f"{key[0]}\1{key[1]}" for key in keys
    ).encode()
    return hashlib.blake2b(parent + encoded, digest_size=16, person=b"kv-block").digest()


class PrefixIndex:
    """Maps chains to blocks and blocks to their continuations.

    Args:
        block_size: positions in a full block.
    """

    def __init__(self, block_size: int) -> None:
        self._size = block_size
        self._entries: dict[int, Entry] = {}
        self._full: dict[bytes, int] = {}
        self._children: dict[bytes, dict[int, None]] = {}

    def __contains__(self, block: int) -> bool:
        return block in self._entries

    def put(self, block: int, entry: Entry) -> bool:
        """Makes a block findable; False if the same content already is."""
        if entry.identity is not None:
            if entry.identity in self._full:
                return False
            self._full[entry.identity] = block
        self._entries[block] = entry
        self._children.setdefault(entry.parent, {})[block] = None
        return True

    def drop(self, block: int) -> None:
        """Makes a block unfindable."""
        entry = self._entries.pop(block)
        if entry.identity is not None:
            del self._full[entry.identity]
        children = self._children[entry.parent]
        del children[block]
        if not children:
            del self._children[entry.parent]

    def has_children(self, block: int) -> bool:
        """Whether a cached block continues this one."""
        identity = self._entries[block].identity
        return identity is not None and identity in self._children

    def match(self, keys: Sequence[PositionKey], salt: str, limit: int) -> Match:
        """Looks for the first `limit` keys."""
        identity, blocks, at = root_identity(salt), [], 0
        while at + self._size <= limit:
            wanted = tuple(keys[at : at + self._size])
            following = chain_identity(identity, wanted)
            block = self._full.get(following)
            # The keys themselves are compared, too: a hash is no proof.
            if block is None or self._entries[block].keys != wanted:
                break
            blocks.append(block)
            identity, at = following, at + self._size
        return self._match_partly(Match(tuple(blocks), identity), keys, at, limit)

    def _match_partly(
        self, found: Match, keys: Sequence[PositionKey], at: int, limit: int
    ) -> Match:
        children = list(self._children.get(found.identity, ()))[-_CHILDREN_LOOKED_AT:]
        wanted = tuple(keys[at : min(at + self._size, limit)])
        if not children or not wanted:
            return found
        best, same = max(
            ((block, _common(self._entries[block].keys, wanted)) for block in children),
            key=lambda pair: pair[1],
        )
        differs = same < min(len(wanted), len(self._entries[best].keys))
        return Match(
            found.blocks,
            found.identity,
            best if same else None,
            same,
            at + same if differs else None,
        )


def _common(left: tuple[PositionKey, ...], right: tuple[PositionKey, ...]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
