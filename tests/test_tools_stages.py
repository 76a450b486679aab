from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import Finding
from harness.tools import Tool
from harness.tools.expression import (
    MISSING,
    BadExpression,
    Lookup,
    Ref,
    Unbound,
    bind,
    field,
    holds,
    read_when,
    read_word,
)
from harness.tools.header import read_tool
from harness.tools.parameter import read_parameter
from harness.tools.stages import Pipeline, Reducer, read_pipeline
from harness.tools.wiring import check_pipeline, edges, handlers

HEAD = """\
#!/usr/bin/env -S harness pipeline
# @describe Why a batch failed, and what to do next
# @option --batch! <ID>   the batch
"""
STAGES = """\
stages:
  fetch-lines: {run: [search-logs, --batch, "${inputs.batch}"], on-failure: ask-owner}
  classify:    {run: [harness, prompt, --choice, "oom,disk", -i, "log=${fetch-lines}", "Which failure is this?"]}
  heap:        {run: [check-heap, --pod, "${fetch-lines.pod}"], when: "${classify} == 'oom'"}
  report:      {run: [write-report, --batch, "${inputs.batch}"], needs: [classify, heap?]}
  ask-owner:   {run: [find-owner, --batch, "${inputs.batch}", --problem, "${failed.class}"]}
"""
OPTIONS = {
    "search-logs": ["--batch!"],
    "check-heap": ["--pod!"],
    "write-report": ["--batch!"],
    "find-owner": ["--batch!", "--problem[oom|FAILED]"],
    "count": ["--limit <INT>"],
}


def resolve(name: str) -> Tool | Literal["worker"] | None:
    if name in OPTIONS:
        declared = tuple(read_parameter("option", text, 2) for text in OPTIONS[name])
        return Tool(name, Path(name), parameters=declared, header=True)
    if name == "free":
        return Tool(name, Path(name))
    if name == "cracked":
        return Tool(name, Path(name), findings=(Finding("bad-tag", "error", "bin/cracked", 3, "x", "y"),))
    return "worker" if name == "oncall-triage" else None


def pipeline(folder: Path, stages: str, head: str = HEAD) -> tuple[Pipeline, Tool]:
    path = folder / "triage"
    path.write_text(head + stages)
    tool = read_tool(path, "triage", display="bin/triage")
    assert tool.findings == () and tool.pipeline
    return read_pipeline(tool), tool


def problems(folder: Path, stages: str, head: str = HEAD) -> list[tuple[int, str]]:
    made, tool = pipeline(folder, stages, head)
    found = check_pipeline(made, tool, resolve, OPTIONS)
    assert all((one.code, one.severity, one.file) == ("bad-pipeline", "error", "bin/triage") for one in found)
    return [(one.line, one.message) for one in found]


def problem(folder: Path, stages: str) -> str:
    ((_, message),) = problems(folder, stages)
    return message


def test_case_26_the_example_is_read_with_its_lines(tmp_path: Path) -> None:
    made, tool = pipeline(tmp_path, STAGES)
    assert check_pipeline(made, tool, resolve) == []
    assert [(stage.name, stage.line) for stage in made.stages] == [
        ("fetch-lines", 5), ("classify", 6), ("heap", 7), ("report", 8), ("ask-owner", 9)
    ]  # fmt: skip
    assert {stage.name: dict(edges(made, stage)) for stage in made.stages} == {
        "fetch-lines": {},
        "classify": {"fetch-lines": False},
        "heap": {"fetch-lines": False, "classify": True},
        "report": {"classify": False, "heap": True},
        "ask-owner": {},
    }
    assert handlers(made) == {"ask-owner": ("fetch-lines",)}


def test_the_pure_yaml_loader_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fast, _ = pipeline(tmp_path, STAGES)
    monkeypatch.delattr(yaml, "CBaseLoader", raising=False)
    assert pipeline(tmp_path, STAGES)[0] == fast


