"""A replica makes way for KRaft once every broker waits for it, stays away while KRaft leads, and comes back."""

from __future__ import annotations

import pytest

from controller.core.candidacy.events import Event, Unsound, Watching
from controller.core.candidacy.migrating import MigrationPhase
from controller.preflight.brokers_protocol import REMEMBERED_S
from controller.preflight.findings import Check
from tests.simulation.zookeeper import RemoveNode
from tests.unit.preflight.world import Broker, World
from zk_layout.ids import BrokerId, PartitionId, TopicName
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim
from zk_layout.znodes.migration import Migration, MigrationAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ENABLED = {"zookeeper.metadata.migration.enable": "true"}
PROGRESS, CLAIM = MigrationAddress(), ControllerAddress()
STARTED, COPIED = Migration(3000, 5), Migration(3000, 5, 812, 5)
KRAFT = ControllerClaim(BrokerId(3000), kraft_epoch=5)
TOPIC = TopicAddress(TopicName("orders"))
SPREAD = Topic({PartitionId(0): Assignment((BrokerId(1), BrokerId(2)))})
LOOKS_WITHIN_S = 11.0


def signs(world: World) -> list[str]:
    """What the last look has warned of."""
    return [finding.text for finding in world.verdicts[-1].warnings if finding.check is Check.MIGRATION]


def test_a_replica_leads_until_the_last_broker_has_the_settings_and_makes_way_then() -> None:
    world = World().runs(Broker(settings=ENABLED), Broker()).has(STARTED, PROGRESS)

    world.passes()
    assert "not known to be set on broker 2" in signs(world)[0]
    before = len(world.emitted)
    world.restarts(2, Broker(settings=ENABLED))

    assert "every broker has zookeeper.metadata.migration.enable" in world.until(Unsound, before).reason
    assert world.claimant.migration is MigrationPhase.WAITING


def test_brokers_that_wait_for_a_quorum_that_has_not_started_are_led() -> None:
    world = World().runs(Broker(settings=ENABLED))

    assert [w for w in world.passes().warnings if w.check is Check.MIGRATION] == []
    assert world.claimant.migration is MigrationPhase.NONE


def test_a_broker_that_does_not_say_whether_it_migrates_is_led() -> None:
    world = World().runs(Broker(settings=ENABLED), Broker(is_mute=True)).has(STARTED, PROGRESS)

    world.passes()

    assert "not known to be set on broker 2" in signs(world)[0]


@pytest.mark.parametrize(("progress", "phase"), [(STARTED, "copying"), (COPIED, "dual write")])
def test_while_kraft_leads_no_replica_claims_and_after_a_roll_back_it_does(progress: Migration, phase: str) -> None:
    world = World().runs(Broker(settings=ENABLED)).has(KRAFT, CLAIM).has(progress, PROGRESS)

    assert f"a KRaft controller leads (migration phase: {phase})" in world.refusal()
    before = len(world.emitted)
    world.ensemble.write(RemoveNode(CLAIM.path), RemoveNode(PROGRESS.path))
    world.until(Watching, before)
    assert world.claimant.migration is MigrationPhase.NONE


def test_a_replica_that_may_lead_is_stopped_when_kraft_takes_over_and_looks_again_afterwards() -> None:
    world = World().runs(Broker())
    world.passes()
    before = len(world.emitted)

    world.has(KRAFT, CLAIM).has(COPIED, PROGRESS)
    world.until(Unsound, before)
    before = len(world.emitted)
    world.ensemble.write(RemoveNode(CLAIM.path), RemoveNode(PROGRESS.path))

    assert isinstance(world.until(Watching, before), Watching)


def test_what_a_leading_kraft_controller_goes_on_writing_is_no_reason_to_ask_the_brokers_again() -> None:
    world = World().runs(Broker())
    world.passes()
    before = len(world.emitted)
    world.has(KRAFT, CLAIM).has(COPIED, PROGRESS)
    world.until(Unsound, before)
    looks = len(world.verdicts)

    for offset in range(813, 816):
        world.has(Migration(3000, 5, offset, 5), PROGRESS)
        world.goes_on(LOOKS_WITHIN_S)

    assert len(world.verdicts) == looks


@pytest.mark.parametrize(
    ("data", "words"), [(None, "has left /migration behind"), (b"", "no KRaft controller can read /migration")]
)
def test_what_a_former_migration_has_left_is_warned_of_while_leading(data: bytes | None, words: str) -> None:
    world = World().runs(Broker())
    world.passes()
    assert signs(world) == []

    if data is None:
        world.has(COPIED, PROGRESS)
    else:
        world.write(PROGRESS.path, data)
    world.goes_on(LOOKS_WITHIN_S)

    assert words in signs(world)[0]
    assert not [event for event in world.emitted if isinstance(event, Unsound)]
    assert any(words in warning for warning in world.claimant.warnings)


def turns(world: World, after: int = 0) -> list[str]:
    """What the process has told since then about whether it may lead: `leads` or `makes way`, without repetitions."""
    told = ["makes way" if isinstance(e, Unsound) else "leads" for e in world.emitted[after:] if is_judgement(e)]
    return [now for before, now in zip([None, *told], told, strict=False) if now != before]


def is_judgement(event: Event) -> bool:
    """Whether the event says that it may lead, or must not."""
    return isinstance(event, Unsound | Watching)


@pytest.mark.parametrize("replicas", [(SPREAD, TOPIC), None], ids=["hosts replicas", "was seen before"])
def test_while_the_last_broker_restarts_for_the_migration_it_is_waited_for(replicas: tuple[str, bytes] | None) -> None:
    world = World().runs(Broker(settings=ENABLED), Broker()).has(STARTED, PROGRESS)
    if replicas is not None:
        world.has(*replicas)
    world.passes()
    world.goes_on(LOOKS_WITHIN_S)

    world.restarts(2, Broker(settings=ENABLED), after_s=LOOKS_WITHIN_S)
    assert turns(world) == ["leads"]
    world.goes_on(LOOKS_WITHIN_S)

    assert turns(world) == ["leads", "makes way"]


def test_a_replica_that_starts_while_the_last_broker_is_away_knows_it_from_its_replicas() -> None:
    world = World().runs(Broker(settings=ENABLED)).has(STARTED, PROGRESS).has(SPREAD, TOPIC)

    world.passes()

    assert "broker 2 is not registered" in signs(world)[0]


def test_a_replica_that_has_made_way_does_not_come_back_for_a_broker_that_restarts_once_more() -> None:
    world = World().runs(*(Broker(settings=ENABLED) for _ in range(2))).has(STARTED, PROGRESS).has(SPREAD, TOPIC)
    assert "the KRaft quorum waits for replicas of this controller" in world.refusal()

    world.restarts(2, Broker(is_mute=True, settings=ENABLED), after_s=LOOKS_WITHIN_S)
    world.goes_on(LOOKS_WITHIN_S)

    assert turns(world) == ["makes way"]


def test_a_broker_that_is_gone_for_good_and_hosts_nothing_is_not_waited_for_longer_than_a_restart_takes() -> None:
    world = World().runs(Broker(settings=ENABLED), Broker()).has(STARTED, PROGRESS)
    world.passes()
    world.goes_on(LOOKS_WITHIN_S)

    world.stops(2)
    world.goes_on(REMEMBERED_S / 2)
    assert turns(world) == ["leads"]
    world.goes_on(REMEMBERED_S)

    assert turns(world) == ["leads", "makes way"]
