"""Cuts a stream of text into chunks that are spoken one by one.

The first chunk is short, for the sake of the first audio; later ones are whole sentences
where they are not too long. Where a chunk ends depends on the text alone, never on how
the text was split on its way here.
"""

from dataclasses import dataclass

from tts.boundaries import Seam, seam_at
from tts.clean import SpeechCleaner
from tts.config import ChunkerConfig
from tts.english import ENGLISH
from tts.language import Language

_FENCES = ("```", "~~~")
_HARD_FACTOR = 4  # an unbroken string is cut at this many times the longest chunk


@dataclass(frozen=True, slots=True)
class TextChunk:
    """Is one piece of a text.

    Attributes:
        display: the text as it came; the displays of all chunks add up to it exactly.
        spoken: what to say; empty where nothing can be said (code, emoji, blank lines).
    """

    display: str
    spoken: str


@dataclass(slots=True)
class _Scan:
    """Is how far the pending text was looked through, so that no seam is judged twice.

    Attributes:
        index: the next seam to look at.
        best: where to cut if no good seam comes in time.
    """

    index: int = 0
    best: int | None = None
    _best_seam: Seam = Seam.NONE

    def note(self, seam: Seam) -> None:
        """Keeps this seam if it is a better place to cut, or as good and later."""
        if seam >= max(Seam.SPACE, min(self._best_seam, Seam.CLAUSE)):
            self.best, self._best_seam = self.index, seam


class TextChunker:
    """Takes text deltas in and gives finished chunks out.

    Args:
        config: where to cut.
        language: whose abbreviations are kept whole and whose words stand for numbers.
    """

    def __init__(
        self, config: ChunkerConfig | None = None, *, language: Language = ENGLISH
    ) -> None:
        self._config = config or ChunkerConfig()
        self._language = language
        self._cleaner = SpeechCleaner(language)
        self._pending = ""
        self._scan = _Scan()
        self._at_line_start = True
        self._fence = ""  # the mark that opened the current code block
        self._spoken_chars = 0  # length of the last chunk that was spoken; 0 before the first

    def push(self, delta: str) -> list[TextChunk]:
        """Adds text and returns the chunks that it completes."""
        self._pending += delta
        return self._take(final=False)

    def flush(self) -> list[TextChunk]:
        """Ends the text, returns what is left, and is ready for a new text."""
        chunks = self._take(final=True)
        if self._pending:
            chunks.append(self._emit(len(self._pending)))
        self._at_line_start, self._fence, self._spoken_chars = True, "", 0
        return chunks

    def _take(self, *, final: bool) -> list[TextChunk]:
        chunks: list[TextChunk] = []
        while (end := self._next_end(final)) is not None:
            chunks.append(self._emit(end))
        return chunks

    def _emit(self, end: int) -> TextChunk:
        display, self._pending = self._pending[:end], self._pending[end:]
        self._scan = _Scan()
        spoken = "" if self._in_code(display) else self._cleaner.spoken(display)
        self._at_line_start = display.endswith("\n")
        if spoken:
            self._spoken_chars = len(display)
        return TextChunk(display, spoken)

    def _in_code(self, display: str) -> bool:
        """Follows the opening and closing of code blocks; their lines are not spoken."""
        line = display.strip()
        if self._fence:
            if line.startswith(self._fence):
                self._fence = ""
            return True
        if self._starts_line(display) and line.startswith(_FENCES) and "`" not in line[3:]:
            self._fence = line[:3]
            return True
        return False

    def _starts_line(self, text: str) -> bool:
        blank = text[: len(text) - len(text.lstrip())]
        return self._at_line_start or "\n" in blank

    def _next_end(self, final: bool) -> int | None:
        """Returns where the first chunk of the pending text ends, if that is certain."""
        text = self._pending
        start = len(text) - len(text.lstrip())
        if start == len(text):
            return None
        if self._fence or (self._starts_line(text) and text[start] in "`~"):
            opening = text[start : start + 3]
            if self._fence or opening in _FENCES:
                end = text.find("\n", start)
                return end + 1 if end >= 0 else None
            if not final and any(fence.startswith(opening) for fence in _FENCES):
                return None
        return self._speech_end(text, start, final)

    def _speech_end(self, text: str, start: int, final: bool) -> int | None:
        """Finds the first good seam; past the longest length, the best one before it."""
        scan, limit = self._scan, start + self._longest()
        for index in range(max(scan.index, start + 1), len(text)):
            scan.index = index
            if index > limit and scan.best is not None:
                return scan.best
            seam = seam_at(text, index, self._language, final=final)
            if seam is Seam.UNKNOWN:
                return None
            if seam is not Seam.NONE and self._is_good(seam, text[start:index]):
                return index
            if index > limit and (seam >= Seam.SPACE or index - start >= self._hard_limit()):
                return index
            if index - start < (limit - start) // 3:
                seam = min(seam, Seam.SPACE)  # a scrap of a clause is worse than none
            scan.note(seam)
        scan.index = max(scan.index, len(text))
        return None

    def _hard_limit(self) -> int:
        return _HARD_FACTOR * self._config.max_chars

    def _longest(self) -> int:
        if not self._spoken_chars:
            return self._config.first_max_chars
        grown = round(self._spoken_chars * self._config.growth)
        return min(self._config.max_chars, max(self._config.first_max_chars, grown))

    def _is_good(self, seam: Seam, text: str) -> bool:
        """Says whether a chunk may end here before it has reached its longest length."""
        if seam is Seam.LINE:
            return True
        if not any(character.isalnum() for character in text):
            return False
        if seam is Seam.SENTENCE:
            return not self._spoken_chars or len(text) >= self._config.min_chars
        if self._spoken_chars:
            return False
        words = len(text.split())
        if seam is Seam.CLAUSE:
            return words >= self._config.first_min_words
        return seam is Seam.CONJUNCTION and words >= self._config.first_conjunction_words
