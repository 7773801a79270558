"""The checker notices errors with `/admin/reassignments`: each of these spoils a correct controller a little."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controller.core.messages.effects import Create, Write
from controller.core.reassignment.folder import ReassignmentFolder
from controller.core.steps.step import Step
from tests.simulation.broken import Broken
from tests.simulation.reassignment_folder import REMEMBERED_S
from tests.simulation.world import World
from zk_layout import catalog
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition
from zk_layout.znodes.admin import LegacyMove, LegacyReassignment, LegacyReassignmentAddress
from zk_layout.znodes.reassignments import Reassignment, ReassignmentAddress
from zk_layout.znodes.topics import Assignment

SEEDS = 80
RIGHT = ReassignmentFolder._kept


def is_seen(promise: str) -> bool:
    """Whether one of a few worlds with the folder finds this promise broken."""
    for seed in range(SEEDS):
        world = World(seed)
        if world.folder.is_kept_by_all and world.folder.keepers:
            try:
                world.run()
            except Broken as broken:
                if promise in str(broken):
                    return True
    return False


def a_cancel_too_many(folder: ReassignmentFolder, step: Step) -> Iterator[tuple[TopicPartition, Replicas | None]]:
    moving = folder._cluster.moving.get(step.name, {})
    return ((TopicPartition(step.name, number), None) for number in sorted(step.numbers) if number in moving)


def only_creations(folder: ReassignmentFolder, step: Step, number: PartitionId) -> Write | None:
    write = RIGHT(folder, step, number)
    return write if isinstance(write, Create) else None


@pytest.mark.parametrize("has_entry", [True, False])
def test_a_child_that_is_written_alone_stands_for_a_legacy_entry_however_long_that_has_waited(
    has_entry: bool,
) -> None:
    world, at = World(0), TopicPartition(TopicName("orders"), PartitionId(0))
    one, two = BrokerId(1), BrokerId(2)
    child, legacy = ReassignmentAddress(*at), LegacyReassignmentAddress()
    for address, value in (
        (child, Reassignment((one, two))),
        (legacy, LegacyReassignment((LegacyMove(*at, (one, two)),) if has_entry else ())),
    ):
        world.zookeeper.make_path(address.path)
        world.zookeeper.nodes[address.path].data = catalog.encode(value)

    world.folder._child_written(at, child.path, is_ours=True, is_alone=True)

    assert world.folder._children[at].is_ahead is has_entry


@pytest.mark.parametrize("was_unreadable", [True, False])
def test_a_removal_counts_for_as_long_as_its_topic_may_not_be_read(
    was_unreadable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, at = World(0), TopicPartition(TopicName("orders"), PartitionId(0))
    one, two = BrokerId(1), BrokerId(2)
    monkeypatch.setattr(world.checker, "was_unreadable_lately", lambda _: was_unreadable)
    world.folder._deleted[at] = world.clock.now
    world.clock.now += REMEMBERED_S + world.ensemble.most_s + 1.0

    moving, back = Assignment((one, two), adding=(one,)), Assignment((two,))
    assert world.folder._is_wanted(at, moving, back) is was_unreadable


@pytest.mark.parametrize("is_asked_again", [True, False])
def test_a_request_that_a_later_equal_one_follows_overrules_only_what_came_before_itself(is_asked_again: bool) -> None:
    world, at = World(0), TopicPartition(TopicName("orders"), PartitionId(0))
    one, two = BrokerId(1), BrokerId(2)
    for target in ((one,), (two,), (one,)) if is_asked_again else ((two,), (one,)):
        world.folder.wanted(at, target)
        world.clock.now += 1.0
    here = Assignment((one, two), removing=(two,))

    assert world.folder._is_wanted(at, Assignment((one, two)), here)
    assert world.folder._is_wanted(at, here, Assignment((two, one), removing=(one,))) is is_asked_again


@pytest.mark.parametrize("is_held", [True, False])
def test_a_request_that_waits_for_its_throttle_may_follow_a_later_one(is_held: bool) -> None:
    world, at = World(0), TopicPartition(TopicName("orders"), PartitionId(0))
    one, two = BrokerId(1), BrokerId(2)
    world.folder.wanted(at, (two,), is_held=is_held)
    world.clock.now += 1.0
    world.folder.wanted(at, (one,))
    here = Assignment((one, two), removing=(two,))

    assert world.folder._is_wanted(at, Assignment((one, two)), here)
    assert world.folder._is_wanted(at, here, Assignment((two, one), removing=(one,))) is is_held


@pytest.mark.parametrize(
    ("part", "spoiled", "seen"),
    [
        pytest.param("_asked_for", lambda *_: (), "was forgotten", id="follows no child"),
        pytest.param("_kept", lambda *_: None, "but what moves is", id="never writes a child"),
        pytest.param("_kept", only_creations, "but what moves is", id="leaves its children behind"),
        pytest.param("_asked_for", a_cancel_too_many, "no request moves", id="cancels without a request"),
        pytest.param("_has_no_partitions", lambda *_: False, "but what moves is", id="keeps strays"),
    ],
)
def test_a_controller_that(part: str, spoiled: Callable[..., Any], seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReassignmentFolder, part, spoiled)

    assert is_seen(seen)
