"""How do others change topics, and whatever else a term reads, while somebody follows them? One valid write after the
other, drawn from a random source."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.simulation.zookeeper import MakeNode, Operation, RemoveNode, SetData, ZooKeeper
from zk_layout import catalog
from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionId, TopicName
from zk_layout.znodes import brokers, notifications, replica_deletions
from zk_layout.znodes.admin import DELETE_TOPICS
from zk_layout.znodes.brokers import Endpoint, Registration
from zk_layout.znodes.notifications import IsrChangeAddress
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, PartitionState, StateAddress
from zk_layout.znodes.pause import PauseAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletions
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

NAMES = tuple(map(TopicName, ("a", "b", "c", "d", "e")))
MOST_PARTITIONS = 4
BROKERS = (1, 2, 3, 4)
OWED = replica_deletions.encode(ReplicaDeletions({PartitionId(0): (BrokerId(3),)}))
NO_CHANGE = b'{"version":1,"partitions":[]}'


class Changes:
    """Writes for the tree as it is; each call of `next` gives the operations of one transaction."""

    def __init__(self, random: Random, zookeeper: ZooKeeper) -> None:
        self._random = random
        self._nodes = zookeeper.nodes

    def next(self) -> list[Operation]:
        """The next write."""
        kinds: list[tuple[int, Callable[[], list[Operation]]]] = [
            (8, self._set_state),
            (3, self._make_state),
            (1, self._drop_state),
            (3, self._make_topic),
            (2, self._drop_topic),
            (2, self._replace_topic),
            (3, self._set_topic),
            (1, self._spoil),
            (2, self._elsewhere),
        ]
        while True:
            (kind,) = self._random.choices([act for _, act in kinds], [weight for weight, _ in kinds])
            if made := kind():
                return made

    def topics(self) -> list[TopicName]:
        """The topics that exist."""
        return [name for name in NAMES if TopicAddress(name).path in self._nodes]

    def _states(self) -> list[StateAddress]:
        numbers = range(MOST_PARTITIONS)
        found = [StateAddress(name, PartitionId(number)) for name in self.topics() for number in numbers]
        return [address for address in found if address.path in self._nodes]

    def _assignment(self) -> Assignment:
        return Assignment(tuple(map(BrokerId, self._random.sample(BROKERS, 2))))

    def _topic(self, partitions: int) -> bytes:
        return catalog.encode(Topic({PartitionId(number): self._assignment() for number in range(partitions)}))

    def _state(self) -> bytes:
        leader, epoch = self._random.choice(BROKERS), self._random.randint(0, 9)
        state = PartitionState(BrokerId(leader), LeaderEpoch(epoch), ControllerEpoch(epoch), (BrokerId(leader),))
        return catalog.encode(state)

    def _set_state(self) -> list[Operation]:
        states = self._states()
        return [SetData(self._random.choice(states).path, self._state())] if states else []

    def _make_state(self) -> list[Operation]:
        for name in self._random.sample(self.topics(), len(self.topics())):
            for number in range(self._random.randint(1, MOST_PARTITIONS)):
                at = StateAddress(name, PartitionId(number)).path
                if at not in self._nodes:
                    above = (PartitionsAddress(name).path, PartitionAddress(name, PartitionId(number)).path)
                    missing: list[Operation] = [MakeNode(path) for path in above if path not in self._nodes]
                    return [*missing, MakeNode(at, self._state())]
        return []

    def _drop_state(self) -> list[Operation]:
        states = self._states()
        return [RemoveNode(self._random.choice(states).path)] if states else []

    def _make_topic(self) -> list[Operation]:
        missing = [name for name in NAMES if name not in self.topics()]
        return self._made(self._random.choice(missing)) if missing else []

    def _made(self, name: TopicName) -> list[Operation]:
        partitions = self._random.randint(1, MOST_PARTITIONS)
        made: list[Operation] = [MakeNode(TopicAddress(name).path, self._topic(partitions))]
        if self._random.random() < 0.5:  # else its states come later
            made.append(MakeNode(PartitionsAddress(name).path))
            for number in map(PartitionId, range(partitions)):
                made.append(MakeNode(PartitionAddress(name, number).path))
                made.append(MakeNode(StateAddress(name, number).path, self._state()))
        return made

    def _drop_topic(self) -> list[Operation]:
        return self._dropped(self._random.choice(self.topics())) if self.topics() else []

    def _dropped(self, name: TopicName) -> list[Operation]:
        root = TopicAddress(name).path
        return [RemoveNode(path) for path in sorted(self._nodes, reverse=True) if (path + "/").startswith(root + "/")]

    def _replace_topic(self) -> list[Operation]:
        if not self.topics():
            return []
        name = self._random.choice(self.topics())
        return [*self._dropped(name), *self._made(name)]

    def _set_topic(self) -> list[Operation]:
        if not self.topics():
            return []
        at = TopicAddress(self._random.choice(self.topics())).path
        return [SetData(at, self._topic(self._random.randint(1, MOST_PARTITIONS)))]

    def _spoil(self) -> list[Operation]:
        """A state, or sometimes a topic, gets content that cannot be read."""
        states = self._states()
        if self.topics() and self._random.random() < 0.4:
            return [SetData(TopicAddress(self._random.choice(self.topics())).path, b"{")]
        return [SetData(self._random.choice(states).path, b"{")] if states else []

    def _elsewhere(self) -> list[Operation]:
        """Something else than topics: it comes, changes or goes."""
        broker = BrokerId(self._random.choice(BROKERS))
        registration = Registration((Endpoint("PLAINTEXT", "127.0.0.1", self._random.randint(9000, 9009)),))
        path, data = self._random.choice(
            [
                (f"{brokers.ROOT}/{broker}", catalog.encode(registration)),
                (f"{DELETE_TOPICS}/{self._random.choice(NAMES)}", b""),
                (
                    f"{replica_deletions.ROOT}/{self._random.choice(NAMES)}",
                    b'{"version":1,"topic_id":null,"replicas":{"0":[3]}}',
                ),
                (
                    IsrChangeAddress(f"isr_change_{self._random.randint(0, 3):010d}").path,
                    b'{"version":1,"partitions":[]}',
                ),
                (f"{notifications.CONFIG_CHANGES}/config_change_{self._random.randint(0, 3):010d}", b"{}"),
                (PauseAddress.path, b"{}"),
            ]
        )
        if path not in self._nodes:
            return [MakeNode(path, data)]
        return [RemoveNode(path) if self._random.random() < 0.5 else SetData(path, data)]
