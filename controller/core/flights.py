"""Which transactions are in flight, and which topics wait for them?"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from controller.core.asks import Item
from controller.core.effects import Commit, Create, Delete, Write
from controller.core.events import CommitId
from zk_layout.catalog import Address
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import PartitionId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import Topic, TopicAddress, TopicRemnantAddress


class TopicStep(Struct):
    """The step of one topic that is in flight: what it was about, and what it still waits for."""

    numbers: set[PartitionId]
    items: list[Item]
    outstanding: int = 0
    has_failed: bool = False
    unread: set[Address] = field(default_factory=set)


class _Flight(Struct, frozen=True):
    commit: Commit
    topics: tuple[TopicName, ...]


class Flights:
    """One step a topic at a time; a step may take several transactions and, if one fails, a look at the facts."""

    def __init__(self) -> None:
        """Nothing in flight."""
        self._flights: dict[CommitId, _Flight] = {}
        self._awaited: dict[Address, set[TopicName]] = {}
        self.busy: dict[TopicName, TopicStep] = {}

    @property
    def count(self) -> int:
        """How many transactions are unanswered."""
        return len(self._flights)

    def half_read(self) -> frozenset[TopicName]:
        """Topics of which only some znodes of an unanswered transaction have been read again."""
        return frozenset(name for name, step in self.busy.items() if step.unread)

    def depart(self, commit: Commit, topics: tuple[TopicName, ...]) -> None:
        """A transaction has been sent."""
        self._flights[commit.commit] = _Flight(commit, topics)
        for topic in topics:
            self.busy[topic].outstanding += 1

    def arrive(
        self, commit: CommitId, *, has_failed: bool, look_at: Iterable[Address] | None = None
    ) -> tuple[Commit, tuple[TopicName, ...], tuple[Address, ...]]:
        """A transaction was answered: itself, its topics, and what must be read before they can go on."""
        flight = self._flights.pop(commit)
        addresses = _to_read(look_at or (w.address for w in flight.commit.writes)) if has_failed else ()
        for topic in flight.topics:
            step = self.busy[topic]
            step.outstanding -= 1
            step.has_failed = step.has_failed or has_failed
            for address in addresses:
                step.unread.add(address)
                self._awaited.setdefault(address, set()).add(topic)
        return flight.commit, flight.topics, addresses

    def saw(self, address: Address) -> Iterable[TopicName]:
        """A znode was read: the topics whose step waited for it."""
        topics = self._awaited.pop(address, None)
        if topics is None:
            return ()
        for topic in topics:
            self.busy[topic].unread.discard(address)
        return sorted(topics)

    def finish(self, topic: TopicName) -> TopicStep | None:
        """The topic's step, if it has nothing left to wait for; the topic is then free."""
        step = self.busy.get(topic)
        if step is None or step.outstanding or step.unread:
            return None
        return self.busy.pop(topic)


def _to_read(addresses: Iterable[Address]) -> tuple[Address, ...]:
    """What must be read: of a topic's remnants nothing is known but what a survey of the topic finds."""
    known = (TopicAddress(a.topic) if isinstance(a, TopicRemnantAddress) else a for a in addresses)
    return tuple(dict.fromkeys(known))


def facts_of(commit: Commit, zxid: Zxid, topic_czxids: dict[TopicName, Zxid]) -> Iterable[Fact]:
    """What ZooKeeper holds now that it accepted a transaction."""
    for write in commit.writes:
        yield _fact(write, zxid, topic_czxids)
        if isinstance(write, Create) and isinstance(write.address, TopicAddress) and isinstance(write.value, Topic):
            # Nothing can be below a znode that has just been created.
            yield from (absent(StateAddress(write.address.topic, n), zxid) for n in write.value.partitions)


def _fact(write: Write, zxid: Zxid, topic_czxids: dict[TopicName, Zxid]) -> Fact:
    address = write.address
    if isinstance(write, Delete):
        return absent(address, zxid)
    if isinstance(write, Create):
        return present(address, write.value, Stat(zxid, zxid, ZnodeVersion(0)))
    czxid = topic_czxids.get(address.topic, zxid) if isinstance(address, TopicAddress) else Zxid(0)
    return present(address, write.value, Stat(czxid, zxid, ZnodeVersion(write.expected + 1)))
