"""Says how web and mail addresses are read: the host with its dots, not the path."""

import re

from tts.language import Language

_URL = re.compile(r"(?:https?://|www\.)[^\s<>\"]+", re.IGNORECASE)
_MAIL = re.compile(r"[\w.+-]+@\w[\w-]*(?:\.[\w-]+)+")
# Two or more characters before the dot keep "e.g." out; one case in the last label keeps
# out a forgotten space ("end.Next").
_HOST = re.compile(
    r"(?<![\w.@/-])(?:[A-Za-z0-9-]+\.)*[A-Za-z0-9-]*[A-Za-z][A-Za-z0-9-]+\."
    r"(?:[a-z]{2,}|[A-Z]{2,})(?![\w-])(?:/[^\s,;]*[\w/])?"
)
_CLOSING = ".,!?;:)]}'\""


def spell_addresses(text: str, language: Language) -> str:
    """Returns the text with "https://example.com/x" read as "example dot com"."""

    def spell_url(match: re.Match[str]) -> str:
        url = match.group().rstrip(_CLOSING)
        host = re.sub(r"^(?:https?://)?(?:www\.)?", "", url, flags=re.IGNORECASE)
        return _dotted(re.split(r"[/?#:]", host)[0], language) + match.group()[len(url) :]

    def spell_mail(match: re.Match[str]) -> str:
        local, _, host = match.group().rstrip(".").partition("@")
        end = "." if match.group().endswith(".") else ""
        return f"{_dotted(local, language)} {language.at} {_dotted(host, language)}{end}"

    text = _URL.sub(spell_url, text)
    text = _MAIL.sub(spell_mail, text)
    text = _HOST.sub(lambda match: _dotted(match.group().split("/")[0], language), text)
    return re.sub(r"(?<!\w)@(?=\w)", f"{language.at} ", text)


def _dotted(host: str, language: Language) -> str:
    return f" {language.dot} ".join(part for part in host.split(".") if part)
