"""The checker knows which rates may be set, and which throttles may be left when a world ends."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.simulation.broken import Broken
from tests.simulation.refusals import Concern, Right
from tests.simulation.world import World
from tests.simulation.zookeeper import MakeNode, Permission
from zk_layout import catalog
from zk_layout.ids import BrokerId, TopicName
from zk_layout.znodes.configs import BrokerConfigAddress, Config, TopicConfigAddress
from zk_layout.znodes.throttles import FOLLOWER_RATE, ThrottledTopic, ThrottledTopicAddress, encode_topic

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


@pytest.mark.parametrize(
    ("rate", "is_kept"), [(299_999, False), (300_000, True), (2_000_000, True), (2_000_001, False)]
)
def test_a_rate_is_between_the_least_and_the_highest_that_was_asked_for(rate: int, *, is_kept: bool) -> None:
    world, address = World(4), BrokerConfigAddress(BrokerId(1))
    world.throttles.least, world.throttles._most = 300_000, 2_000_000
    config = Config({FOLLOWER_RATE: str(rate)})
    world.write_at_once(MakeNode(address.path, catalog.encode(config)))

    with nullcontext() if is_kept else pytest.raises(Broken, match=f"{rate} is not between 300000 and 2000000"):
        world.throttles._changed(address, is_ours=True)
