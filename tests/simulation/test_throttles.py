"""The checker knows which throttles may be left when a world ends."""

from __future__ import annotations

import pytest

from tests.simulation.refusals import Concern, Right
from tests.simulation.world import World
from tests.simulation.zookeeper import MakeNode, Permission
from zk_layout.ids import TopicName
from zk_layout.znodes.configs import TopicConfigAddress
from zk_layout.znodes.throttles import ThrottledTopic, ThrottledTopicAddress, encode_topic

ORDERS = TopicName("orders")


@pytest.mark.parametrize("is_hidden", [True, False])
def test_a_topic_stays_throttled_only_where_its_settings_may_not_be_read(*, is_hidden: bool) -> None:
    world, settings = World(1), TopicConfigAddress(ORDERS).path
    world.write_at_once(MakeNode(settings, b'{"version":1,"config":{}}'))
    left = encode_topic(ThrottledTopic(None, {"0:4": 1000000}))
    world.write_at_once(MakeNode(ThrottledTopicAddress(ORDERS).path, left))
    world.refusals._left = (Right(settings, Permission.READ, ORDERS, None, Concern.THROTTLING),)
    if is_hidden:
        world.zookeeper.acls[settings] = Permission.ALL & ~Permission.READ

    seen = world.throttles.outcome()

    assert seen == (None if is_hidden else "still throttled, though nothing is copied: [(0, 4)] of orders")
