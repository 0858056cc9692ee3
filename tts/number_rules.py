"""Finds numbers in a text and says how each is read: money, time, date, telephone, ...

The rules run in order, the most specific first; each leaves words behind, so that the
next ones do not see its digits again.
"""

import re
from collections.abc import Callable

from tts.language import Currency, Language
from tts.number_words import cardinal, decimal, digits, ordinal, year

_NUMBER = r"\d+(?:[.,]\d+)*"
_START = r"(?<![\w.,])"  # not inside another number or word
_LETTER = r"[^\W\d_]"
_Rule = tuple[str, Callable[[re.Match[str]], str]]


class NumberSpeller:
    """Writes the numbers of a text as words of one language.

    Args:
        language: whose words, units, currencies and months are used.
    """

    def __init__(self, language: Language) -> None:
        self._language = language
        self._table = language.numbers
        rules = [*self._dates_and_times(), *self._money(), *self._telephones(), *self._quantities()]
        self._rules = [(re.compile(pattern), spell) for pattern, spell in rules]

    def spell(self, text: str) -> str:
        """Returns the text with every decimal digit written as words."""
        for pattern, spell in self._rules:
            text = pattern.sub(spell, text)
        return text

    def _dates_and_times(self) -> list[_Rule]:
        return [
            (r"(?<=\d)[\u00a0\u202f](?=\d{3}\b)", lambda m: ""),  # thousands, SI style
            (r"\b(\d{4})-(\d\d)-(\d\d)\b", self._iso_date),
            (r"\b(\d{1,2})/(\d{1,2})/(\d{4})\b", lambda m: f"{m[1]} {m[2]} {m[3]}"),
            (r"\b(\d{1,2}):(\d\d)(?::(\d\d))?\b(?:\s?([AaPp])\.?\s?[Mm]\b)?", self._clock_time),
            (
                r"\b(\d{1,2})\s?([AaPp])\.?\s?[Mm]\b",
                lambda m: f"{cardinal(int(m[1]), self._table)} {m[2].upper()} M",
            ),
        ]

    def _money(self) -> list[_Rule]:
        signs = "".join(map(re.escape, self._language.currencies))
        scales = "|".join(self._table.scales)
        return [
            (rf"(-?)([{signs}])\s?({_NUMBER})(?:\s({scales})\b)?", self._sign_first),
            (
                rf"{_START}({_NUMBER})\s?([{signs}])",
                lambda m: self._amount(m[1], self._language.currencies[m[2]]),
            ),
        ]

    def _telephones(self) -> list[_Rule]:
        return [
            (
                rf"{_START}(?:\+\d[\d ().-]{{5,}}\d|\(\d{{2,5}}\)[ .-]?\d[\d .-]{{3,}}\d)\b",
                self._by_digit,
            ),
            (r"(?<![\w.,-])(?:\d{1,2}[-. ])?\d{3}([-. ])\d{3}\1\d{4}(?![\w-])", self._by_digit),
            (r"(?<![\w.,-])[2-9]\d\d-\d{4}(?![\w-])", self._by_digit),
            (rf"{_START}(?:0\d{{5,}}|\d{{10,}})(?![\w]|[.,]\d)", self._by_digit),
        ]

    def _quantities(self) -> list[_Rule]:
        table, language = self._table, self._language
        units = "|".join(re.escape(unit) for unit in sorted(language.units, key=len, reverse=True))
        fractions = "|".join(map(re.escape, table.fractions))
        signs = "".join(sign for sign in table.fractions if len(sign) == 1)
        return [
            (rf"(?<=\d)\s?(?=[{signs}])", lambda m: f" {table.joiner} "),
            (rf"(?<![\w./])(?:{fractions})(?![\w/])", lambda m: table.fractions[m[0]]),
            (
                rf"\b(\d+)(?:{'|'.join(table.ordinal_suffixes)})\b",
                lambda m: ordinal(int(m[1]), table),
            ),
            (r"\b([12]\d\d0)s\b", lambda m: self._decade(int(m[1]))),
            (r"#(?=\d)", lambda m: f"{language.number_sign} "),
            (r"(?<=\d)(?:-|\s?\u2013\s?)(?=\d)", lambda m: f" {table.range_joiner} "),
            (rf"{_START}({_NUMBER})\s?%", lambda m: f"{decimal(m[1], table)} {table.percent}"),
            (rf"(-?){_START}({_NUMBER})\s?({units})(?![\w/°])", self._with_unit),
            (r"(?<=\d)/(?=\d)", lambda m: f" {table.over} "),
            (r"(?<![\w.,-])[-\u2212](?=\.?\d)", lambda m: f"{table.minus} "),
            (rf"{_START}(1[1-9]\d\d|20\d\d)(?!\w|[.,]\d)", lambda m: year(int(m[1]), table)),
            (rf"(?<={_LETTER})(?=\d)|(?<=\d)(?={_LETTER})", lambda m: " "),  # "H2O", "3D"
            (rf"\.\d+|{_NUMBER}", lambda m: decimal(m[0], table)),
        ]

    def _iso_date(self, match: re.Match[str]) -> str:
        """Reads an ISO 8601 date; what is not one is left to the other rules."""
        month, day = int(match[2]), int(match[3])
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return match[0]
        spoken_day = ordinal(day, self._table)
        return (
            f"{self._language.months[month - 1]} {spoken_day}, {year(int(match[1]), self._table)}"
        )

    def _clock_time(self, match: re.Match[str]) -> str:
        """Reads a time of day; what is not one (a score, a ratio) is read as its numbers."""
        hour, minute, second, half = int(match[1]), int(match[2]), match[3], match[4]
        if hour > 24 or minute > 59:
            return match[0].replace(":", " ")
        words = [cardinal(hour, self._table)]
        if minute >= 10:
            words.append(cardinal(minute, self._table))
        elif minute:
            words += [self._table.zero_in_year, cardinal(minute, self._table)]
        elif second is None and half is None:
            full_hour = 1 <= hour <= 12
            words.append(self._language.oclock if full_hour else self._language.hundred_hours)
        if second is not None:
            words.append(cardinal(int(second), self._table))
        if half is not None:
            words += [half.upper(), "M"]
        return " ".join(words)

    def _sign_first(self, match: re.Match[str]) -> str:
        minus = f"{self._table.minus} " if match[1] else ""
        currency, amount, scale = self._language.currencies[match[2]], match[3], match[4]
        if scale:
            return f"{minus}{decimal(amount, self._table)} {scale} {currency.whole.many}"
        return minus + self._amount(amount, currency)

    def _amount(self, amount: str, currency: Currency) -> str:
        """Reads an amount of money, with hundredths where exactly two digits give them."""
        split = re.fullmatch(r"([\d,]+)\.(\d\d)", amount)
        if split is None or currency.hundredth is None:
            return f"{decimal(amount, self._table)} {currency.whole.for_amount(amount)}"
        whole, small = split[1].replace(",", ""), int(split[2])
        parts = []
        if int(whole) or not small:
            parts.append(f"{cardinal(int(whole), self._table)} {currency.whole.for_amount(whole)}")
        if small:
            noun = currency.hundredth.for_amount(str(small))
            parts.append(f"{cardinal(small, self._table)} {noun}")
        return f" {self._table.joiner} ".join(parts)

    def _by_digit(self, match: re.Match[str]) -> str:
        """Reads digit by digit, with a pause between the groups as they are written."""
        groups = [digits(group, self._table) for group in re.split(r"\D+", match[0]) if group]
        plus = f"{self._language.operators['+']} " if match[0].startswith("+") else ""
        return plus + ", ".join(groups)

    def _decade(self, number: int) -> str:
        """Reads "1990s": the year's last word in the plural."""
        words = year(number, self._table)
        return words[:-1] + "ies" if words.endswith("y") else words + "s"

    def _with_unit(self, match: re.Match[str]) -> str:
        minus = f"{self._table.minus} " if match[1] else ""
        noun = self._language.units[match[3]].for_amount(match[2])
        return f"{minus}{decimal(match[2], self._table)} {noun}"
