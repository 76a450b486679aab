from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.tools import EnvVar, Tool
from harness.tools.block import MAX_BYTES
from harness.tools.header import read_tool

SEARCH_LOGS = """\
@describe Log lines of one service, newest first, grouped by template
@option --service! <NAME>      service to search
@option --since=2h <DURATION>  how far back
@option --request-id <ID>      one request only
@flag   --json                 machine-readable output
@meta effect read
@meta repeat pure
@meta timeout 30
@meta known --service
@meta net logs.example.org
@env  LOGS_TOKEN               a secret, by name
"""


def read(folder: Path, text: str | bytes, name: str = "tool") -> Tool:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o755)
    return read_tool(path, name, display=f"bin/{name}")


def header(folder: Path, *lines: str, leader: str = "# ") -> Tool:
    """A tool whose first line is `#!`, so that its tags begin on line 2."""
    return read(folder, "#!/bin/sh\n" + "".join(f"{leader}{line}\n" for line in lines) + "true\n")


def codes(tool: Tool) -> list[tuple[str, str, int]]:
    return [(finding.code, finding.severity, finding.line) for finding in tool.findings]


@pytest.mark.parametrize("leader", ["# ", "// ", "-- ", "; ", "#", "//"])
def test_case_1_the_example_behind_any_leader(tmp_path: Path, leader: str) -> None:
    check_search_logs(header(tmp_path, *SEARCH_LOGS.splitlines(), leader=leader))


def test_case_1_the_example_after_inline_script_metadata(tmp_path: Path) -> None:
    fence = ["/// script", 'dependencies = ["rich"]', "@option --not-ours", "///"]
    check_search_logs(header(tmp_path, *fence, *SEARCH_LOGS.splitlines()))


def check_search_logs(tool: Tool) -> None:
    assert tool.findings == ()
    assert tool.header and tool.describe.startswith("Log lines of one service")
    service, since, request, json = tool.parameters
    assert service.required and service.notation == "NAME"
    assert (since.default, since.notation) == ("2h", "DURATION")
    assert (request.required, json.kind) == (False, "flag")
    assert (tool.effect, tool.repeat, tool.timeout) == ("read", "pure", 30)
    assert (tool.known, tool.net) == (("service",), ("logs.example.org",))
    assert tool.env == (EnvVar("LOGS_TOKEN", False, False, "a secret, by name"),)


def test_case_2_tags_below_code_are_not_read(tmp_path: Path) -> None:
    tool = read(tmp_path, "set -e\n# @describe x\n# @meta effect read\n")
    assert codes(tool) == [("header-below-code", "warning", 2)]
    assert (tool.header, tool.effect) == (False, "external")


def test_case_2_the_first_tag_below_is_named_with_the_line_where_code_begins(tmp_path: Path) -> None:
    tool = read(tmp_path, "#!/bin/sh\nset -e\n\n# @describe x\n# @meta effect read\n")
    assert codes(tool) == [("header-below-code", "warning", 4)]
    assert "line 2" in tool.findings[0].message


@pytest.mark.parametrize("data", [b"\x7fELF\0\1\n# @describe x\n", b"#!/bin/sh\necho hi\n"])
def test_case_2_a_binary_and_a_script_without_comments_are_usable(tmp_path: Path, data: bytes) -> None:
    tool = read(tmp_path, data)
    assert (tool.header, tool.declared, tool.effect, tool.repeat) == (False, False, "external", "opaque")
    assert tool.findings == () and tool.describe == ""


@pytest.mark.parametrize(
    "line",
    ["@option --a~ x", "@cmd", "@alias b", "@option --a*,", "@option --a=`fn`", "@arg a[`fn`]", "@option --a $$",
     "@option --a <X> <Y>", "@arg a <X*>", "@option -a", "@flag -v say more"],
)  # fmt: skip
def test_case_2_argc_we_do_not_support_counts_as_no_header(tmp_path: Path, line: str) -> None:
    lines = ["@describe Does it", line, "@option --b!=1", "@meta timeout 2m", "@meta effect read", "@env KEY!"]
    tool = header(tmp_path, *lines)
    assert codes(tool) == [("unsupported-argc", "warning", 3)]
    assert (tool.header, tool.declared, tool.effect, tool.repeat) == (False, False, "external", "opaque")
    assert (tool.describe, tool.timeout, tool.env) == ("Does it", 120, (EnvVar("KEY", True),))


