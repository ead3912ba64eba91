"""Sentences about numbers, dates and clock times in English, German and French, made from a grammar without end.

>>> next(pairs("de"))
('The film begins at half past seven …', 'Der Film fängt um halb acht … an.')

German says units before tens and half past seven as half eight, puts the verb second, and last after weil and dass: to
translate it, attention has to reorder.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...errors import InputError
from .clock import clock
from .numerals import english, english_ordinal, english_year, french, german, german_ordinal, german_year

__all__ = ["pairs"]

LANGUAGES = ("en", "de", "fr")
# The same words in English, German and French.
Phrase = tuple[str, str, str]

FEMALE = ("Anna", "Clara", "Emma", "Julia", "Laura", "Marie", "Nina", "Sophie")
MALE = ("David", "Felix", "Lucas", "Martin", "Paul", "Robert", "Simon", "Thomas")
CITIES: tuple[Phrase, ...] = (
    ("Berlin", "Berlin", "Berlin"), ("Brussels", "Brüssel", "Bruxelles"), ("Geneva", "Genf", "Genève"),
    ("Hamburg", "Hamburg", "Hambourg"), ("Lisbon", "Lissabon", "Lisbonne"), ("Lyon", "Lyon", "Lyon"),
    ("Madrid", "Madrid", "Madrid"), ("Munich", "München", "Munich"), ("Paris", "Paris", "Paris"),
    ("Prague", "Prag", "Prague"), ("Rome", "Rom", "Rome"), ("Vienna", "Wien", "Vienne"),
)  # fmt: skip
WEEKDAYS: tuple[Phrase, ...] = (
    ("Monday", "Montag", "lundi"), ("Tuesday", "Dienstag", "mardi"), ("Wednesday", "Mittwoch", "mercredi"),
    ("Thursday", "Donnerstag", "jeudi"), ("Friday", "Freitag", "vendredi"), ("Saturday", "Samstag", "samedi"),
    ("Sunday", "Sonntag", "dimanche"),
)  # fmt: skip
MONTHS: tuple[Phrase, ...] = (
    ("January", "Januar", "janvier"), ("February", "Februar", "février"), ("March", "März", "mars"),
    ("April", "April", "avril"), ("May", "Mai", "mai"), ("June", "Juni", "juin"), ("July", "Juli", "juillet"),
    ("August", "August", "août"), ("September", "September", "septembre"), ("October", "Oktober", "octobre"),
    ("November", "November", "novembre"), ("December", "Dezember", "décembre"),
)  # fmt: skip
DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# Plurals, and whether the French word is feminine: it decides between un and une.
THINGS: tuple[tuple[Phrase, bool], ...] = (
    (("apples", "Äpfel", "pommes"), True), (("books", "Bücher", "livres"), False),
    (("bottles", "Flaschen", "bouteilles"), True), (("chairs", "Stühle", "chaises"), True),
    (("lamps", "Lampen", "lampes"), True), (("letters", "Briefe", "lettres"), True),
    (("pens", "Stifte", "stylos"), False), (("stamps", "Briefmarken", "timbres"), False),
    (("tickets", "Karten", "billets"), False), (("windows", "Fenster", "fenêtres"), True),
)  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """A clause with slots: English, German as `subject|finite verb|middle|end`, French, and what can stand before it.

    An end with a hyphen is a separable prefix: "fährt … ab", but "… abfährt" at the end of a subordinate clause.
    """

    english: str
    german: str
    french: str
    front: str | None = None


FRAMES = (
    Frame("{who} bought {things} for {price}", "{who}|hat|{things} für {price}|gekauft",
          "{who} a acheté {things} pour {price}", "date"),
    Frame("the train to {city} leaves at {time}", "der Zug nach {city}|fährt|um {time}|ab-",
          "le train pour {city} part à {time}", "weekday"),
    Frame("{who} was born on {birthday}", "{who}|wurde|am {birthday}|geboren", "{who} est né{who_e} le {birthday}"),
    Frame("the meeting lasts from {time} to {time2}", "die Sitzung|dauert|von {time} bis {time2}|",
          "la réunion dure de {time} à {time2}", "weekday"),
    Frame("the house in {city} costs {price}", "das Haus in {city}|kostet|{price}|",
          "la maison à {city} coûte {price}"),
    Frame("the letter of {date} has {lines}", "der Brief vom {date}|hat|{lines}|",
          "la lettre du {date} compte {lines}"),
    Frame("the number {number} comes before the number {number2}", "die Zahl {number}|kommt|vor der Zahl {number2}|",
          "le nombre {number} vient avant le nombre {number2}"),
    Frame("{people} live in {city}", "{people}|leben|in {city}|", "{people} vivent à {city}"),
    Frame("the password is {number}", "das Passwort|lautet|{number}|", "le mot de passe est {number}"),
    Frame("we have been waiting since {time}", "wir|warten|seit {time}|", "nous attendons depuis {time}"),
    Frame("{who} runs {kilometres} in {minutes}", "{who}|läuft|{kilometres} in {minutes}|",
          "{who} court {kilometres} en {minutes}"),
    Frame("the shop opens on {weekday} at {time}", "das Geschäft|öffnet|am {weekday} um {time}|",
          "le magasin ouvre {weekday} à {time}"),
    Frame("{who} paid {price} on {date}", "{who}|hat|am {date} {price}|bezahlt", "{who} a payé {price} le {date}"),
    Frame("{who} called {who2} at {time}", "{who}|hat|{who2} um {time}|angerufen", "{who} a appelé {who2} à {time}",
          "date"),
    Frame("the museum has sold {things} since {birthday}", "das Museum|hat|seit dem {birthday} {things}|verkauft",
          "le musée a vendu {things} depuis le {birthday}"),
    Frame("the film begins at {time}", "der Film|fängt|um {time}|an-", "le film commence à {time}", "weekday"),
    Frame("{who} travelled from {city} to {city2} on {birthday}",
          "{who}|ist|am {birthday} von {city} nach {city2}|gefahren",
          "{who} a voyagé de {city} à {city2} le {birthday}"),
    Frame("the king ruled from {year} to {year2}", "der König|regierte|von {year} bis {year2}|",
          "le roi a régné de {year} à {year2}"),
)  # fmt: skip


@dataclass(frozen=True)
class Clause:
    """A frame with its slots filled."""

    english: str
    german: str
    french: str

    @property
    def main(self) -> str:
        subject, finite, middle, end = self.german.split("|")
        return f"{subject} {finite} {middle} {end.rstrip('-')}".strip()

    @property
    def inverted(self) -> str:
        """After anything else in front of the clause: the verb stays second."""
        subject, finite, middle, end = self.german.split("|")
        return f"{finite} {subject} {middle} {end.rstrip('-')}".strip()

    @property
    def subordinate(self) -> str:
        subject, finite, middle, end = self.german.split("|")
        last = end.rstrip("-") + finite if end.endswith("-") else f"{end} {finite}".strip()
        return f"{subject} {middle} {last}"


def pairs(language: str, seed: int = 0) -> Iterator[tuple[str, str]]:
    """English sentences and their translations, none twice, without end."""
    if language not in LANGUAGES[1:]:
        raise InputError("language", repr(language), "'de' or 'fr'")
    draw, seen = random.Random(seed), set()
    while True:
        sentence = _sentence(draw)
        if sentence[0] not in seen:
            seen.add(sentence[0])
            yield sentence[0], sentence[LANGUAGES.index(language)]


def _sentence(draw: random.Random) -> Phrase:
    made = draw.choices(list(SENTENCES), weights=list(SENTENCES.values()))[0](draw)
    ended = [f"{text[0].upper()}{text[1:]}." for text in made]
    return ended[0], ended[1], _elided(ended[2])


def _single(draw: random.Random) -> Phrase:
    clause = _clause(draw)
    return clause.english, clause.main, clause.french


def _fronted(draw: random.Random) -> Phrase:
    frame = draw.choice([frame for frame in FRAMES if frame.front])
    clause, (en, de, fr) = _clause(draw, frame), SLOTS[frame.front or ""](draw)
    article = "le " if frame.front == "date" else ""
    return f"on {en}, {clause.english}", f"am {de} {clause.inverted}", f"{article}{fr}, {clause.french}"


def _joined(draw: random.Random) -> Phrase:
    one, two = _clause(draw), _clause(draw)
    en, de, fr = draw.choice(((", and", " und", " et"), (", but", ", aber", ", mais")))
    return f"{one.english}{en} {two.english}", f"{one.main}{de} {two.main}", f"{one.french}{fr} {two.french}"


def _because(draw: random.Random) -> Phrase:
    one, two = _clause(draw), _clause(draw)
    return (f"{one.english} because {two.english}", f"{one.main}, weil {two.subordinate}",
            f"{one.french} parce que {two.french}")  # fmt: skip


def _said(draw: random.Random) -> Phrase:
    who, clause = _who(draw)[0], _clause(draw)
    return (f"{who} says that {clause.english}", f"{who} sagt, dass {clause.subordinate}",
            f"{who} dit que {clause.french}")  # fmt: skip


def _three(draw: random.Random) -> Phrase:
    one, two, three = (_clause(draw) for _ in range(3))
    return (f"{one.english}, {two.english}, and {three.english}", f"{one.main}, {two.main} und {three.main}",
            f"{one.french}, {two.french} et {three.french}")  # fmt: skip


def _clause(draw: random.Random, frame: Frame | None = None) -> Clause:
    frame = frame or draw.choice(FRAMES)
    filled: dict[str, Phrase] = {}
    for slot in re.findall(r"\{(\w+)\}", frame.english):
        phrase = SLOTS[slot.rstrip("2")](draw)
        while phrase in filled.values():
            phrase = SLOTS[slot.rstrip("2")](draw)
        filled[slot] = phrase
    words = [{slot: phrase[place] for slot, phrase in filled.items()} for place in range(3)]
    # The participle after être agrees with the subject.
    ending = "e" if words[2].get("who") in FEMALE else ""
    return Clause(
        frame.english.format(**words[0]), frame.german.format(**words[1]), frame.french.format(**words[2], who_e=ending)
    )


def _elided(text: str) -> str:
    """French que and de before a vowel. Before onze and huit nothing is elided, and the grammar has no other h."""
    return re.sub(r"\b([Qq]u|[Dd])e (?!onze)(?=[aeéiouAEÉIOU])", r"\1'", text)


def _who(draw: random.Random) -> Phrase:
    name = draw.choice(FEMALE + MALE)
    return name, name, name


def _counted(draw: random.Random, least: int, most: int, noun: Phrase, feminine: bool) -> Phrase:
    """Evenly over the number of digits. None that ends in 01: what German does then is disputed."""
    count = _value(draw, least, most)
    while count % 100 == 1:
        count = _value(draw, least, most)
    words = english(count), german(count), french(count, feminine)
    return f"{words[0]} {noun[0]}", f"{words[1]} {noun[1]}", f"{words[2]} {noun[2]}"


def _value(draw: random.Random, least: int, most: int) -> int:
    digits = draw.randint(len(str(least)), len(str(most)))
    return draw.randint(max(least, 10 ** (digits - 1)), min(most, 10**digits - 1))


def _things(draw: random.Random) -> Phrase:
    return _counted(draw, 10, 9_999, *draw.choice(THINGS))


def _price(draw: random.Random) -> Phrase:
    euros = _counted(draw, 10, 99_999, ("euros", "Euro", "euros"), False)
    if draw.random() < 0.6:
        return euros
    cents = _counted(draw, 10, 99, ("cents", "Cent", "centimes"), False)
    return f"{euros[0]} and {cents[0]}", f"{euros[1]} und {cents[1]}", f"{euros[2]} et {cents[2]}"


def _number(draw: random.Random) -> Phrase:
    value = _value(draw, 1, 999_999)
    return english(value), german(value), french(value)


def _year(draw: random.Random) -> Phrase:
    year = draw.randint(1100, 2099)
    return english_year(year), german_year(year), french(year)


def _date(draw: random.Random) -> Phrase:
    """After "on", "am" and "le": German in the dative."""
    month = draw.randrange(12)
    day, (en, de, fr) = draw.randint(1, DAYS[month]), MONTHS[month]
    french_day = "premier" if day == 1 else french(day)
    return f"the {english_ordinal(day)} of {en}", f"{german_ordinal(day)}n {de}", f"{french_day} {fr}"


def _birthday(draw: random.Random) -> Phrase:
    (en, de, fr), year = _date(draw), _year(draw)
    return f"{en} {year[0]}", f"{de} {year[1]}", f"{fr} {year[2]}"


SLOTS: dict[str, Callable[[random.Random], Phrase]] = {
    "who": _who,
    "city": lambda draw: draw.choice(CITIES),
    "weekday": lambda draw: draw.choice(WEEKDAYS),
    "things": _things,
    "price": _price,
    "people": lambda draw: _counted(draw, 100, 999_999, ("people", "Menschen", "personnes"), True),
    "lines": lambda draw: _counted(draw, 10, 999, ("lines", "Zeilen", "lignes"), True),
    "kilometres": lambda draw: _counted(draw, 10, 99, ("kilometres", "Kilometer", "kilomètres"), False),
    "minutes": lambda draw: _counted(draw, 10, 999, ("minutes", "Minuten", "minutes"), True),
    "number": _number,
    "year": _year,
    "date": _date,
    "birthday": _birthday,
    "time": clock,
}
# How often each kind of sentence is made.
SENTENCES: dict[Callable[[random.Random], Phrase], int] = {
    _single: 5, _fronted: 4, _joined: 4, _because: 3, _said: 2, _three: 2,
}  # fmt: skip
