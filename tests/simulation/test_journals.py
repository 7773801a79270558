"""Whole histories are decided alike in other processes, with other hash seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.journals import RecordedWorld

pytestmark = pytest.mark.simulation

SEEDS = range(100, 114)


def test_what_a_controller_saw_leads_to_the_same_effects_whatever_the_hash_seed(tmp_path: Path) -> None:
    every = [RecordedWorld(seed, tmp_path) for seed in SEEDS]
    worlds = [world for world in every if not world.plan.is_long]  # more of the same, and it takes minutes
    for world in worlds:
        world.run()
    turns = [machine.turns for world in worlds for machine in world.machines]
    command = [sys.executable, "-m", "tests.simulation.journals", str(tmp_path)]
    processes = [
        subprocess.Popen(command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, stdout=subprocess.PIPE, text=True)
        for hash_seed in ("1", "2")
    ]

    for process in processes:
        output, _ = process.communicate(timeout=300)

        assert process.returncode == 0, output
        assert output == f"{len(turns)} machines, {sum(turns)} turns, 0 differences\n"
    assert len(turns) > 2 * len(worlds)
    assert sum(turns) > 4_000
