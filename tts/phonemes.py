"""Text to phonemes with the espeak-ng that piper-tts carries, and phonemes to a voice's ids.

piper-tts is GPL-3.0 and an extra: it is imported when a voice is opened, not before.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engines.errors import NotFound, Unsupported

_START, _PAD, _END = "^", "_", "$"
_BREAKS = (",;:", " ")  # where a long sentence may be cut, best first


class Phonemizer:
    """Writes text as phonemes, sentence by sentence.

    Args:
        espeak_voice: espeak-ng's name of the language, as "en-us".

    Raises:
        Unsupported: piper-tts is not installed.
    """

    def __init__(self, espeak_voice: str) -> None:
        try:
            from piper.phonemize_espeak import EspeakPhonemizer
        except ImportError as cause:
            raise Unsupported(
                "This voice needs the extra `piper`: pip install 'antiphon[piper]'."
            ) from cause
        self._espeak: Any = EspeakPhonemizer()
        self._voice = espeak_voice
        self._lock = threading.Lock()  # espeak-ng keeps its state per process
        self.phonemize("a")  # the first call loads the language, about 30 ms

    def phonemize(self, text: str) -> list[list[str]]:
        """Returns the phonemes of each sentence; none for text that has no sound.

        Takes about 0.2 ms a sentence on one core, so it may run on an event loop.
        """
        with self._lock:
            sentences: list[list[str]] = self._espeak.phonemize(self._voice, text)
        return [sentence for sentence in sentences if any(map(str.isalpha, sentence))]


class PhonemeIds:
    """Knows the phoneme inventory of one Piper voice.

    Args:
        id_map: ids of each phoneme, from `phoneme_id_map` of the voice's JSON.
        longest: sentences of more ids than this are cut.
    """

    def __init__(self, id_map: Mapping[str, Sequence[int]], longest: int = 700) -> None:
        self._ids = {phoneme: tuple(ids) for phoneme, ids in id_map.items()}
        self._longest = longest

    def encode(self, phonemes: Sequence[str]) -> tuple[int, ...]:
        """Returns ids with the marks around them and a pad after each, as VITS was trained.

        Phonemes that the voice does not know are left out.
        """
        ids = [*self._ids[_START], *self._ids[_PAD]]
        for phoneme in phonemes:
            if phoneme in self._ids:
                ids += [*self._ids[phoneme], *self._ids[_PAD]]
        return (*ids, *self._ids[_END])

    def pieces(self, phonemes: Sequence[str]) -> list[Sequence[str]]:
        """Cuts a sentence that is too long for one pass at its commas, else at its spaces."""
        room = self._longest // 2 - 2  # a pad follows each phoneme
        if len(phonemes) <= room:
            return [phonemes]
        cut = room
        for marks in _BREAKS:
            places = [at for at in range(room // 2, room) if phonemes[at] in marks]
            if places:
                cut = places[-1] + 1
                break
        return [phonemes[:cut], *self.pieces(phonemes[cut:])]


def read_voice_config(voice_dir: Path) -> dict[str, Any]:
    """Returns the JSON beside the voice's ONNX file.

    Raises:
        NotFound: the directory holds no such file.
        Unsupported: the voice does not speak from espeak-ng phonemes.
    """
    files = sorted(voice_dir.glob("*.onnx.json"))
    if not files:
        raise NotFound(f"There is no Piper voice in {voice_dir}.")
    config: dict[str, Any] = json.loads(files[0].read_text(encoding="utf-8"))
    if config.get("phoneme_type", "espeak") != "espeak":
        raise Unsupported(f"The voice {files[0].stem} does not use espeak-ng phonemes.")
    return config
