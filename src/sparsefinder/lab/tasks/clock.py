"""Clock times in English, German and French words, as people say them and as timetables do.

>>> spoken(7, 30)
('half past seven', 'halb acht', 'sept heures et demie')
>>> spoken(7, 40)
('twenty to eight', 'zwanzig vor acht', 'huit heures moins vingt')
"""

from __future__ import annotations

import random

from .numerals import english, french, german

__all__ = ["clock", "spoken", "timetable"]

Phrase = tuple[str, str, str]
# Parts of the day and their hours: up to eleven, because French has names of its own for twelve.
PARTS: tuple[tuple[Phrase, range], ...] = (
    (("in the morning", "morgens", "du matin"), range(5, 11)),
    (("in the afternoon", "nachmittags", "de l'après-midi"), range(1, 5)),
    (("in the evening", "abends", "du soir"), range(6, 11)),
)


def clock(draw: random.Random) -> Phrase:
    """A time, to stand after "at", "um" and "à"."""
    if draw.random() < 0.4:
        return timetable(draw.randint(13, 23), draw.randrange(60))
    words, hours = draw.choice(PARTS)
    # Mostly what clocks are read as: full, half, quarters, fives.
    minute = draw.choice((0, 15, 30, 45, *range(5, 60, 5))) if draw.random() < 0.7 else draw.randint(2, 58)
    said = spoken(draw.choice(hours), minute)
    if draw.random() < 0.5:
        return said
    return f"{said[0]} {words[0]}", f"{said[1]} {words[1]}", f"{said[2]} {words[2]}"


def timetable(hour: int, minute: int) -> Phrase:
    """On 24 hours, from 13 to 23: "nineteen oh five", "neunzehn Uhr fünf", "dix-neuf heures cinq"."""
    if minute == 0:
        return f"{english(hour)} hundred hours", f"{german(hour)} Uhr", _hours(hour)
    minutes = f"oh {english(minute)}" if minute < 10 else english(minute)
    return (
        f"{english(hour)} {minutes}", f"{german(hour)} Uhr {german(minute)}",
        f"{_hours(hour)} {french(minute, feminine=True)}",
    )  # fmt: skip


def spoken(hour: int, minute: int) -> Phrase:
    """On twelve hours, from one to ten: past the hour up to half, then to the next."""
    following = hour + 1
    if minute == 0:
        return f"{english(hour)} o'clock", f"{'ein' if hour == 1 else german(hour)} Uhr", _hours(hour)
    if minute == 30:
        return f"half past {english(hour)}", f"halb {german(following)}", f"{_hours(hour)} et demie"
    if minute in (25, 35):
        # Counted from the half hour, which German names by the hour to come.
        side, said = ("vor", _past(hour, 25)) if minute == 25 else ("nach", _to(following, 25))
        return said[0], f"fünf {side} halb {german(following)}", said[2]
    return _past(hour, minute) if minute < 30 else _to(following, 60 - minute)


def _past(hour: int, minutes: int) -> Phrase:
    en, de = _minutes(minutes)
    fr = "et quart" if minutes == 15 else french(minutes, feminine=True)
    return f"{en} past {english(hour)}", f"{de} nach {german(hour)}", f"{_hours(hour)} {fr}"


def _to(hour: int, minutes: int) -> Phrase:
    en, de = _minutes(minutes)
    fr = "le quart" if minutes == 15 else french(minutes, feminine=True)
    return f"{en} to {english(hour)}", f"{de} vor {german(hour)}", f"{_hours(hour)} moins {fr}"


def _minutes(minutes: int) -> tuple[str, str]:
    if minutes == 15:
        return "a quarter", "Viertel"
    if minutes % 5 == 0:
        return english(minutes), german(minutes)
    return f"{english(minutes)} minutes", f"{german(minutes)} Minuten"


def _hours(hour: int) -> str:
    return f"{french(hour, feminine=True)} heure{'' if hour == 1 else 's'}"
