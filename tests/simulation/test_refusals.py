"""The checker knows how often a controller may try again what ZooKeeper refuses."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.simulation.broken import Broken
from tests.simulation.refusals import MOST_REFUSED
from tests.simulation.world import World
from tests.simulation.zookeeper import MakeNode
from zk_layout.ids import SessionId


@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("is_sequential", [False, True])
def test_each_znode_in_a_sequence_is_another(topics: int, *, is_sequential: bool) -> None:
    refused = World(0).zookeeper.on_no_auth

    with (
        nullcontext() if is_sequential and topics > 1 else pytest.raises(Broken, match=f"refused {MOST_REFUSED} times")
    ):
        for number in range(MOST_REFUSED):
            change = MakeNode("/config/changes/x", b"topics/%d" % (number % topics), is_sequential=is_sequential)
            refused(SessionId(1), change)
