"""Ends a reply at given strings, which may come in pieces."""

from collections.abc import Sequence


class StopStrings:
    """Holds text back while it may still become a stop string.

    Args:
        stops: strings that end the text; neither they nor what follows is delivered.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.stopped = False

    def push(self, delta: str) -> str:
        """Adds text and returns what may be delivered."""
        if self.stopped:
            return ""
        text = self._held + delta
        ends = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if ends:
            self.stopped, self._held = True, ""
            return text[: min(ends)]
        keep = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """Returns what was held back and turned out to be no stop string."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Returns the length of the longest end of `text` that begins `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(stop[:size])), 0)
