"""No bytes on a listener harm more than the connection that they come over."""

from __future__ import annotations

import pytest

from tests.fuzz.frames import try_frames


@pytest.mark.parametrize("seed", [1, 2])
def test_hostile_frames_cost_only_their_own_connections(seed: int) -> None:
    tried = try_frames(seed, 1500)

    assert tried.frames == 1500
    assert tried.answered > 300
    assert tried.healthy > 10
