"""What is asked of the recogniser and what comes back."""

from dataclasses import dataclass
from enum import StrEnum


class Task(StrEnum):
    """Says in which language the words are written down."""

    TRANSCRIBE = "transcribe"  # that of the speaker
    TRANSLATE = "translate"  # English


@dataclass(frozen=True, slots=True)
class TranscribeOptions:
    """Says what is known about the speech.

    Attributes:
        language: ISO 639-1 code as Whisper spells it; None detects it, which costs a
            second pass. Callers lock the language once it is known.
        prompt: words that are to be expected; empty for none.
        task: write down, or translate into English.
    """

    language: str | None = None
    prompt: str = ""
    task: Task = Task.TRANSCRIBE


@dataclass(frozen=True, slots=True)
class Transcript:
    """Is what one utterance of up to 30 s says.

    Attributes:
        text: without leading or trailing space; empty where nobody spoke.
        duration_s: length of the audio, padding not counted.
        language: spoken language; None where nothing was decoded to tell it.
        no_speech_prob: Whisper's, 0..1; None where the back end does not tell.
        avg_logprob: mean log-probability of the ids; None likewise.
        ids: the text's token ids, a draft for the next decode of the same speech.
        retried: decodes after the first.
        sure_of_language: the language was given, or detected with enough probability.
    """

    text: str
    duration_s: float
    language: str | None = None
    no_speech_prob: float | None = None
    avg_logprob: float | None = None
    ids: tuple[int, ...] = ()
    retried: int = 0
    sure_of_language: bool = False


@dataclass(frozen=True, slots=True)
class Segment:
    """Is a piece of a recording with its words; times count from its beginning."""

    start_s: float
    end_s: float
    text: str
    language: str | None = None
