"""Does the process of simulated worlds still have all the parts of a real one?"""

from __future__ import annotations

from tests.simulation.world import World


def test_a_world_runs_to_its_end() -> None:
    World(1).run()
