"""The checker sees what is done wrong with `/admin/reassignments`: each of these spoils a right controller a little."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controller.core import reassignment_wishes
from controller.core.reassignment.folder import ReassignmentZnodes
from controller.core.requests import MoveWish
from controller.core.state.topics import TopicView
from controller.core.view import Cluster
from tests.simulation.checker import Broken
from tests.simulation.world import World
from zk_layout.ids import PartitionId, TopicPartition

SEEDS = 40


def is_seen(promise: str) -> bool:
    """Whether one of a few worlds with a kept folder finds this promise broken."""
    for seed in range(SEEDS):
        world = World(seed)
        if world.folder.is_kept_by_all and world.folder.keepers:
            try:
                world.run()
            except Broken as broken:
                if promise in str(broken):
                    return True
    return False


def a_cancel_too_many(topic: TopicView, numbers: set[PartitionId], cluster: Cluster) -> Iterator[MoveWish]:
    moving = cluster.moving.get(topic.name, set())
    return (MoveWish(TopicPartition(topic.name, number), None) for number in sorted(numbers & moving))


def nothing(*_: object, **__: object) -> Any:
    return ()


@pytest.mark.parametrize(
    ("owner", "part", "spoiled", "seen"),
    [
        pytest.param(reassignment_wishes, "wishes", nothing, "was forgotten", id="follows no child"),
        pytest.param(reassignment_wishes, "keep", nothing, "but what moves is", id="never writes a child"),
        pytest.param(reassignment_wishes, "_correct", nothing, "but what moves is", id="leaves its children behind"),
        pytest.param(reassignment_wishes, "wishes", a_cancel_too_many, "nobody wished", id="cancels what nobody did"),
        pytest.param(ReassignmentZnodes, "_is_homeless", lambda *_: False, "but what moves is", id="keeps strays"),
    ],
)
def test_a_controller_that(
    owner: Any, part: str, spoiled: Callable[..., Any], seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, part, spoiled)

    assert is_seen(seen)
