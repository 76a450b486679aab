"""Words, ranking and joins: what each idea is for, and a part of the tuning half against a slow slide."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bin"))
sys.path.insert(0, str(ROOT / "tests" / "bench"))

import bench_tables
from tables import index, ranking, words
from tables.schema import Column, Key, Table


def table(domain: str, name: str, columns: str, *keys: Key) -> Table:
    return Table(domain, name, tuple(map(Column, columns.split())), keys)


SCHOOL = [
    table("school", "student", "student_id home_town age"),
    table("school", "course", "course_id title"),
    table("school", "takes", "student_id course_id grade", Key("student_id", "student", "student_id"),
          Key("course_id", "course", "course_id")),
]
GARAGE = [table("garage", "owner", "owner_id name country"), table("garage", "car", "car_id owner_id mpg surfacearea",
                                                                   Key("owner_id", "owner", "owner_id"))]
MADE = index.build(SCHOOL + GARAGE)


def best(question: str) -> str:
    asked = ranking.ask(MADE, question, ranking.Weights())
    found = ranking.flat(MADE, asked, ranking.Weights(), 1)[0]
    assert found.terms, question
    return MADE.tables[found.table].name


@pytest.mark.parametrize(("name", "parts"), [
    ("HomeTown_id", ["home", "town", "id"]), ("ISOCode2", ["iso", "code", "2"]), ("Größe", ["größe"]), ("", []),
])
def test_names_are_split_where_people_join_them(name: str, parts: list[str]) -> None:
    assert words.split(name) == parts


@pytest.mark.parametrize(("one", "other"), [
    ("cities", "city"), ("classes", "class"), ("stopped", "stop"), ("making", "make"), ("injuries", "injury"),
    ("matches", "match"), ("houses", "house"), ("rated", "rate"),
])
def test_forms_of_a_word_have_one_stem(one: str, other: str) -> None:
    assert words.stem(one) == words.stem(other)


@pytest.mark.parametrize("word", ["bus", "status", "gas", "id", "2014", "größen", "news"])
def test_a_stem_never_vanishes(word: str) -> None:
    assert len(words.stem(word)) >= min(3, len(word))


@pytest.mark.parametrize(("question", "name"), [
    ("How many students are there?", "student"),
    ("the youngest", "student"),
    ("Who owns it?", "owner"),
    ("people from France", "owner"),
    ("miles per gallon", "car"),
    ("the surface", "car"),
    ("all the studnets", "student"),
])
def test_a_question_finds_its_table_by(question: str, name: str) -> None:
    assert best(question) == name


def test_a_table_that_joins_what_was_taken_comes_before_one_that_does_not() -> None:
    joined = table("d", "zzz", "who", Key("who", "singer", "id"))
    tables = [table("d", "aaa", "x"), table("d", "singer", "id"), joined]
    made, weights = index.build(tables), ranking.Weights()
    found = ranking.within(made, ranking.ask(made, "singers", weights), "d", weights)
    assert [tables[one.table].name for one in found] == ["singer", "zzz", "aaa"]


def test_words_that_nothing_holds_find_nothing() -> None:
    asked = ranking.ask(MADE, "zebra quantum", ranking.Weights())
    assert not asked.held and all(not one.terms for one in ranking.flat(MADE, asked, ranking.Weights()))


def test_a_part_of_the_tuning_half_is_found_as_before() -> None:
    data = bench_tables.folder()
    if not (data / "spider_schemas.json").is_file():
        pytest.skip(f"the schemas are not here: {data}")
    tables = bench_tables.read_schemas(str(data / "spider_schemas.json"))
    asked = bench_tables.questions(data, False)[::10]
    hits = bench_tables.measure(bench_tables.ours(index.build(tables), ranking.Weights()), asked)
    assert (len(tables), len(asked)) == (881, 41)
    assert hits["domain@3"] >= 40 and hits["tables@3"] >= 39 and hits["flat@5"] >= 39, hits
