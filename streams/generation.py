"""Barge-in as a counter: what belongs to an earlier generation may not speak any more."""


class GenerationCounter:
    """Numbers the replies of a session; only the newest may deliver."""

    def __init__(self) -> None:
        self._current = 0

    @property
    def current(self) -> int:
        """The generation whose output is wanted."""
        return self._current

    def advance(self) -> int:
        """Makes all earlier output stale and returns the new generation."""
        self._current += 1
        return self._current

    def is_stale(self, generation: int) -> bool:
        """Says whether output of `generation` must be dropped."""
        return generation != self._current
