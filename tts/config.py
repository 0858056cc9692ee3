"""How the voice room cuts and paces text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChunkerConfig:
    """Says where a stream of text may be cut before it is spoken.

    Attributes:
        first_min_words: the first chunk may end at a comma after this many words. Fewer
            gives earlier first audio and a choppier start.
        first_conjunction_words: ... and before "and", "because", ... after this many.
        first_max_chars: the first chunk is cut at the best place before this length.
        growth: a chunk may be this many times as long as the one before, so that its
            synthesis is done before that one has been heard. Lower it for slow voices.
        max_chars: no chunk is longer, unless it is one atom.
        min_chars: a shorter sentence is spoken together with the next one.
    """

    first_min_words: int = 3
    first_conjunction_words: int = 6
    first_max_chars: int = 90
    growth: float = 4.0
    max_chars: int = 240
    min_chars: int = 10
