"""Which words belong to which moment of a spoken reply, so that it can be cut there."""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class SpokenClause:
    """Is a clause of the reply and the stretch of its audio, in milliseconds."""

    display: str
    start_ms: float
    end_ms: float


@dataclass(slots=True)
class SpokenText:
    """Grows with the audio of a reply.

    Within a clause, time is shared out over the words by their length in characters: the
    voice tells no word times. Clauses are short, so the error stays within a few words.
    """

    clauses: list[SpokenClause] = field(default_factory=list)

    @property
    def duration_ms(self) -> float:
        """Length of the audio so far."""
        return self.clauses[-1].end_ms if self.clauses else 0.0

    def begin(self, display: str) -> None:
        """Appends a clause whose audio will follow what was there."""
        self.clauses.append(SpokenClause(display, self.duration_ms, self.duration_ms))

    def extend(self, duration_ms: float) -> None:
        """Adds audio to the clause begun last."""
        clause = self.clauses[-1]
        self.clauses[-1] = replace(clause, end_ms=clause.end_ms + duration_ms)

    def heard(self, heard_ms: float) -> str:
        """Returns the text whose audio lies before `heard_ms`; a word cut in half is out."""
        text = ""
        for clause in self.clauses:
            if clause.end_ms <= heard_ms:
                text += clause.display
            elif clause.start_ms < heard_ms:
                share = (heard_ms - clause.start_ms) / (clause.end_ms - clause.start_ms)
                text += _first_words(clause.display, share)
        return text.rstrip()


def _first_words(display: str, share: float) -> str:
    """Keeps the words that end within the first `share` (0..1) of the clause."""
    words = display.split()
    budget = share * sum(len(word) + 1 for word in words)
    kept: list[str] = []
    for word in words:
        budget -= len(word) + 1
        if budget < 0:
            break
        kept.append(word)
    return (" " if display[:1].isspace() and kept else "") + " ".join(kept)
