from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.tools import Parameter, Tool, Value
from harness.tools.arguments import canonical, check_inputs, help_text, parse, refusal, schema, usage, wants_help
from harness.tools.header import read_tool
from harness.tools.notation import expected, parse_duration
from harness.tools.parameter import read_input, read_parameter


def tool(*lines: str, name: str = "search-logs") -> Tool:
    made = []
    for number, line in enumerate(lines, 2):
        kind, _, text = line.partition(" ")
        made.append(read_parameter(kind, text.strip(), number))  # type: ignore[arg-type]
    return Tool(name, Path("bin") / name, parameters=tuple(made), header=True)


SEARCH = tool(
    "option --service! <NAME>  service to search", "option --since=2h <DURATION>", "option --limit <INT>", "flag --json"
)  # fmt: skip


def problems(on: Tool, *args: str) -> list[str]:
    return parse(on, args)[1]


def slot(on: Tool, *args: str) -> tuple[str, ...]:
    values, wrong = parse(on, args)
    assert wrong == []
    return canonical(on, values)


def test_case_5_unknown_option_and_missing_one_in_one_answer() -> None:
    wrong = problems(SEARCH, "--servce", "x")
    assert wrong == ["unknown option --servce (nearest: --service)", "missing --service <NAME>: service to search"]
    assert refusal(SEARCH, wrong) == (
        "INVALID_INPUT search-logs\n"
        "  unknown option --servce (nearest: --service)\n"
        "  missing --service <NAME>: service to search\n"
        "  usage: search-logs --service NAME [--since DURATION] [--limit INT] [--json]"
    )


def test_case_5_values_that_start_with_a_dash() -> None:
    (wrong,) = problems(SEARCH, "--service", "a", "--since", "-5m")
    assert "--since=-5m" in wrong
    assert parse(SEARCH, ["--service", "a", "--since=-5m"])[0]["since"] == "-5m"
    assert parse(SEARCH, ["--service", "a", "--limit", "-5"]) == (
        {"service": "a", "since": "2h", "limit": "-5", "json": False},
        [],
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--service", "a", "--json=1"], "--json is a flag and takes no value"),
        (["--service", "a", "--service", "b"], "--service is given 2 times"),
        (["--service", "a", "--json", "--json"], "--json is given 2 times"),
        (["--service", "a", "--service"], "--service has no value"),
        (["--service="], "empty --service"),
        (["--service", "a", "b"], "surplus argument b"),
        (["--service", "a", "--limit", "ten"], "--limit: ten is not a whole number of at most 64 bits"),
        (["--service", "a\0"], "'a\\x00' holds a NUL"),
        (["--service", "a", "--no-json"], "unknown option --no-json (nearest: --json)"),
        (["--service", "a", "-x\n  fake: line"], "unknown option '-x\\n  fake: line'"),
        (["--service", "\udc80"], "'\\udc80' holds a character that is no text"),
    ],
)
def test_case_5_each_is_refused(args: list[str], said: str) -> None:
    assert said in problems(SEARCH, *args)


def test_case_5_no_abbreviations() -> None:
    assert problems(SEARCH, "--serv", "a")[0] == "unknown option --serv (nearest: --service)"


def test_a_missing_value_does_not_swallow_the_next_option() -> None:
    values, wrong = parse(SEARCH, ["--since", "--service", "a"])
    assert values["service"] == "a" and len(wrong) == 1 and "--since has no value" in wrong[0]


def test_unknown_choice_names_the_nearest() -> None:
    chart = tool("option --kind[=line|bar]")
    assert problems(chart, "--kind", "lime") == ["unknown value lime of --kind (nearest: line)"]
    assert problems(chart, "--kind", "x") == ["unknown value x of --kind (one of: line, bar)"]


def test_case_6_order_of_repeatables_and_positionals() -> None:
    tags = tool("option --tag*", "arg words*")
    values, wrong = parse(tags, ["--tag", "b", "--tag", "a", "x", "--", "-y"])
    assert (wrong, values) == ([], {"tag": ("b", "a"), "words": ("x", "-y")})
    assert canonical(tags, values) == ("--tag", "b", "--tag", "a", "--", "x", "-y")


def test_case_6_same_meaning_same_slot() -> None:
    search = tool("option -s --service!", "option --since=2h", "flag -q --quiet*")
    wanted = ("--service", "a", "--since", "2h")
    assert slot(search, "--since=2h", "--service=a") == wanted
    assert slot(search, "--service", "a", "--since", "2h") == wanted
    assert slot(search, "--service", "a") == wanted
    assert slot(search, "-sa") == slot(search, "-s", "a") == wanted
    assert slot(search, "-qq", "-sa", "--quiet") == (*wanted, "--quiet", "--quiet", "--quiet")
    assert slot(search, "--service=-a", "--since", "-") == ("--service=-a", "--since=-")