def test_case_26_one_equals_sign_is_no_comparison(tmp_path: Path) -> None:
    stages = "stages:\n  a: {run: [count]}\n  b:\n    run: [count]\n    when: \"${a} = 'x'\"\n"
    ((line, message),) = problems(tmp_path, stages)
    assert line == 8 and "is not one comparison" in message


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ("", "the pipeline holds no keys"),
        ("just words", "the pipeline holds no keys"),
        ("stages: {a: [", "is no YAML"),
        ("stages: {a: {run: [count]}}\nsteps: {}", "unknown key steps in the pipeline; near: stages"),
        ("stages: {a: {run: [count], need: [b]}}", "unknown key need in stage a; near: needs"),
        ("stages: {A: {run: [count]}}", "A cannot be the name of a stage"),
        ("stages: {inputs: {run: [count]}}", "inputs cannot be the name of a stage"),
        ("stages:\n  a: {run: [count]}\n  a: {run: [count]}", "a is given twice in stages"),
        ("stages: {a: {run: count}}", "stage a has no list of words to run"),
        ("stages: {a: {needs: []}}", "stage a has no list of words to run"),
        ("stages: {a: {run: [[count]]}}", "a list or mapping stands where text should"),
        ("stages: {a: {run: [free, '${x y}']}}", "'${x y}' is no reference"),
        ("stages: {a: {run: [count], needs: b}}", "needs of stage a is no list"),
        ("stages: {a: {run: [count], as: inputs}}", "as is no name"),
        ("stages: {a: {run: [cuont]}}", "stage a runs cuont, which is no tool; near: count"),
        ("stages: {a: {run: ['${inputs.batch}']}}", "which is no fixed name"),
        ("stages: {a: {run: [harness, run, x]}}", "another word than prompt"),
        ("stages: {a: {run: [cracked]}}", "which is broken: bin/cracked:3 bad-tag"),
        ("stages: {a: {run: [count, --limt, '3']}}", "count: unknown option --limt (nearest: --limit)"),
        ("stages: {a: {run: [count, --limit, many]}}", "count: --limit: many is not a whole number"),
        ("stages: {a: {run: [check-heap]}}", "check-heap: missing --pod"),
        ("stages: {a: {run: [count, --limit, '${inputs.bacth}']}}", "is no declared input; near: batch"),
        ("stages: {a: {run: [count, --limit, '${inputs}']}}", "does not name one input"),
        ("stages: {a: {run: [count]}, b: {run: [free, '${aa}']}}", "${aa} names no stage"),
        ("stages: {aaa: {run: [count]}, b: {run: [free], when: \"${aab} exists\"}}", "names no stage; near: aaa"),
        ("stages: {a: {run: [count], needs: [bb]}, bbb: {run: [count]}}", "needs bb, which is no stage; near: bbb"),
        ("stages: {a: {run: [count], on-failure: ask}}", "on-failure of a names ask, which is no stage"),
        ("stages: {a: {run: [free, '${failed.err}']}}", "stands in a stage that handles no failure"),
        ("stages: {a: {run: [count], on-failure: h}, h: {run: [free, '${failed.x}']}}", "is none of stage, class, err"),
        ("stages: {a: {run: [free], on-failure: h, needs: [h]}, h: {run: [free]}}", "a waits for h, which runs"),
        ("stages: {a: {run: [count], on-failure: a}}", "a waits for a, which runs only when"),
        ("stages: {a: {run: [count], needs: [a?]}}", "a waits for a"),
        ("stages: {a: {run: [count], as: x}, b: {run: [count], as: x}}", "several stages are kept as x"),
        ("stages: {a: {run: [count], as: b}, b: {run: [count]}}", "kept as b, which is another stage"),
        ("stages: {a: {run: [count], as: x}}\nmerge: {x: apend}", "no known reducer; near: append"),
        ("stages: {a: {run: [count], as: x}}\nmerge: {x: union}", "no known reducer"),
        ("stages: {a: {run: [count], as: xxx}}\nmerge: {xxy: one}", "no stage is kept; near: xxx"),
    ],
)
def test_bad_pipelines_say_what_is_wrong(tmp_path: Path, stages: str, said: str) -> None:
    assert said in problem(tmp_path, stages)


def test_a_cycle_over_all_kinds_of_edges_in_waiting_order(tmp_path: Path) -> None:
    stages = """\
stages:
  z: {run: [count]}
  b: {run: [free, "${c}"]}
  a: {run: [free], needs: [b]}
  c: {run: [free], when: "${a} exists"}
"""
    assert problems(tmp_path, stages) == [(6, "b waits for c waits for a waits for b")]


def test_a_handler_waits_for_the_stage_it_handles(tmp_path: Path) -> None:
    stages = """\
stages:
  a: {run: [free], on-failure: h, needs: [b]}
  h: {run: [free]}
  b: {run: [free], needs: [h?]}
"""
    assert problems(tmp_path, stages) == [(5, "a waits for b waits for h waits for a")]


def test_what_is_only_known_later_is_not_complained_of(tmp_path: Path) -> None:
    stages = """\
stages:
  a: {run: [search-logs, "--batch=${inputs.batch}"]}
  b: {run: [count, --limit, "${a.n}"]}
  c: {run: [find-owner, --batch, x, --problem, "${a.why}"]}
  d: {run: [oncall-triage, "${a}", --anything]}
  e: {run: [free, --anything, "costs $5 and $HOME"]}
"""
    assert problems(tmp_path, stages) == []


