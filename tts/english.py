"""English, as a table."""

from tts.language import Abbreviation, AfterPeriod, Currency, Language, NumberTable, Plural


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SMALL = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen "
    "fourteen fifteen sixteen seventeen eighteen nineteen"
)
_TENS = _words("twenty thirty forty fifty sixty seventy eighty ninety")

_NUMBERS = NumberTable(
    below_hundred=(
        *_SMALL,
        *(tens + (f"-{_SMALL[unit]}" if unit else "") for tens in _TENS for unit in range(10)),
    ),
    hundred="hundred",
    scales=("thousand", "million", "billion", "trillion"),
    minus="minus",
    point="point",
    percent="percent",
    range_joiner="to",
    over="over",
    zero_in_year="oh",
    joiner="and",
    ordinals={
        "one": "first",
        "two": "second",
        "three": "third",
        "five": "fifth",
        "eight": "eighth",
        "nine": "ninth",
        "twelve": "twelfth",
    },
    ordinal_endings=(("y", "ieth"), ("", "th")),
    ordinal_suffixes=("st", "nd", "rd", "th"),
    fractions={
        "1/2": "one half",
        "1/3": "one third",
        "2/3": "two thirds",
        "1/4": "one quarter",
        "3/4": "three quarters",
        "24/7": "twenty-four seven",
        "½": "one half",
        "⅓": "one third",
        "⅔": "two thirds",
        "¼": "one quarter",
        "¾": "three quarters",
    },
)

_TITLES = {
    "dr.": "Doctor",
    "mr.": "Mister",
    "mrs.": "Missus",
    "ms.": "Miz",
    "prof.": "Professor",
    "rev.": "Reverend",
    "hon.": "Honorable",
    "gen.": "General",
    "col.": "Colonel",
    "capt.": "Captain",
    "lt.": "Lieutenant",
    "sgt.": "Sergeant",
    "gov.": "Governor",
    "sen.": "Senator",
    "rep.": "Representative",
    "pres.": "President",
    "st.": "Saint",
    "mt.": "Mount",
    "ft.": "Fort",
    "vs.": "versus",
    "e.g.": "for example",
    "i.e.": "that is",
    "cf.": "compare",
    "approx.": "approximately",
    "ca.": "circa",
    "viz.": "namely",
}
_MAY_END = {
    "etc.": "et cetera",
    "a.m.": "A M",
    "p.m.": "P M",
    "jr.": "Junior",
    "sr.": "Senior",
    "inc.": "Incorporated",
    "ltd.": "Limited",
    "corp.": "Corporation",
    "co.": "Company",
    "dept.": "Department",
    "est.": "established",
    "ave.": "Avenue",
    "blvd.": "Boulevard",
    "rd.": "Road",
    "al.": "al",
    "ph.d.": "P H D",
    "u.s.": "U S",
    "u.k.": "U K",
}
_BEFORE_DIGIT = {
    "no.": "number",
    "nos.": "numbers",
    "fig.": "figure",
    "sec.": "section",
    "ch.": "chapter",
    "vol.": "volume",
    "pp.": "pages",
    "p.": "page",
    "jan.": "January",
    "feb.": "February",
    "mar.": "March",
    "apr.": "April",
    "jun.": "June",
    "jul.": "July",
    "aug.": "August",
    "sep.": "September",
    "sept.": "September",
    "oct.": "October",
    "nov.": "November",
    "dec.": "December",
}

ENGLISH = Language(
    code="en",
    numbers=_NUMBERS,
    abbreviations={
        **{key: Abbreviation(spoken) for key, spoken in _TITLES.items()},
        **{key: Abbreviation(spoken, AfterPeriod.MAY_END) for key, spoken in _MAY_END.items()},
        **{
            key: Abbreviation(spoken, AfterPeriod.BEFORE_DIGIT)
            for key, spoken in _BEFORE_DIGIT.items()
        },
    },
    units={
        "°C": Plural("degree Celsius", "degrees Celsius"),
        "°F": Plural("degree Fahrenheit", "degrees Fahrenheit"),
        "°": Plural("degree", "degrees"),
        "km/h": Plural("kilometer an hour", "kilometers an hour"),
        "m/s": Plural("meter a second", "meters a second"),
        "mph": Plural("mile an hour", "miles an hour"),
        "km": Plural("kilometer", "kilometers"),
        "cm": Plural("centimeter", "centimeters"),
        "mm": Plural("millimeter", "millimeters"),
        "m": Plural("meter", "meters"),
        "mi": Plural("mile", "miles"),
        "ft": Plural("foot", "feet"),
        "kg": Plural("kilogram", "kilograms"),
        "mg": Plural("milligram", "milligrams"),
        "g": Plural("gram", "grams"),
        "lb": Plural("pound", "pounds"),
        "lbs": Plural("pound", "pounds"),
        "oz": Plural("ounce", "ounces"),
        "ml": Plural("milliliter", "milliliters"),
        "ms": Plural("millisecond", "milliseconds"),
        "min": Plural("minute", "minutes"),
        "hr": Plural("hour", "hours"),
        "hrs": Plural("hour", "hours"),
        "Hz": Plural("hertz", "hertz"),
        "kHz": Plural("kilohertz", "kilohertz"),
        "KB": Plural("kilobyte", "kilobytes"),
        "MB": Plural("megabyte", "megabytes"),
        "GB": Plural("gigabyte", "gigabytes"),
        "TB": Plural("terabyte", "terabytes"),
    },
    currencies={
        "$": Currency(Plural("dollar", "dollars"), Plural("cent", "cents")),
        "€": Currency(Plural("euro", "euros"), Plural("cent", "cents")),
        "£": Currency(Plural("pound", "pounds"), Plural("penny", "pence")),
        "¥": Currency(Plural("yen", "yen")),
        "₹": Currency(Plural("rupee", "rupees"), Plural("paisa", "paise")),
    },
    months=_words(
        "January February March April May June July August September October November December"
    ),
    oclock="o'clock",
    hundred_hours="hundred",
    symbols={
        "&": "and",
        "\u00d7": "times",
        "\u00f7": "divided by",
        "\u2248": "about",
        "\u00b1": "plus or minus",
    },
    operators={
        "+": "plus",
        "=": "equals",
        "<": "less than",
        ">": "greater than",
        "*": "times",
        "-": "minus",
        "\u2212": "minus",
        "/": "over",
    },
    number_sign="number",
    dot="dot",
    at="at",
    conjunctions=frozenset(
        _words(
            "and but or so because although though while which who that when where if "
            "unless until since"
        )
    ),
    openers=frozenset(
        _words(
            "The A An It He She We They You I This That These Those There Here But And Or "
            "So In On At For If When While What Who Why How Where My Your His Her Our Their "
            "Its Is Are Was Were Do Does Did Can Could Would Will Should Please Yes No Not "
            "Now Then However Also Let"
        )
    ),
)