def test_without_header_the_first_plain_comment_describes(tmp_path: Path) -> None:
    tool = read(tmp_path, "#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n#\n# Counts lines.\n# More.\nimport os\n")
    assert (tool.header, tool.describe) == (False, "Counts lines.")


def test_case_3_broken_with_the_line(tmp_path: Path) -> None:
    assert codes(header(tmp_path, "@describe x", "@option --a!=1")) == [("bad-tag", "error", 3)]
    raed = header(tmp_path, "@meta effect raed")
    assert codes(raed) == [("bad-value", "error", 2)] and "near: read" in raed.findings[0].message
    assert raed.broken and raed.effect == "raed"
    knwon = header(tmp_path, "@option --a", "@meta knwon --a")
    assert codes(knwon) == [("unknown-meta", "error", 3)] and "known" in knwon.findings[0].message


def test_case_4_too_long_wrong_encoding_wrong_line_end(tmp_path: Path) -> None:
    assert codes(header(tmp_path, *["words"] * 300)) == [("header-too-long", "error", 1)]
    latin = read(tmp_path, b"#!/bin/sh\n# @describe caf\xe9\ntrue\n")
    assert codes(latin) == [("header-encoding", "error", 2)] and latin.header
    assert codes(read(tmp_path, b"#!/bin/sh\r\n# @describe x\r\ntrue\r\n")) == [("shebang-bytes", "error", 1)]
    assert codes(read(tmp_path, b"\xef\xbb\xbf#!/bin/sh\n# @describe x\n")) == [("shebang-bytes", "error", 1)]


def test_a_block_of_200_lines_is_not_too_long(tmp_path: Path) -> None:
    assert header(tmp_path, "@describe x", *["words"] * 198).findings == ()
    assert codes(header(tmp_path, "@describe x", *["words"] * 199)) == [("header-too-long", "error", 1)]


def test_a_block_over_16_kib_is_too_long_and_code_may_be(tmp_path: Path) -> None:
    wide = "# " + "w" * 200 + "\n"
    assert codes(read(tmp_path, wide * 90)) == [("header-too-long", "error", 1)]
    assert read(tmp_path, "# @describe x\n" + "echo caf\u00e9\n" * MAX_BYTES).findings == ()


def test_latin_1_below_the_block_is_the_tools_business(tmp_path: Path) -> None:
    assert read(tmp_path, b"#!/bin/sh\n# @describe x\necho caf\xe9\n").findings == ()


def test_describe_continues_until_the_next_tag(tmp_path: Path) -> None:
    tool = header(tmp_path, "@describe One", "two", "", "three", "@arg a", "four")
    assert (tool.describe, tool.long) == ("One", "two\n\nthree")


def test_describe_twice_and_unknown_tags_are_warnings(tmp_path: Path) -> None:
    tool = header(tmp_path, "@describe One", "@describe Two", "@optoin --x")
    assert codes(tool) == [("duplicate-tag", "warning", 3), ("unknown-tag", "warning", 4)]
    assert tool.describe == "One" and "near: option" in tool.findings[1].message


@pytest.mark.parametrize(
    "lines",
    [
        ["@option --a*=1"],
        ["@option --a+[=x|y]"],
        ["@option --a?"],
        ["@option --a="],
        ['@option --a="open'],
        ["@option --a=<X>"],
        ["@option --a[x|y"],
        ["@option --a[]"],
        ["@option --9"],
        ["@option service"],
        ["@option"],
        ["@arg --a"],
        ["@arg a.b"],
        ["@flag --a!"],
        ["@flag --a=1"],
        ["@flag --help"],
        ["@option --help"],
        [f"@option --{'a' * 65}"],
        ["@option --n=ten <INT>"],
        ["@option --n[1|two] <INT>"],
        ["@describe"],
        ["@env"],
        ["@env A-B"],
        ["@meta"],
    ],
)
def test_bad_tags(tmp_path: Path, lines: list[str]) -> None:
    assert codes(header(tmp_path, *lines)) == [("bad-tag", "error", 2)]


