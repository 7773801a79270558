"""What does the HTTP server show of a term, whose figures others only measure?"""

from __future__ import annotations

import asyncio

from controller.core.machine import Machine
from controller.core.messages.events import Observed
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.monitoring.monitoring import Monitoring
from tests.unit.core.builders import EPOCH, OWN, registration
from tests.unit.core.test_intake import LOADED
from zk_layout.ids import BrokerId


def test_a_term_that_serves_shows_its_figures_at_once() -> None:
    machine = Machine(MachineSettings(own_id=OWN), EPOCH, SeededRandom(b"0"))

    async def scenario() -> None:
        monitoring = Monitoring(lambda key: f"api {key}")
        monitoring.term_began(EPOCH, machine)
        monitoring.take_gauges()
        assert monitoring.recorder.value("live_brokers") == 0.0

        machine.turn([Observed((registration(BrokerId(1)), registration(BrokerId(2)))), *LOADED], 0.0)
        monitoring.take_gauges()
        assert monitoring.recorder.value("live_brokers") == 2.0
        monitoring.stop()

    asyncio.run(scenario())


def test_what_is_set_aside_is_shown_while_the_term_lasts() -> None:
    machine = Machine(MachineSettings(own_id=OWN), EPOCH, SeededRandom(b"0"))
    machine.turn(LOADED, 0.0)
    machine._quarantine._reasons["topic a"] = "why"

    async def scenario() -> None:
        monitoring = Monitoring(lambda key: f"api {key}")
        monitoring.term_began(EPOCH, machine)
        monitoring.start()
        await asyncio.sleep(0.05)
        assert list(monitoring.set_aside) == ["topic a: why"]
        assert monitoring.recorder.value("set_aside") == 1.0

        monitoring.term_ended()
        assert list(monitoring.set_aside) == []
        assert monitoring.recorder.value("set_aside") == 0.0
        monitoring.stop()

    asyncio.run(scenario())
