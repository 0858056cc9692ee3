"""Writes numbers as words, from a language's table; see `tts/number_rules.py` for where.

cardinal(342)   three hundred forty-two        year(1905)      nineteen oh five
ordinal(21)     twenty-first                   decimal("3.14") three point one four
"""

import re

from tts.language import NumberTable

_MANY_DIGITS = 15  # above the largest scale ("trillion") only digits make sense


def cardinal(number: int, table: NumberTable) -> str:
    """Returns a whole number in words."""
    if number < 0:
        return f"{table.minus} {cardinal(-number, table)}"
    if number >= 10**_MANY_DIGITS:
        return digits(str(number), table)
    if number < 1000:
        return _below_thousand(number, table)
    parts: list[str] = []
    for power in range(len(table.scales), 0, -1):
        count, number = divmod(number, 1000**power)
        if count:
            parts.append(f"{_below_thousand(count, table)} {table.scales[power - 1]}")
    if number:
        parts.append(_below_thousand(number, table))
    return " ".join(parts)


def _below_thousand(number: int, table: NumberTable) -> str:
    hundreds, rest = divmod(number, 100)
    if not hundreds:
        return table.below_hundred[rest]
    words = f"{table.below_hundred[hundreds]} {table.hundred}"
    return f"{words} {table.below_hundred[rest]}" if rest else words


def ordinal(number: int, table: NumberTable) -> str:
    """Returns a whole number as an ordinal: its last word is bent, the others stay."""
    words = cardinal(number, table)
    start = max(words.rfind(" "), words.rfind("-")) + 1
    head, last = words[:start], words[start:]
    if last in table.ordinals:
        return head + table.ordinals[last]
    for ending, replacement in table.ordinal_endings:
        if last.endswith(ending):
            return head + last[: len(last) - len(ending)] + replacement
    return words


def digits(written: str, table: NumberTable) -> str:
    """Returns digits one by one; anything else in the string is passed over."""
    return " ".join(table.below_hundred[int(digit)] for digit in written if digit.isdecimal())


def year(number: int, table: NumberTable) -> str:
    """Returns a year of 1000..2999 as it is read: in two halves, but for 2000..2009."""
    century, rest = divmod(number, 100)
    if number % 1000 < 10:
        return cardinal(number, table)
    if rest == 0:
        return f"{cardinal(century, table)} {table.hundred}"
    if rest < 10:
        return f"{cardinal(century, table)} {table.zero_in_year} {cardinal(rest, table)}"
    return f"{cardinal(century, table)} {cardinal(rest, table)}"


def decimal(written: str, table: NumberTable) -> str:
    """Returns "1,234.50" or "37,0" in words.

    A comma before exactly three digits groups thousands (but not after a lone zero);
    any other comma is a decimal mark, as it is in most of Europe.
    """
    if re.fullmatch(r"[1-9]\d{0,2}(,\d{3})+(\.\d+)?", written):
        written = written.replace(",", "")
    whole, *fractions = re.split(r"[.,]", written)
    words = cardinal(int(whole), table) if whole else ""
    if len(whole) > 1 and whole.startswith("0"):
        words = digits(whole, table)  # a code, not a quantity
    for fraction in fractions:
        # One part is a decimal fraction, several are a version or an address ("1.2.10").
        spoken = digits(fraction, table) if len(fractions) == 1 else cardinal(int(fraction), table)
        words = f"{words} {table.point} {spoken}".strip()
    return words
