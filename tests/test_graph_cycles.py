"""A circle of waiting is always named, whatever else the graph holds, and the run never starts."""

from __future__ import annotations

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import HarnessError
from tests.loop_world import Project, finish

TOOLS = [f"t{n}" for n in range(6)]
FORMS = st.sampled_from(["{}", "| {}", "{}?"])
EDGES = st.lists(st.tuples(st.sampled_from(TOOLS), st.sampled_from(TOOLS), FORMS), min_size=1, max_size=10)


def has_cycle(edges: list[tuple[str, str, str]]) -> bool:
    """By taking away what waits for nothing, until nothing more can be taken."""
    left = {(target, need) for target, need, _ in edges}
    while left:
        waiting = {target for target, _ in left}
        kept = {edge for edge in left if edge[1] in waiting}
        if kept == left:
            return True
        left = kept
    return False


@settings(max_examples=60, deadline=None)
@given(EDGES)
def test_a_cycle_of_any_edges_is_named_before_anything_starts(edges: list[tuple[str, str, str]]) -> None:
    with TemporaryDirectory() as folder:
        project = Project(Path(folder))
        for name in TOOLS:
            project.tool(name)
        project.skill(tools=" ".join(TOOLS), deps="\n".join(f"{t}: {form.format(n)}" for t, n, form in edges))
        if not has_cycle(edges):
            assert project.run([finish()]).stop.name == "passed"
            return
        with pytest.raises(HarnessError) as caught:
            project.run([finish()])
        assert caught.value.exit_code == 2
        assert "cycle" in caught.value.message or "waits for itself" in caught.value.message
        if " cycle " in caught.value.message:
            named = caught.value.message.split(" cycle ")[1].split(" (and ")[0].split(" waits for ")
            ring = [words.split()[0].strip(",;:") for words in named]
            assert ring[0] == ring[-1] and len(ring) > 2
            known = {(target, need) for target, need, _ in edges}
            assert all(pair in known for pair in itertools.pairwise(ring))
        assert project.io.spawned == [] and not list((project.path / ".harness").rglob("events.jsonl"))
