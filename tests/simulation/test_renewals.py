"""Terms are renewed during other work, because brokers have another protocol."""

from __future__ import annotations

import pytest

from tests.simulation.world import World

pytestmark = pytest.mark.simulation

EVERY_S = 4.0
TIMES = 15


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_term_that_is_renewed_again_and_again_keeps_every_promise(seed: int) -> None:
    world = World(seed)
    renewed: list[bool] = []

    def renew() -> None:
        if (leader := world.leading()) is not None:
            renewed.append(True)
            leader.renew()

    for number in range(1, TIMES + 1):
        world.clock.after(number * EVERY_S, renew)

    world.run()

    assert renewed