def test_bad_order_of_positional_arguments(tmp_path: Path) -> None:
    assert codes(header(tmp_path, "@arg a", "@arg b!")) == [("bad-tag", "error", 3)]
    assert codes(header(tmp_path, "@arg a*", "@arg b")) == [("bad-tag", "error", 2)]
    assert codes(header(tmp_path, "@arg a!", "@arg b", "@arg c*")) == []


def test_more_than_64_arguments(tmp_path: Path) -> None:
    assert codes(header(tmp_path, *[f"@option --a{n}" for n in range(64)])) == []
    assert codes(header(tmp_path, *[f"@option --a{n}" for n in range(65)])) == [("bad-tag", "error", 66)]


def test_names_and_letters_are_declared_once(tmp_path: Path) -> None:
    assert codes(header(tmp_path, "@option --a", "@flag --a")) == [("duplicate-name", "error", 3)]
    assert codes(header(tmp_path, "@arg a", "@option --a")) == [("duplicate-name", "error", 3)]
    assert codes(header(tmp_path, "@option -a --b", "@flag -a --c")) == [("duplicate-name", "error", 3)]


def test_the_written_forms_of_a_parameter(tmp_path: Path) -> None:
    tool = header(
        tmp_path, "@option -k --kind[=line|bar]  kind", "@flag -v --loud*  more",
        '@option --say="two words" <TEXT> said', "@option --out=chart.svg <PATH>  file <here>",
        "@option --any <lower> x", "@arg columns+ <NAME>  columns to draw",
    )  # fmt: skip
    kind, loud, say, out, any_, columns = tool.parameters
    assert (columns.kind, columns.mod, columns.notation, columns.text) == ("arg", "+", "NAME", "columns to draw")
    assert (kind.short, kind.default, kind.choices) == ("k", "line", ("line", "bar"))
    assert (loud.kind, loud.mod, loud.short, loud.text) == ("flag", "*", "v", "more")
    assert (say.default, say.notation, say.text) == ("two words", "TEXT", "said")
    assert (out.default, out.text) == ("chart.svg", "file <here>")
    assert (any_.notation, any_.text) == (None, "<lower> x")


@pytest.mark.parametrize("word", ["$host", "${host}", "${--host}", "--host=${inputs.host}"])
def test_a_query_that_would_ask_about_a_placeholder_is_refused(tmp_path: Path, word: str) -> None:
    """Its answer would be "it did not happen", and the call be made twice."""
    tool = header(tmp_path, "@option --host!", "@meta repeat queryable", f"@meta query is-drained {word}")
    [finding] = tool.findings
    assert (finding.code, finding.severity, finding.line) == ("bad-value", "error", 4)
    assert "{--option}" in finding.text()


def test_env(tmp_path: Path) -> None:
    tool = header(tmp_path, "@env PAY_TOKEN!  payment service", "@env KEY! <FILE> a key", "@env OLD=secret")
    assert tool.env == (
        EnvVar("PAY_TOKEN", True, False, "payment service"), EnvVar("KEY", True, True, "a key"), EnvVar("OLD")
    )  # fmt: skip
    assert codes(tool) == [("env-value", "warning", 4)]
    assert "secret" not in tool.findings[0].text()


def test_the_money_example(tmp_path: Path) -> None:
    tool = header(
        tmp_path, "@option --invoice! <ID>", "@option --amount! <AMOUNT>",
        "@meta effect money", "@meta repeat queryable",
        "@meta query invoice-status --invoice {--invoice} --operation {op}", "@meta amount --amount EUR",
        "@meta limit memory=4G procs=64",
    )  # fmt: skip
    assert tool.findings == ()
    assert (tool.effect, tool.repeat) == ("money", "queryable")
    assert tool.query == ("invoice-status", "--invoice", "{--invoice}", "--operation", "{op}")
    assert tool.roles == {"amount": ("--amount EUR",), "limit": ("memory=4G", "procs=64")}


