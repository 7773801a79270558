"""The checker knows what must be so when a world is at rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from controller.core.messages.commands import PartitionView
from tests.simulation.broken import Broken
from tests.simulation.outcome import _is_at_rest
from tests.simulation.refusals import Concern
from tests.simulation.spoiled import AT
from tests.simulation.world import World
from tests.simulation.zookeeper import MakeNode, RemoveNode, Znode
from zk_layout import catalog
from zk_layout.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
)
from zk_layout.znodes.admin import (
    TopicDeletionAddress,
)
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

OF_LEADER, FORMER = (BrokerId(1), BrokerId(2)), BrokerId(3)


def overwritten(monkeypatch: pytest.MonkeyPatch, *, may_be_put_right: bool = False, is_edited: bool = True) -> World:
    """A world in which the replicas in a topic's znode may not be put right."""
    world = World(0)
    if is_edited:
        world.checker.edited[AT] = None
    monkeypatch.setattr(
        world.refusals, "excuses", lambda _, concern: not may_be_put_right and concern is Concern.MOVING
    )
    return world


def at_rest(world: World, *, told: tuple[BrokerId, ...] = OF_LEADER) -> None:
    """Check a partition led by 1, with 2 in sync, whose topic's znode says 3 and 1, as it did before a move.

    Shape:
        `told` are the replicas that the leader was sent.
    """
    leader, partition = OF_LEADER[0], StateAddress(AT.topic, AT.partition).path
    state = PartitionState(leader, LeaderEpoch(6), ControllerEpoch(1), OF_LEADER)
    assignment = Assignment((FORMER, leader))
    world.checker.states[AT], world.checker.topics[AT.topic] = state, Topic({AT.partition: assignment})
    world.zookeeper.nodes[partition] = Znode(b"", 1, 0)
    view = PartitionView(
        AT.topic, None, AT.partition, ControllerEpoch(1), leader, LeaderEpoch(6), OF_LEADER, PartitionEpoch(0), 0, told
    )
    live: dict[BrokerId, Any] = {
        broker: SimpleNamespace(
            cache={AT: view},
            replicas={AT: SimpleNamespace(view=view)} if broker in OF_LEADER else {},
            disk={AT: None},
            is_offline=lambda _: False,
            leads=lambda _, broker=broker: broker == leader,
        )
        for broker in (*OF_LEADER, FORMER)
    }
    _is_at_rest(world, AT, assignment, live)


def test_what_was_written_over_a_topic_and_may_not_be_put_right_says_nothing_about_who_has_to_be_in_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_rest(overwritten(monkeypatch))

    with pytest.raises(Broken, match=r"live replicas \[3\]"):  # whoever the leader was sent has to
        at_rest(overwritten(monkeypatch), told=(*OF_LEADER, FORMER))


@pytest.mark.parametrize("case", [{"may_be_put_right": True}, {"is_edited": False}])
def test_a_replica_that_is_not_in_sync_is_seen_where_nothing_prevents_that_its_leader_knows_it(
    case: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Broken, match=r"live replicas \[3\]"):
        at_rest(overwritten(monkeypatch, **case))


def test_a_topic_is_led_unless_the_age_of_the_request_to_delete_it_may_not_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, request, assignment = World(0), TopicDeletionAddress(AT.topic).path, Assignment((BrokerId(1),))
    session, live = (
        world.zookeeper.open_session(),
        {BrokerId(1): cast(Any, SimpleNamespace(is_offline=lambda _: False))},
    )

    def write(operation: MakeNode | RemoveNode) -> None:
        world.zookeeper.multi(session, [operation])
        world.checker.after_step()

    write(MakeNode(request))
    write(MakeNode(TopicAddress(AT.topic).path, catalog.encode(Topic({AT.partition: assignment}))))
    rights = world.refusals._rights_of(AT.topic, AT.partition)
    monkeypatch.setattr(world.refusals, "_of_some_topic", lambda: tuple(r for r in rights if r.path == request))
    monkeypatch.setattr("tests.simulation.refusals.LEFT_FOR_GOOD", 1.0)
    world.refusals.heal()
    _is_at_rest(world, AT, assignment, live)

    write(RemoveNode(request))
    with pytest.raises(Broken, match="never given a leader"):
        _is_at_rest(world, AT, assignment, live)