def test_a_later_default_does_not_take_the_place_of_a_missing_positional() -> None:
    two = tool("arg a", "arg b=x")
    assert parse(two, []) == ({"b": "x"}, [])
    assert slot(two) == ()
    assert slot(two, "1") == ("1", "x")


def test_without_declared_parameters_argv_is_free() -> None:
    free = tool()
    assert parse(free, ["-x", "--", "--help"]) == ({"args": ("-x", "--", "--help")}, [])
    assert slot(free, "-x", "--", "y") == ("-x", "--", "y")
    assert problems(free, "a\0b") == ["'a\\x00b' holds a NUL"]
    assert schema(free)["properties"] == {"args": {"type": "array", "items": {"type": "string"}}}


def test_case_7_help_comes_from_the_header() -> None:
    assert wants_help(SEARCH, ["--help"]) and wants_help(SEARCH, ["-h"])
    assert not wants_help(SEARCH, ["--service", "a", "--", "--help"])
    assert not wants_help(tool("flag -h --human"), ["-h"])
    assert not wants_help(Tool("x", Path("x")), ["--help"])
    text = help_text(SEARCH)
    assert "usage: search-logs --service NAME [--since DURATION] [--limit INT] [--json]" in text
    assert "service to search (required)" in text and "default 2h" in text


def test_usage_of_every_form() -> None:
    every = tool("option -t --tag+", "option --kind[=line|bar]", "flag --loud*", "arg file! <PATH>", "arg more*")
    assert usage(every) == "search-logs --tag TAG... [--kind line|bar] [--loud]... FILE [MORE]..."


def test_schema_uses_standard_words_in_header_order() -> None:
    made = schema(tool(
        "option --n[1|2] <INT>  how many", "option --x=1.5 <NUM>", "option --day* <DATE>", "arg urls+ <URL>",
        "flag --v*", "flag --json",
    ))  # fmt: skip
    assert made == {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "enum": [1, 2], "description": "how many"},
            "x": {"type": "number", "default": 1.5},
            "day": {"type": "array", "items": {"type": "string", "format": "date"}},
            "urls": {"type": "array", "items": {"type": "string", "format": "uri"}, "minItems": 1},
            "v": {"type": "integer", "minimum": 0},
            "json": {"type": "boolean"},
        },
        "required": ["urls"],
        "additionalProperties": False,
    }
    assert list(made["properties"]) == ["n", "x", "day", "urls", "v", "json"]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("notation", "good", "bad"),
    [
        ("INT", ["0", "-5", "9223372036854775807"], ["", "1.0", "9223372036854775808", "٣", "+1", "1_0", "9" * 5000]),
        ("NUM", ["1", "-1.5", "1e3", ".5"], ["nan", "inf", "1e999", "", "0x1", "1_0"]),
        ("DATE", ["2026-05-01", "2024-02-29"], ["2026-5-1", "2026-02-30", "20260501", ""]),
        ("TIME", ["2026-05-01T12:00:00Z", "2026-05-01t12:00:60.5+02:00"], ["2026-05-01T12:00Z", "2026-05-01T12:00:00"]),
        ("DURATION", ["90", "2h", "1d12h", "500ms", "-5m"], ["", "h", "12h1d", "1.5h", "2 h", "1h1h"]),
        ("PATH", ["a", "/x y"], [""]),
        ("URL", ["https://a.b/c?d"], ["a.b/c", "localhost:80", "https://", "https://a b"]),
        ("HOST", ["a", "a.b:80", "[::1]:80"], ["", "a:0", "a:99999", "http://a", "a b", "a@b"]),
        ("EMAIL", ["a@b.c"], ["a", "a@b@c", "@b", "a b@c"]),
        ("AMOUNT", ["1", "123456789012.1234"], ["-1", "1.", "1.12345", "1e3", "1,000", "1234567890123", "NaN"]),
        ("JSON", ["1", '{"a":[null]}'], ["", "{a}", "NaN", "1 2", "[" * 100_000]),
        ("ID", ["", "anything at all"], ["a\0"]),
        (None, ["", "x"], ["\0"]),
    ],
)
def test_what_notations_accept(notation: str | None, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if expected(notation, text) is not None] == []
    assert [text for text in bad if expected(notation, text) is None] == []


def test_durations_in_seconds() -> None:
    assert [parse_duration(text) for text in ("90", "2h", "1d12h", "500ms", "1w", "-5m", "x")] == [
        90, 7200, 129600, 0.5, 604800, -300, None
    ]  # fmt: skip