def test_repeat_is_pure_if_read_else_opaque(tmp_path: Path) -> None:
    assert header(tmp_path, "@meta effect read").repeat == "pure"
    assert header(tmp_path, "@meta effect write").repeat == "opaque"
    assert header(tmp_path, "@describe x").effect_declared is False


def test_queryable_without_query_counts_as_opaque(tmp_path: Path) -> None:
    tool = header(tmp_path, "@meta effect money", "@meta repeat queryable")
    assert (codes(tool), tool.repeat) == ([("query-missing", "warning", 3)], "opaque")


@pytest.mark.parametrize(
    "meta",
    [
        "effect", "repeat often", "timeout 0.5", "timeout 25h", "timeout soon", "timeout 500ms", "known --b", "known a",
        "ttl long", "ttl -5m", "produces /etc/x", "produces a/../b", "produces {--b}", "net none a.b", "net urll",
        "net a/b", "net --b", "net {--a}", "query t", "writes --b", "dest a", "dest --b", "amount --a",
        "amount --a euro", "amount --b EUR", "limit memory=lots", "limit cpu=3",
    ],
)  # fmt: skip
def test_bad_values(tmp_path: Path, meta: str) -> None:
    assert codes(header(tmp_path, "@option --a", f"@meta {meta}")) == [("bad-value", "error", 3)]


@pytest.mark.parametrize(
    "meta",
    [
        "timeout 90", "timeout 1s", "timeout 24h", "known --a", "ttl 1d12h", "produces out/{--a}.csv", "net none",
        "net a.b:80 --a KEY", "net db:5432", "writes --a out", "dest --a", "version 1.2", "require-tools jq",
    ],
)  # fmt: skip
def test_good_values(tmp_path: Path, meta: str) -> None:
    assert header(tmp_path, "@option --a", f"@meta {meta}", "@env KEY").findings == ()


def test_meta_together(tmp_path: Path) -> None:
    assert codes(header(tmp_path, "@meta repeat pure", "@meta effect money")) == [("bad-value", "error", 2)]
    assert codes(header(tmp_path, "@meta effect read", "@meta effect write")) == [("bad-value", "error", 3)]
    assert codes(header(tmp_path, "@meta net none", "@meta net a.b")) == [("bad-value", "error", 3)]
    assert codes(header(tmp_path, "@meta colour blue")) == [("unknown-meta", "warning", 2)]
    twice = header(tmp_path, "@arg a", "@option --b", "@meta known a", "@meta known --b")
    assert (twice.findings, twice.known) == ((), ("a", "b"))


def test_a_pipeline_counts_as_read(tmp_path: Path) -> None:
    tool = read(tmp_path, "#!/usr/bin/env -S harness pipeline\n# @describe x\nstages: {}\n")
    assert (tool.pipeline, tool.effect, tool.header) == (True, "read", True)
    assert not read(tmp_path, "#!/usr/bin/env -S python3 harness pipeline\n").pipeline


def test_what_is_no_readable_file_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert codes(read_tool(tmp_path / "folder", "folder")) == [("unreadable", "error", 1)]
    assert codes(read_tool(tmp_path / "gone", "gone")) == [("unreadable", "error", 1)]


SIGNS = st.text(alphabet="@-#!*+=[]|<>`~$ \tabAB{}\"'\\", max_size=20).map(str.encode)
STARTS = [b"# @option ", b"# @meta ", b"// @arg ", b"#!/bin/sh", b"# /// script", b"# ///", b"\r", b"# @env "]
tag_soup = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from(STARTS),
        SIGNS.map(lambda text: b"# @option --a" + text),
        SIGNS.map(lambda text: b"# @meta query " + text),
    )
)


@settings(deadline=None)
@given(data=st.sampled_from([b"", b"\n"]).flatmap(lambda glue: tag_soup.map(glue.join)))
def test_any_bytes_are_read_without_raising(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(data)
    tool = read_tool(path, "any")
    for finding in tool.findings:
        assert finding.fix and finding.line >= 1 and "\n" not in finding.text()
