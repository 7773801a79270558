"""Each mistake of the catalogue is still possible in today's sources, and the tests that should notice it exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
AT_LEAST = 60


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mistake_can_still_be_made(mutant: Mutant) -> None:
    source = (ROOT / mutant.path).read_text()

    assert source.count(mutant.old) == 1
    assert mutant.applied_to(source) != source
    compile(mutant.applied_to(source), mutant.path, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_should_notice_it_is_there(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        path, _, function = test.partition("::")
        function, _, story = function.rstrip("]").partition("[")
        assert f"def {function}" in (ROOT / path).read_text()
        assert "scenarios" not in path or (ROOT / path).with_name(f"{story}.txt").exists()


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    names = [mutant.name for mutant in MUTANTS]

    assert len(set(names)) == len(names)
    assert sum(not mutant.unseen for mutant in MUTANTS) >= AT_LEAST
