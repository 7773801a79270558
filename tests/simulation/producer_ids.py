"""Who requests producer ids, and is none ever allocated twice?

Brokers ask the controller they know. Now and then one takes a block itself, as brokers before 3.0 and native
controllers do: both write the znode without checking the controller's epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import ProducerIdsAllocated, Reply
from tests.simulation.broken import Broken
from tests.simulation.network import LOST
from tests.simulation.zookeeper import SetData
from zk_layout.facts import Stat
from zk_layout.znodes import producer_ids
from zk_layout.znodes.producer_ids import BLOCK_LENGTH, ProducerIdBlock, ProducerIdBlockAddress

if TYPE_CHECKING:
    from tests.simulation.brokers import Broker
    from tests.simulation.world import World

PATH = ProducerIdBlockAddress().path
TAKES_ITSELF = 0.25


class ProducerIds:
    """Every block of ids allocated so far."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self.given: dict[int, str] = {}  # the first id of a block → to whom

    def act(self) -> None:
        """One broker needs ids."""
        up = [broker for broker in self.world.brokers.values() if broker.model is not None]
        if not up:
            return
        broker = self.random.choice(up)
        if self.random.random() < TAKES_ITSELF:
            self._take(broker)
        else:
            broker.ask_for_producer_ids(lambda reply: self._heard(broker, reply))

    def _heard(self, broker: Broker, reply: Reply | None) -> None:
        self.world.say(broker.name, f"asked for producer ids and gets {reply}")

    def _take(self, broker: Broker) -> None:
        zookeeper, session = self.world.zookeeper, broker.session

        def seen(found: Any) -> None:
            if found is LOST or found is None:
                return
            data, stat = found
            assert isinstance(stat, Stat)
            held = producer_ids.decode(data)
            first = held.last + 1 if held is not None else 0
            block = ProducerIdBlock(broker.broker, first, first + BLOCK_LENGTH - 1)
            write = SetData(PATH, producer_ids.encode(block), stat.version)
            broker.connection.call(lambda: zookeeper.multi(session, [write]), lambda done: taken(first, done))

        def taken(first: int, done: Any) -> None:
            if done is not LOST and not done.errors:
                self.world.say(broker.name, f"takes the producer ids from {first} on by itself")
                self.give(first, BLOCK_LENGTH, f"{broker.name} itself")

        broker.connection.call(lambda: zookeeper.get(session, PATH), seen)

    def answered(self, reply: ProducerIdsAllocated, by: str) -> None:
        """A controller has allocated ids to a broker, even if the answer gets lost.

        Raises:
            Broken: they are taken already, or ZooKeeper does not show them as taken.
        """
        if reply.error is ErrorCode.NONE:
            self.give(reply.first, reply.length, f"a broker by {by}")

    def give(self, first: int, length: int, whom: str) -> None:
        """These ids are in use from now on."""
        last = first + length - 1
        held = producer_ids.decode(self.world.zookeeper.nodes[PATH].data)
        if held is None or held.last < last:
            raise Broken(f"producer ids {first} to {last} were given to {whom} before ZooKeeper had them: {held}")
        for taken, by in self.given.items():
            if taken <= last and first < taken + BLOCK_LENGTH:
                raise Broken(f"producer ids {first} to {last} were given twice, to {by} and to {whom}")
        self.given[first] = whom
