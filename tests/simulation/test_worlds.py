"""A fixed number of worlds keep every promise; the same seed is the same story."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.world import World

pytestmark = pytest.mark.simulation

SEEDS = 200
A_BATCH = 20


@pytest.mark.parametrize("start", range(0, SEEDS, A_BATCH))
def test_every_promise_holds_after_every_step_and_in_the_end(start: int) -> None:
    for seed in range(start, start + A_BATCH):
        world = World(seed)
        try:
            world.run()
        except Exception as error:
            story = "\n".join(world.trace.lines[-120:])
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}\n{story}")


def test_one_seed_tells_the_same_story_whatever_the_hash_seed() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--start", "7", "--seeds", "1", "--trace"]

    stories = [
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for hash_seed in ("1", "2")
    ]

    assert stories[0] == stories[1]
    assert len(stories[0].splitlines()) > 100
