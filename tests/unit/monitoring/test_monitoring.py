"""What does the HTTP server show of a term, whose figures others only measure?"""

from __future__ import annotations

import asyncio
from importlib import metadata

import msgspec
import pytest

from controller.core.candidacy.migrating import MigrationPhase
from controller.core.candidacy.phases import Phase
from controller.core.machine import Machine
from controller.core.messages.effects import NOTICE_KINDS
from controller.core.messages.events import Observed
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.http.status import Status
from controller.monitoring.monitoring import LinkMeasures, Monitoring
from controller.wire.apis import api_name
from metrics.measures import MEASURES, PREFIX, Kind
from metrics.recorder import Recorder
from tests.unit.core.builders import EPOCH, OWN, registration
from tests.unit.core.test_intake import LOADED
from tests.unit.http.serving import LEADING, LOADING, STANDBY
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


def test_every_counter_begins_at_zero_for_each_value_that_its_labels_can_have() -> None:
    """Else the first event is no increase: its series has no value before."""
    recorder = Monitoring(api_name, listeners=["INSIDE", "OUTSIDE"]).recorder
    later = {"broker_request_bytes", "broker_delivery_retries", "part_failures"}
    shown = {
        metric.name.removeprefix(PREFIX): {tuple(sample.labels.values()): sample.value for sample in metric.samples}
        for metric in recorder.registry.collect()
    }

    counters = [measure for measure in MEASURES if measure.kind is Kind.COUNTER]
    assert [m.name for m in counters if set(shown[m.name].values()) != {0.0}] == [
        m.name for m in counters if m.name in later
    ]
    assert {(kind,) for kind in NOTICE_KINDS} == shown["notices"].keys()
    assert ("committed",) in shown["zookeeper_transactions"]
    assert ("State",) in shown["zookeeper_writes"]
    assert ("StopReplica",) in shown["broker_commands"]
    assert ("failed login",) in shown["clients_disconnected"]
    assert ("CreateTopics",) in shown["requests_throttled"]
    assert ("AlterPartitionReassignments (45)", "OUTSIDE") in shown["requests"]


def test_the_counters_of_a_broker_begin_with_its_first_command() -> None:
    recorder = Recorder()

    LinkMeasures(recorder).depth_changed(BrokerId(3), 1)

    for name in ("kafka_zk_controller_broker_delivery_retries_total", "kafka_zk_controller_broker_request_bytes_total"):
        assert recorder.registry.get_sample_value(name, {"broker": "3"}) == 0


def test_a_part_that_never_failed_has_failed_zero_times() -> None:
    async def scenario() -> None:
        monitoring = Monitoring(api_name)
        monitoring.troubles.expect("announcing")
        await monitoring._beat()
        name = "kafka_zk_controller_part_failures_total"
        assert monitoring.recorder.registry.get_sample_value(name, {"part": "announcing"}) == 0

        monitoring.troubles.wrong("announcing", "what", "why")
        await monitoring._beat()
        assert monitoring.recorder.registry.get_sample_value(name, {"part": "announcing"}) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("phase", MigrationPhase)
def test_the_phase_of_a_migration_is_shown(phase: MigrationPhase) -> None:
    async def scenario() -> None:
        monitoring = Monitoring(api_name)
        monitoring.status = lambda: msgspec.structs.replace(STANDBY, migration=phase.value)
        await monitoring._beat()

        value = monitoring.recorder.value
        assert [one for one in MigrationPhase if value("migration_phase", (one.value,))] == [phase]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("status", "is_ready", "is_released"),
    [
        (STANDBY, 1, 0),
        (LOADING, 0, 0),
        (msgspec.structs.replace(STANDBY, is_released=True, reason="released"), 1, 1),
        (msgspec.structs.replace(STANDBY, is_paused=True, paused_since=1_700_000_000.5), 1, 0),
    ],
)
def test_phase_readiness_and_release_are_shown(status: Status, is_ready: int, is_released: int) -> None:
    async def scenario() -> None:
        monitoring = Monitoring(api_name)
        monitoring.status = lambda: LEADING
        await monitoring._beat()
        monitoring.status = lambda: status
        await monitoring._beat()

        value = monitoring.recorder.value
        assert (value("is_ready"), value("released")) == (is_ready, is_released)
        assert value("paused_timestamp_seconds") == status.paused_since
        assert [phase.value for phase in Phase if value("phase", (phase.value,))] == [status.phase]

    asyncio.run(scenario())


def test_the_versions_are_shown() -> None:
    found = [
        metric for metric in Monitoring(api_name).recorder.registry.collect() if metric.name.endswith("build_info")
    ]

    assert [(set(sample.labels), sample.value) for sample in found[0].samples] == [({"version", "python"}, 1.0)]
    assert found[0].samples[0].labels["version"] == metadata.version("kafka-zk-controller")


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
