"""Ids to text as they come, without half characters."""

from collections.abc import Sequence

from tokenizers import Tokenizer

_INCOMPLETE = "\ufffd"  # what the tokenizer puts in the place of bytes that are no character


class Detokenizer:
    """Follows one reply; the texts that it returns add up to the decoded whole.

    Only a window is decoded again for each id: the ids since the last complete character,
    and those of one piece before, because some tokenizers treat the first word apart. (A
    byte-fallback tokenizer that is fed invalid UTF-8 may still change its mind about bytes
    already delivered; a model that writes text does not do that.)

    Args:
        tokenizer: the model's tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []  # the window
        self._context = 0  # ids of it that were delivered before
        self._delivered = 0  # characters of the rest that were delivered

    def push(self, ids: Sequence[int]) -> str:
        """Adds ids and returns the text that is now certain."""
        self._ids += ids
        return self._advance(final=False)

    def flush(self) -> str:
        """Ends the reply and returns what was held back."""
        return self._advance(final=True)

    def _advance(self, *, final: bool) -> str:
        known = self._decode(self._ids[: self._context])
        text = self._decode(self._ids)[len(known) :]
        certain = text if final else text.rstrip(_INCOMPLETE)
        delta = certain[self._delivered :]
        self._delivered = max(self._delivered, len(certain))
        if text and not text.endswith(_INCOMPLETE):
            self._ids = self._ids[self._context :]
            self._context, self._delivered = len(self._ids), 0
        return delta

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text
