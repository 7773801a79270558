"""Stories with expected output: commands above each `----`, everything observable below."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.play import play

STORIES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_written(path: Path, request: pytest.FixtureRequest) -> None:
    written = path.read_text()

    played = play(written)

    if request.config.getoption("--rewrite", default=False):
        path.write_text(played)
    else:
        assert played == written


def test_there_are_stories() -> None:
    assert STORIES
