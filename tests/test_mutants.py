"""Each fault of `tests/mutants.py` can still be put in, and names tests that exist; `make torture` sees them fail."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.mutants import MUTANTS, ROOT, Mutant, mutated


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_l7_a_fault_still_applies_and_its_test_is_there(mutant: Mutant, tmp_path: Path) -> None:
    for file in {file for file, _, _ in mutant.edits}:
        to = tmp_path / "harness" / file
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / "harness" / file, to)
    mutated(mutant, tmp_path)
    for file, _, _ in mutant.edits:
        compile((tmp_path / "harness" / file).read_text(), file, "exec")
    path, _, name = mutant.killer.partition("::")
    assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text()


def test_l7_a_fault_whose_text_is_gone_is_told(tmp_path: Path) -> None:
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "x.py").write_text("a = 1\n")
    with pytest.raises(ValueError, match=r"0 times in harness/x\.py"):
        mutated(Mutant("gone", "tests/x.py::t", (("x.py", "b = 1\n", ""),)), tmp_path)