def test_shared_names_and_reducers(tmp_path: Path) -> None:
    stages = """\
stages:
  a: {run: [free], as: rows}
  b: {run: [free], as: rows}
  c: {run: [free, "${rows}"]}
  d: {run: [free], as: other}
merge: {rows: {union: id}, other: last}
"""
    assert problems(tmp_path, stages) == []
    made, _ = pipeline(tmp_path, stages)
    assert made.merge == {"rows": Reducer("union", "id"), "other": Reducer("last")}
    assert [stage.name for stage in made.sharing("rows")] == ["a", "b"]
    assert edges(made, made.stages[2]) == (("a", True), ("b", True))
    assert pipeline(tmp_path, stages.replace("{union: id}", '"union: id"'))[0].merge == made.merge


def test_a_pipeline_of_thousands_of_stages_is_read(tmp_path: Path) -> None:
    lines = [f"  s{n}: {{run: [free], needs: [s{n + 1}]}}" for n in range(1200)]
    assert problems(tmp_path, "\n".join(["stages:", *lines, "  s1200: {run: [free]}"])) == []


def lookup(values: dict[str, object]) -> Lookup:
    return lambda ref: field(values.get(ref.root, MISSING), ref.path) if ref.root in values else MISSING


VALUES = lookup({
    "inputs": {"batch": "B-42", "tags": ("x", "y"), "n": 3},
    "a": {"pod": "p 1", "n": 1.5, "ok": True, "none": None, "list": ["a", {"b": 1}], "empty": [], "deep": [{"x": "y"}]},
    "out": "whole\ntext",
})  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("plain", ["plain"]),
        ("", [""]),
        ("$HOME ${inputs.batch}: ${a.pod}", ["$HOME B-42: p 1"]),
        ("${out}", ["whole\ntext"]),
        ("${a.n}", ["1.5"]),
        ("${a.ok}${a.none}", ["truenull"]),
        ("${a.list}", ["a", '{"b": 1}']),
        ("${inputs.tags}", ["x", "y"]),
        ("tags=${inputs.tags}", ['tags=["x", "y"]']),
        ("${a.empty}", []),
        ("${a.deep.0.x}", ["y"]),
    ],
)
def test_binding_words(text: str, words: list[str]) -> None:
    assert bind(read_word(text), VALUES) == words


def test_binding_what_is_not_there_says_which() -> None:
    with pytest.raises(Unbound) as raised:
        bind(read_word("x${a.gone.too}"), VALUES)
    assert raised.value.ref == Ref("a", ("gone", "too"))


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("${a.pod} == 'p 1'", True),
        ("${a.pod}=='other'", False),
        ("${a.ok} == 'true'", True),
        ("${inputs.n} != '3'", False),
        ("${inputs.n} in ['2', '3']", True),
        ("${inputs.n} in ['2']", False),
        ("${a.gone} == 'x'", False),
        ("${a.gone} == 'null'", False),
        ("${a.none} == 'null'", True),
        ("${a.gone} != 'x'", True),
        ("${a.gone} in ['x']", False),
        ("${a.gone} exists", False),
        ("${gone} exists", False),
        ("${a.none} exists", True),
    ],
)
def test_comparisons(text: str, true: bool) -> None:
    assert holds(read_when(text), VALUES) is true


@pytest.mark.parametrize(
    "text",
    ["", "${a} = 'x'", "${a}", "a == 'x'", "${a} == x", "${a} == 'x' and ${b} == 'y'", "${a} in []", "${a} in 'x'",
     "${a} exist", "not ${a} exists", "${a} == ${b}", "${A} == 'x'", "${a} ==  'x"],
)  # fmt: skip
def test_anything_but_one_comparison_is_refused(text: str) -> None:
    with pytest.raises(BadExpression):
        read_when(text)


@settings(deadline=None)
@given(st.text(alphabet="${}ab.- '=!in[],exists"))
def test_any_text_is_a_word_or_is_refused(text: str) -> None:
    try:
        word = read_word(text)
    except BadExpression:
        assert "${" in text
        return
    assert "".join(part if isinstance(part, str) else part.text() for part in word.parts) == text


@settings(deadline=None)
@given(data=st.binary(max_size=60) | st.text(alphabet="stages: {run[]}abneds?,\n'\"-&*", max_size=60).map(str.encode))
def test_any_bytes_below_the_header_are_read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any-pipeline"
    path.write_bytes(HEAD.encode() + data)
    tool = read_tool(path, "any")
    made = read_pipeline(tool)
    assert made.stages or made.findings
    for finding in check_pipeline(made, tool, resolve):
        assert finding.fix and "\n" not in finding.text()
