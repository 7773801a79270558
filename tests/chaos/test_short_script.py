"""Three faults on a real cluster, always the same: nothing is lost, and the cluster recovers each time."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from controller.lab.errors import JarsUnavailable, JavaUnavailable
from tests.chaos.playing import PlaySettings, play
from tests.chaos.scripts import NOTHING, script
from tests.chaos.verdict import failures

_SEED = 1


@pytest.mark.timeout(480)
def test_the_short_script_loses_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    strikes = script("short", _SEED)
    try:
        result = play(
            PlaySettings(seed=_SEED),
            chain((NOTHING,), strikes),
            until=lambda _: False,
            directory=tmp_path,
            tell=lines.append,
        )
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    story = "\n".join(lines)
    assert failures(result) == (), story
    assert [strike.name for strike in result.strikes if not strike.skipped] == [s.name for s in (NOTHING, *strikes)]
    assert result.moves["finished"] > 0, story
    assert result.judgement.acknowledged > 1000, story
    assert (result.judgement.duplicates, result.judgement.disordered) == ((), 0)
