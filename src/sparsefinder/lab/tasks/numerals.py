"""Numbers, ordinals and years in English, German and French words.

>>> english(345), german(345), french(345)
('three hundred and forty-five', 'dreihundertfünfundvierzig', 'trois cent quarante-cinq')
"""

from __future__ import annotations

from ...errors import InputError

__all__ = [
    "MOST", "english", "english_ordinal", "english_year", "french", "german", "german_ordinal", "german_year",
]  # fmt: skip

MOST = 999_999

ENGLISH = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
ENGLISH_TENS = ("_", "_", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
ENGLISH_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth", "twenty": "twentieth", "thirty": "thirtieth",
}  # fmt: skip
GERMAN = (
    "null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf",
    "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn",
)  # fmt: skip
GERMAN_TENS = ("_", "_", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")
GERMAN_ORDINALS = {1: "erste", 3: "dritte", 7: "siebte", 8: "achte"}
FRENCH = (
    "zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix", "onze", "douze",
    "treize", "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf",
)  # fmt: skip
FRENCH_TENS = ("_", "_", "vingt", "trente", "quarante", "cinquante", "soixante")


def english(number: int) -> str:
    """In British words: "one hundred and one", "two thousand and five"."""
    _check(number)
    thousands, rest = divmod(number, 1000)
    words = f"{_english_hundreds(thousands)} thousand" if thousands else ""
    if rest or not thousands:
        words += " and " if words and rest < 100 else " " if words else ""
        words += _english_hundreds(rest)
    return words


def _english_hundreds(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    words = f"{ENGLISH[hundreds]} hundred" if hundreds else ""
    if not rest and hundreds:
        return words
    tens, units = divmod(rest, 10)
    small = ENGLISH[rest] if rest < 20 else ENGLISH_TENS[tens] + (f"-{ENGLISH[units]}" if units else "")
    return f"{words} and {small}" if words else small


def english_ordinal(number: int) -> str:
    """Of a day: 1 to 31."""
    head, hyphen, last = english(number).rpartition("-")
    return head + hyphen + ENGLISH_ORDINALS.get(last, f"{last}th")


def english_year(year: int) -> str:
    """From 1100 to 2099: "nineteen hundred", "nineteen oh five", "two thousand and five", "twenty nineteen"."""
    century, rest = divmod(year, 100)
    if century == 20 and rest < 10:
        return english(year)
    if rest == 0:
        return f"{english(century)} hundred"
    return f"{english(century)} {f'oh {english(rest)}' if rest < 10 else english(rest)}"


def german(number: int) -> str:
    """In one word, units before tens: "einundzwanzig"; on its own, so that one is "eins"."""
    _check(number)
    thousands, rest = divmod(number, 1000)
    if not thousands:
        return _german_hundreds(rest)
    # "einundzwanzigtausend", "hunderteintausend": before another word, one loses its s.
    front = _german_hundreds(thousands)
    front = front[:-1] if front.endswith("eins") else front
    return f"{front}tausend" + (_german_hundreds(rest) if rest else "")


def _german_hundreds(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    words = f"{_joined(hundreds)}hundert" if hundreds else ""
    if not rest and hundreds:
        return words
    tens, units = divmod(rest, 10)
    if rest < 20:
        return words + GERMAN[rest]
    return words + (f"{_joined(units)}und" if units else "") + GERMAN_TENS[tens]


def _joined(digit: int) -> str:
    return "ein" if digit == 1 else GERMAN[digit]


def german_ordinal(number: int) -> str:
    """Of a day, 1 to 31, in the nominative after an article: "dritte", "einundzwanzigste"."""
    return GERMAN_ORDINALS.get(number) or german(number) + ("te" if number < 20 else "ste")


def german_year(year: int) -> str:
    """From 1100 to 2099: "neunzehnhundertvierundachtzig", "zweitausendfünf"."""
    century, rest = divmod(year, 100)
    return german(year) if century >= 20 else f"{german(century)}hundert" + (german(rest) if rest else "")


def french(number: int, feminine: bool = False) -> str:
    """In the traditional spelling: "vingt et un", "quatre-vingts", "deux cents", "deux cent trois"."""
    _check(number)
    thousands, rest = divmod(number, 1000)
    if not thousands:
        return _french_hundreds(rest, feminine)
    # "mille" is never "un mille", and before it neither vingt nor cent takes an s.
    front = _french_hundreds(thousands)
    front = front[:-1] if front.endswith(("vingts", "cents")) else front
    words = "mille" if thousands == 1 else f"{front} mille"
    return f"{words} {_french_hundreds(rest, feminine)}" if rest else words


def _french_hundreds(number: int, feminine: bool = False) -> str:
    hundreds, rest = divmod(number, 100)
    if not hundreds:
        return _french_tens(rest, feminine)
    words = "cent" if hundreds == 1 else f"{FRENCH[hundreds]} cent"
    return f"{words} {_french_tens(rest, feminine)}" if rest else words + ("s" if hundreds > 1 else "")


def _french_tens(number: int, feminine: bool) -> str:
    one = "une" if feminine else "un"
    if number == 1:
        return one
    if number < 20:
        return FRENCH[number]
    if number >= 80:
        return "quatre-vingts" if number == 80 else f"quatre-vingt-{_french_tens(number - 80, feminine)}"
    tens, units = divmod(number, 10)
    if tens == 7:
        return "soixante et onze" if units == 1 else f"soixante-{FRENCH[10 + units]}"
    if units == 1:
        return f"{FRENCH_TENS[tens]} et {one}"
    return FRENCH_TENS[tens] + (f"-{FRENCH[units]}" if units else "")


def _check(number: int) -> None:
    if not 0 <= number <= MOST:
        raise InputError("number", number, f"one from 0 to {MOST}")
