"""Numbers read back from their words, clock times against a table, and laws of the made sentences."""

import re
from itertools import islice

import pytest

from sparsefinder.errors import InputError
from sparsefinder.lab.tasks.clock import spoken, timetable
from sparsefinder.lab.tasks.grammar import FRAMES, pairs
from sparsefinder.lab.tasks.numerals import (
    english,
    english_ordinal,
    english_year,
    french,
    german,
    german_ordinal,
    german_year,
)

# Every number below 2,000, and a sample of the rest that holds every last three digits.
NUMBERS = [*range(2000), *range(2000, 1_000_000, 997), 80_000, 81_000, 200_000, 280_300, 999_999]
SMALL = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen",
    "de": "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
    "siebzehn achtzehn neunzehn",
    "fr": "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize",
}
TENS = {
    "en": "twenty thirty forty fifty sixty seventy eighty ninety",
    "de": "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "fr": "vingt trente quarante cinquante soixante",
}


def values(language: str) -> dict[str, int]:
    small = {word: value for value, word in enumerate(SMALL[language].split())}
    return small | {word: 10 * value for value, word in enumerate(TENS[language].split(), 2)}


def read_english(words: str) -> int:
    total = group = 0
    for word in words.replace("-", " ").replace(" and ", " ").split():
        if word == "thousand":
            total, group = total + 1000 * group, 0
        elif word == "hundred":
            group *= 100
        else:
            group += values("en")[word]
    return total + group


def read_german(word: str) -> int:
    for name, size in (("tausend", 1000), ("hundert", 100)):
        if name in word:
            front, _, rest = word.partition(name)
            return read_german(front) * size + (read_german(rest) if rest else 0)
    # "hundert" is done with, so an "und" stands between units and tens.
    units, und, tens = word.partition("und")
    if und:
        assert units in values("de")
        return values("de")[units] + values("de")[tens]
    return 1 if word == "eins" else values("de")[word]


def read_french(words: str) -> int:
    total = group = 0
    for word in words.replace("-", " ").replace(" et ", " ").split():
        word = {"vingts": "vingt", "cents": "cent", "une": "un"}.get(word, word)
        if word == "mille":
            total, group = total + 1000 * max(group, 1), 0
        elif word == "cent":
            group = 100 * max(group, 1)
        elif word == "vingt" and group % 100 == 4:
            group += 76
        else:
            group += values("fr")[word]
    return total + group


@pytest.mark.parametrize(
    ("write", "read"), [(english, read_english), (german, read_german), (french, read_french)], ids=["en", "de", "fr"]
)
def test_a_number_can_be_read_back(write, read):
    assert [read(write(number)) for number in NUMBERS] == NUMBERS
    with pytest.raises(InputError, match="got 1000000, want one from 0 to 999999"):
        write(1_000_000)


