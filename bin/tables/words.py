"""Names and questions → words that can meet: split, stemmed, and joined with words that mean nearly the same.

Pure, and knows no catalog. English is assumed where words are stemmed or mean one another; words of other languages
still match letter by letter.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

_STOP = """
a an the of in on at by for to from with and or not is are was were be been being do does did has have had having what
which who whom whose how many much when where why that this these those it its their his her him them they we i me my
our us you your show list find give return tell please display report compute calculate count number total sum average
avg mean maximum minimum max min most least more less than each every all any some there here as if into then also
both either neither no nor only so such too very can will would could should may might s t per along corresponding
between above below over under after before during across among top first last different distinct unique greatest
largest smallest highest lowest order ordered sort sorted ascending descending alphabetical alphabetically together
whatever but
"""

# What people say = what columns and tables are called. General English, not the words of any one catalog.
_MEANS = """
young old older oldest elder eldest younger youngest age = age birth
heavy light weigh lighter heavier heaviest = weight
long longest longer length = length duration
tall tallest taller = height
cheap cheapest expensive cost costly pay paid spent spend money worth = price cost amount payment charge
recent recently latest earliest early earlier late later newest = date year time
live lives living located reside = address city location country state
nation national country = country nation nationality
citizenship = nationality
person people = name person people
won win winner = winner win result
lost lose loser = loser lose result
male female man woman men women boy girl sex = gender sex
english french spanish german speak spoken = language
manufacturer maker make produce built = maker manufacturer make produce
author write written wrote = author writer
movie film = film movie
car vehicle automobile = car vehicle
teacher instructor professor faculty = teacher instructor professor faculty
pupil = student
employee worker staff = employee staff worker
purchase buy bought order = purchase order
client customer = customer client
phone telephone mobile cell = phone telephone mobile cell
mail = email
email = mail
salary wage earn paid = salary wage
doctor physician = doctor physician
happen occur held = date event
begin start = start begin
end finish = end finish
picture photo image = photo image picture
pet dog cat = pet animal
plane aircraft airplane = aircraft airplane plane
fly flew = flight
big large small size = size
"""
_PLACES = """
afghanistan albania algeria argentina australia austria bahamas bangladesh belarus belgium bolivia brazil bulgaria
cambodia cameroon canada chile china colombia croatia cuba cyprus denmark ecuador egypt england estonia ethiopia
finland france germany ghana greece greenland hungary iceland india indonesia iran iraq ireland israel italy jamaica
japan jordan kenya korea kuwait latvia lebanon libya lithuania luxembourg malaysia mexico mongolia morocco myanmar
nepal netherlands nigeria norway pakistan panama peru philippines poland portugal qatar romania russia scotland serbia
singapore slovakia slovenia somalia spain sudan sweden switzerland syria taiwan tanzania thailand tunisia turkey
uganda ukraine uruguay usa uk venezuela vietnam wales yemen zambia zimbabwe africa america asia europe oceania
antarctica american australian austrian belgian brazilian british canadian chinese danish dutch egyptian english
european finnish french german greek indian irish israeli italian japanese korean mexican norwegian polish portuguese
russian scottish spanish swedish swiss thai turkish ukrainian african asian
"""
STOP = frozenset(_STOP.split())
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W\d_]+|\d+")
_QUOTED = re.compile(r"\"([^\"]*)\"|(?<!\w)'([^']*)'(?!\w)|“([^”]*)”|‘([^’]*)’")
_VOWEL = re.compile(r"[aeiouy]")
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")


def split(name: str) -> list[str]:
    """`HomeTown_id` → home, town, id."""
    return [word.lower() for word in _WORD.findall(_CAMEL.sub(" ", name))]


def stems(name: str) -> tuple[str, ...]:
    """The stemmed words of a name."""
    return tuple(stem(word) for word in split(name))


@functools.cache
def stem(word: str) -> str:
    """One form for a word's plural, past and -ing; never shorter than three letters."""
    if len(word) < 4 or not word.isascii() or word.isdigit():
        return word
    word = _ending(_plural(word))
    if word.endswith("y") and len(word) > 3 and word[-2] not in "aeiou":
        return word[:-1] + "i"
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _plural(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    if word.endswith(("sses", "ches", "shes", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _ending(word: str) -> str:
    """Without -ing and -ed where a word with a vowel remains, doubled letters undone."""
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and _VOWEL.search(rest):
            return rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest
    return word


def asked(question: str) -> dict[str, bool]:
    """The stems that a question is about, in order; True for those that stand in quotes, which are mostly values."""
    quoted = {word.lower() for match in _QUOTED.findall(question) for part in match for word in _WORD.findall(part)}
    found: dict[str, bool] = {}
    for word in _said(question):
        if word not in STOP:
            found.setdefault(stem(word), word in quoted)
    return found


def spoken(question: str) -> dict[str, str]:
    """Each stem of a question as its first word says it: what a person reads."""
    found: dict[str, str] = {}
    for word in _said(question):
        found.setdefault(stem(word), word)
    return found


def _said(question: str) -> list[str]:
    """The words of a question, in lower case and without a possessive's ending."""
    return [word.lower() for word in _WORD.findall(question.replace("'s", "").replace("’s", ""))]


def initials(question: str) -> list[str]:
    """`miles per gallon` → mpg: first letters of three or four words in a row, where they cannot be read as a word."""
    said = split(question)
    runs = ["".join(word[0] for word in said[at:at + size]) for size in (3, 4) for at in range(len(said) - size + 1)]
    return [run for run in dict.fromkeys(runs) if run.isalpha() and not _VOWEL.search(run)]


def is_year(word: str) -> bool:
    """Four digits that are most probably a year."""
    return bool(_YEAR.fullmatch(word))


@functools.cache
def meanings() -> Mapping[str, frozenset[str]]:
    """Stem → stems that may mean the same in a column's or a table's name."""
    found: dict[str, set[str]] = {}
    for line in _MEANS.strip().splitlines():
        said, named = ([stem(word) for word in side.split()] for side in line.split("="))
        for word in said:
            found.setdefault(word, set()).update(other for other in named if other != word)
    return {word: frozenset(others) for word, others in found.items()}


@functools.cache
def places() -> frozenset[str]:
    """Stems of countries, continents and their adjectives."""
    return frozenset(stem(word) for word in _PLACES.split())