def test_inputs_of_a_skill() -> None:
    declared = [read_input("batch! <ID> the batch", 9), read_input("tag*", 10), read_input("since=2h <DURATION>", 11)]
    assert check_inputs(declared, {"bach": "1"})[1] == [
        "unknown input bach (nearest: batch)",
        "missing batch <ID>: the batch",
    ]
    assert check_inputs(declared, {"batch": "B-42", "tag": '["a","b"]'}) == (
        {"batch": "B-42", "tag": ("a", "b"), "since": "2h"},
        [],
    )
    assert "JSON list" in check_inputs(declared, {"batch": "1", "tag": "a"})[1][0]
    (wrong,) = check_inputs(declared, {"batch": "1", "since": "x"})[1]
    assert wrong == "since: x is not a duration such as 90, 2h or 1d12h"


names = st.lists(st.from_regex(r"[a-z][a-z0-9_-]{0,6}", fullmatch=True), min_size=1, max_size=6, unique=True)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8) | st.sampled_from(
    ["-", "--", "-x", "--a=b", "=", ""]
)
filled = texts.filter(bool)


@st.composite
def headers(draw: st.DrawFn) -> Tool:
    """A header as `read_tool` would accept it: required positionals first, at most the last one repeatable."""
    made: list[Parameter] = []
    kinds: list[Literal["arg", "option", "flag"]] = ["arg", "option", "flag"]
    optional = False
    drawn = [name for name in draw(names) if name != "help"]
    for index, name in enumerate(drawn):
        kind = draw(st.sampled_from(kinds))
        mods = {"flag": ["", "*"], "option": ["", "!", "*", "+"], "arg": [""] if optional else ["", "!"]}[kind]
        if kind == "arg" and index == len(drawn) - 1:
            mods = [*mods, "*", *([] if optional else ["+"])]
        mod = draw(st.sampled_from(mods))
        default = draw(st.none() | texts) if kind != "flag" and not mod else None
        optional = optional or (kind == "arg" and mod in ("", "*"))
        made.append(Parameter(name, kind, mod=mod, default=default, line=index + 2))
    return Tool("t", Path("t"), parameters=tuple(made), header=True)


@st.composite
def values_of(draw: st.DrawFn, on: Tool) -> dict[str, Value]:
    """Complete values as `parse` gives them: defaults filled in, no positional after a missing one."""
    made: dict[str, Value] = {}
    gap = False
    for parameter in on.parameters:
        if parameter.kind == "flag":
            made[parameter.name] = draw(st.integers(0, 3)) if parameter.many else draw(st.booleans())
            continue
        closed = gap and parameter.kind == "arg"
        if parameter.many:
            least = 1 if parameter.required else 0
            many = draw(st.lists(filled if parameter.required else texts, min_size=least, max_size=0 if closed else 3))
            made[parameter.name] = tuple(many)
        elif parameter.required or (not closed and draw(st.booleans())):
            made[parameter.name] = draw(filled if parameter.required else texts)
        elif parameter.default is not None:
            made[parameter.name] = parameter.default
        if parameter.kind == "arg" and parameter.name not in made:
            gap = True
    return made


@settings(deadline=None)
@given(st.data())
def test_case_7_what_is_written_reads_back(data: st.DataObject) -> None:
    on = data.draw(headers())
    values = data.draw(values_of(on))
    argv = canonical(on, values)
    assert parse(on, argv) == (values, [])


@settings(deadline=None)
@given(st.data())
def test_case_7_writing_what_was_read_is_idempotent(data: st.DataObject) -> None:
    on = data.draw(headers())
    options = [f"--{parameter.name}" for parameter in on.parameters]
    pairs = st.builds("{}={}".format, st.sampled_from(options or ["--x"]), texts)
    words = st.sampled_from([*options, "--"]) | texts | pairs
    values, wrong = parse(on, data.draw(st.lists(words, max_size=8)))
    if not wrong:
        once = canonical(on, values)
        assert parse(on, once) == (values, [])
        assert canonical(on, parse(on, once)[0]) == once


@settings(deadline=None)
@given(data=st.data())
def test_a_header_reads_back_as_it_was_written(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    on = data.draw(headers())
    path = tmp_path_factory.getbasetemp() / "written"
    plain = [p for p in on.parameters if p.default is None or (p.default.isalnum() and p.default.isascii())]
    lines = [
        f"# @{p.kind} {'' if p.kind == 'arg' else '--'}{p.name}{p.mod}" + ("" if p.default is None else f"={p.default}")
        for p in plain
    ]
    path.write_text("\n".join(["#!/bin/sh", *lines]))
    read = read_tool(path, "written")
    assert read.findings == ()
    assert [(p.kind, p.name, p.mod, p.default) for p in read.parameters] == [
        (p.kind, p.name, p.mod, p.default) for p in plain
    ]
