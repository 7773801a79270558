"""A fixed number of worlds keep every promise; the same seed is the same story."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.simulation.world import World

pytestmark = pytest.mark.simulation

SEEDS = 200
A_BATCH = 25


@pytest.mark.parametrize("start", range(0, SEEDS, A_BATCH))
def test_every_promise_holds_after_every_step_and_in_the_end(start: int) -> None:
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        stories = [story for story in pool.map(told, range(start, start + A_BATCH)) if story]

    assert not stories, "\n\n".join(stories)


def told(seed: int) -> str | None:
    """The end of the story of a world that breaks a promise."""
    world = World(seed)
    try:
        world.run()
    except Exception as error:
        return "\n".join([f"seed {seed}: {type(error).__name__}: {error}", *world.trace.lines[-120:]])
    return None


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