def test_spelling_where_languages_are_irregular():
    assert [german(n) for n in (1, 16, 17, 21, 30, 101, 21_001)] == [
        "eins", "sechzehn", "siebzehn", "einundzwanzig", "dreißig", "einhunderteins", "einundzwanzigtausendeins",
    ]  # fmt: skip
    assert [french(n) for n in (21, 70, 71, 77, 80, 81, 91, 99, 100, 200, 203, 1000, 80_000, 200_000, 1_080)] == [
        "vingt et un", "soixante-dix", "soixante et onze", "soixante-dix-sept", "quatre-vingts", "quatre-vingt-un",
        "quatre-vingt-onze", "quatre-vingt-dix-neuf", "cent", "deux cents", "deux cent trois", "mille",
        "quatre-vingt mille", "deux cent mille", "mille quatre-vingts",
    ]  # fmt: skip
    assert [french(n, feminine=True) for n in (1, 21, 31, 81, 1001, 21_000)] == [
        "une", "vingt et une", "trente et une", "quatre-vingt-une", "mille une", "vingt et un mille",
    ]  # fmt: skip
    assert [english_ordinal(n) for n in (1, 2, 3, 5, 8, 9, 12, 20, 21, 31)] == [
        "first", "second", "third", "fifth", "eighth", "ninth", "twelfth", "twentieth", "twenty-first", "thirty-first",
    ]  # fmt: skip
    assert [german_ordinal(n) for n in (1, 3, 7, 8, 12, 19, 20, 27)] == [
        "erste", "dritte", "siebte", "achte", "zwölfte", "neunzehnte", "zwanzigste", "siebenundzwanzigste",
    ]  # fmt: skip
    years = (1100, 1905, 1984, 2000, 2005, 2019)
    assert [english_year(year) for year in years] == [
        "eleven hundred", "nineteen oh five", "nineteen eighty-four", "two thousand", "two thousand and five",
        "twenty nineteen",
    ]  # fmt: skip
    assert [german_year(year) for year in years] == [
        "elfhundert", "neunzehnhundertfünf", "neunzehnhundertvierundachtzig", "zweitausend", "zweitausendfünf",
        "zweitausendneunzehn",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("time", "words"),
    [
        ((7, 0), ("seven o'clock", "sieben Uhr", "sept heures")),
        ((1, 0), ("one o'clock", "ein Uhr", "une heure")),
        ((1, 15), ("a quarter past one", "Viertel nach eins", "une heure et quart")),
        ((7, 20), ("twenty past seven", "zwanzig nach sieben", "sept heures vingt")),
        ((7, 25), ("twenty-five past seven", "fünf vor halb acht", "sept heures vingt-cinq")),
        ((7, 30), ("half past seven", "halb acht", "sept heures et demie")),
        ((7, 35), ("twenty-five to eight", "fünf nach halb acht", "huit heures moins vingt-cinq")),
        ((7, 45), ("a quarter to eight", "Viertel vor acht", "huit heures moins le quart")),
        ((7, 39), ("twenty-one minutes to eight", "einundzwanzig Minuten vor acht", "huit heures moins vingt et une")),
    ],
)
def test_spoken_times(time, words):
    assert spoken(*time) == words


def test_times_of_a_timetable():
    assert timetable(19, 5) == ("nineteen oh five", "neunzehn Uhr fünf", "dix-neuf heures cinq")
    assert timetable(21, 0) == ("twenty-one hundred hours", "einundzwanzig Uhr", "vingt et une heures")


def test_sentences_are_the_same_every_time_never_twice_and_often_long():
    made = list(islice(pairs("de"), 2000))
    assert made == list(islice(pairs("de"), 2000))
    assert made != list(islice(pairs("de", seed=1), 2000))
    assert [english for english, _ in made] == [english for english, _ in islice(pairs("fr"), 2000)]
    assert len({english for english, _ in made}) == 2000
    assert sum(len(english.split()) > 20 for english, _ in made) > 400
    with pytest.raises(InputError, match="'de' or 'fr'"):
        next(pairs("nl"))


@pytest.mark.parametrize("language", ["de", "fr"])
def test_sentences_are_well_formed(language):
    for sentence, translation in islice(pairs(language), 3000):
        for text in (sentence, translation):
            assert re.fullmatch(r"[A-ZÀ-Ý][^{}|_]*[^ ,]\.", text), text
            assert "  " not in text
            assert " ," not in text
        assert not re.search(r"\b([Qq]u|[Dd])e (?!onze)[aeiouéAEIOU]", translation)


def test_every_slot_and_frame_occurs():
    sentences = " ".join(english for english, _ in islice(pairs("de"), 3000)).lower()
    for frame in FRAMES:
        fixed = max(re.split(r"\{\w+\}", frame.english), key=len).strip()
        assert fixed.lower() in sentences


def test_german_verbs_stand_second_and_last_in_subordinate_clauses():
    seen = 0
    for _, german_text in islice(pairs("de"), 3000):
        if match := re.search(r"(?:weil|dass) der Zug nach \w+ um ([^,]*)\.", german_text):
            assert match[1].endswith(" abfährt")
            seen += 1
        if match := re.fullmatch(r"Am \w+ (\w+) der Zug nach .* (\w+)\.", german_text):
            assert match.groups() == ("fährt", "ab")
            seen += 1
    assert seen > 20
