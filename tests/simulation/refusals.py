"""Which rights do controllers lose, for a while or for good, and what must go on nevertheless?

Rights are a znode's: they are deleted with it, and a new znode has them all. Tools, brokers and native
controllers keep theirs.
"""

from __future__ import annotations

from collections import deque
from enum import IntFlag
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from tests.simulation.broken import hold
from tests.simulation.zookeeper import MakeNode, Operation, Permission
from zk_layout.ids import PartitionId, SessionId, TopicName, TopicPartition
from zk_layout.znodes import admin, configs, notifications, producer_ids, reassignment_status, reassignments
from zk_layout.znodes import replica_deletions as debts
from zk_layout.znodes import topics as topic_znodes
from zk_layout.znodes.controller_ids import ControllerIdsAddress
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, StateAddress

if TYPE_CHECKING:
    from tests.simulation.world import World

READ_AGAIN_WITHIN_S = 65.0
READ, WRITE, CREATE, DELETE = Permission.READ, Permission.WRITE, Permission.CREATE, Permission.DELETE
CHILDREN = CREATE | DELETE
PLACES = (
    (topic_znodes.ROOT, (CREATE, DELETE)),
    ("/config/topics", (CREATE, DELETE)),
    ("/admin", (CHILDREN,)),
    (admin.DELETE_TOPICS, (READ, CREATE, DELETE)),
    (admin.LegacyReassignmentAddress().path, (READ, WRITE)),
    (admin.PreferredElectionAddress().path, (READ,)),
    (notifications.ISR_CHANGES, (READ, DELETE)),
    (notifications.LOG_DIR_EVENTS, (READ, DELETE)),
    (notifications.CONFIG_CHANGES, (READ, CREATE)),
    (producer_ids.ProducerIdBlockAddress().path, (READ, WRITE)),
    (reassignments.ROOT, (READ, CREATE, DELETE)),
    (reassignment_status.ROOT, (READ, WRITE, CREATE, DELETE)),
    (debts.ROOT, (READ, CREATE, DELETE, CHILDREN)),
    (ControllerIdsAddress().path, (READ, WRITE)),
    ("/kafka_zk_controller", (CHILDREN,)),
)
LEFT_FOR_GOOD = 0.4
MOST_REFUSED, REFUSED_WITHIN_S = 30, 10.0


class Concern(IntFlag):
    """What the controller cannot do for a partition without some right."""

    NOTHING = 0
    LEADING = 1
    MOVING = 2
    DELETING = 4
    ELECTING_UNCLEANLY = 8
    THROTTLING = 16
    ALL = 31


class Right(Struct, frozen=True):
    """The rights taken at one znode; for a topic's znode, the partitions affected."""

    path: str
    lost: Permission
    topic: TopicName | None = None
    partition: PartitionId | None = None
    concern: Concern = Concern.ALL


class Refusals:
    """The rights that controllers have lost."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self._taken: list[Right] = []
        self._ever_taken: dict[str, None] = {}
        self._left: tuple[Right, ...] = ()
        self._shown_at: dict[str, float] = {}
        self._refused_at: dict[tuple[SessionId, str, bytes], deque[float]] = {}
        world.zookeeper.on_no_auth = self._refused

    # what goes wrong

    def strike(self) -> None:
        """Take some rights at one znode, mostly a topic's, and mostly for a while only."""
        if self.world.folder.keepers and self.random.random() < 0.4:
            self._hinder_a_move()
        found = self._of_some_topic() if self.random.random() < 0.6 else ()
        for right in found or (self._of_a_place(),):
            self._take(right)
            if self.random.random() < 0.7:
                self.world.clock.after(self.random.uniform(0.5, 25.0), partial(self._give_back, right))

    def _hinder_a_move(self) -> None:
        """A child requests a move for which some znode may not be written."""
        topics = {name: topic for name, topic in self.world.checker.topics.items() if topic.partitions}
        if topics:
            name = self.random.choice(list(topics))
            at = TopicPartition(name, self.random.choice(list(topics[name].partitions)))
            path = self.random.choice((StateAddress(at.topic, at.partition).path, _path(name)))
            right = Right(path, WRITE, name, at.partition, Concern.LEADING | Concern.MOVING)
            self._take(right)
            self.world.folder.ask_for(at)
            self.world.clock.after(self.random.uniform(5.0, 20.0), partial(self._give_back, right))

    def heal(self) -> None:
        """Give all rights back; in some worlds one topic loses one for good."""
        for right in list(self._taken):
            self._give_back(right)
        if self.random.random() < LEFT_FOR_GOOD:
            self._left = self._of_some_topic()
            for right in self._left:
                self._take(right)
            self.world.clock.after(self.random.uniform(20.0, 50.0), self._restart_a_broker)

    def _restart_a_broker(self) -> None:
        """Restart a broker: a refusal for one topic must not prevent it from leaving or returning."""
        up = [broker for broker in self.world.brokers.values() if broker.is_up]
        if up:
            broker, away_s = self.random.choice(up), self.random.uniform(0.1, 10.0)
            self.random.choice((broker.shut_down, broker.crash))(away_s)

    def _take(self, right: Right) -> None:
        zookeeper = self.world.zookeeper
        if right.path in zookeeper.nodes:
            self.world.say("refusals", f"take {right.lost!r} at {right.path}")
            self._taken.append(right)
            self._ever_taken[right.path] = None
            zookeeper.acls[right.path] = zookeeper.acls.get(right.path, Permission.ALL) & ~right.lost
            if READ in right.lost:
                zookeeper.hidden.add(right.path)

    def _give_back(self, right: Right) -> None:
        zookeeper = self.world.zookeeper
        if right not in self._taken:
            return
        self._taken.remove(right)
        if right.path in zookeeper.acls:
            self.world.say("refusals", f"give {right.lost!r} back at {right.path}")
            zookeeper.acls[right.path] |= right.lost
            if READ in right.lost:
                zookeeper.hidden.discard(right.path)
                self._shown_at[right.path] = self.world.clock.now

    def take_for(self, right: Right, for_s: float) -> None:
        """Take just this right, for so long."""
        self._take(right)
        self.world.clock.after(for_s, partial(self._give_back, right))

    def _of_a_place(self) -> Right:
        nodes = self.world.zookeeper.nodes
        places = [*PLACES, *((path, (READ,)) for path in (f"/brokers/ids/{b}" for b in self.world.brokers))]
        children = [f"{parent}/{name}" for parent in _PARENTS if parent in nodes for name in nodes[parent].children]
        places += [(path, (READ, WRITE)) for path in children]
        path, choices = self.random.choice([(path, choices) for path, choices in places if path in nodes])
        return Right(path, self.random.choice(choices))

    def _of_some_topic(self) -> tuple[Right, ...]:
        topics = {name: topic for name, topic in self.world.checker.topics.items() if topic.partitions}
        if not topics:
            return ()
        name = self.random.choice(list(topics))
        number = self.random.choice(list(topics[name].partitions))
        rights = self._rights_of(name, number)
        nodes = self.world.zookeeper.nodes
        found = [right for right in rights if right.path in nodes]
        if self.random.random() < 0.2:
            below = [path for path in nodes if path == _path(name) or path.startswith(f"{_path(name)}/")]
            lost = self.random.choice((WRITE | CHILDREN, READ, READ | WRITE | CHILDREN))
            return tuple(Right(path, lost, name) for path in below)
        return (self.random.choice(found),) if found else ()

    @staticmethod
    def _rights_of(name: TopicName, number: PartitionId) -> list[Right]:
        partition, state = PartitionAddress(name, number).path, StateAddress(name, number).path
        leading, moving, deleting = Concern.LEADING, Concern.MOVING, Concern.DELETING
        of_config = Concern.ELECTING_UNCLEANLY | Concern.THROTTLING
        return [
            Right(_path(name), WRITE, name, None, moving),
            Right(_path(name), READ, name),
            Right(_path(name), CHILDREN, name),
            Right(PartitionsAddress(name).path, CHILDREN, name),
            Right(partition, CREATE, name, number, leading | moving),
            Right(partition, DELETE, name, None, deleting),
            Right(state, WRITE, name, number, leading | moving),
            Right(state, WRITE | READ, name, number),
            Right(state, READ, name, number),
            Right(configs.TopicConfigAddress(name).path, READ, name, None, deleting | of_config),
            # Which topic a request means shows its age: until that can be read, nobody leads the topic (decision 85).
            Right(admin.TopicDeletionAddress(name).path, READ, name, None, leading | moving | deleting),
            Right(debts.ReplicaDeletionsAddress(name).path, READ, name, None, moving | deleting),
            Right(debts.ReplicaDeletionsAddress(name).path, WRITE, name, None, moving | deleting),
        ]

    # what is promised

    def _refused(self, session: SessionId, operation: Operation) -> None:
        """Check that refused operations are tried again less and less often; each znode in a sequence is another."""
        now, path = self.world.clock.now, operation.path
        which = operation.data if isinstance(operation, MakeNode) and operation.is_sequential else b""
        times = self._refused_at.setdefault((session, path, which), deque(maxlen=MOST_REFUSED))
        times.append(now)
        is_soon = now - times[0] < REFUSED_WITHIN_S
        hold(
            f"{path} was refused {MOST_REFUSED} times within {REFUSED_WITHIN_S:g} s"
            if len(times) == MOST_REFUSED and is_soon
            else None
        )

    @property
    def is_something_left(self) -> bool:
        """Whether some right of a topic is gone for good: a request that names it may wait for ever."""
        return bool(self._left)

    def excuse(self, topic: TopicName, partition: PartitionId | None = None) -> Concern:
        """The promises that do not hold for a topic, or for one of its partitions."""
        concern = Concern.MOVING | Concern.DELETING if self.world.sizes.is_too_large(topic) else Concern.NOTHING
        for right in self._left:
            is_lost = self.world.zookeeper.acls.get(right.path, Permission.ALL) & right.lost != right.lost
            if is_lost and right.topic == topic and (partition is None or right.partition in (None, partition)):
                concern |= right.concern
        return concern

    def ever_took(self, path: str) -> bool:
        """Whether any right at a znode was ever taken."""
        return path in self._ever_taken

    def hid_lately(self, path: str) -> bool:
        """Whether a controller may not have read a znode since it regained the right: it waits up to a minute."""
        shown_at = self._shown_at.get(path)
        is_recent = shown_at is not None and self.world.clock.now - shown_at < READ_AGAIN_WITHIN_S
        return path in self.world.zookeeper.hidden or is_recent

    def hides(self, at: TopicPartition) -> bool:
        """Whether controllers may not read a partition's state, or its topic, now."""
        acls, paths = self.world.zookeeper.acls, (_path(at.topic), StateAddress(at.topic, at.partition).path)
        return any(READ not in acls.get(path, Permission.ALL) for path in paths)

    def excuses(self, at: TopicPartition, concern: Concern) -> bool:
        """Whether this promise does not hold for a partition."""
        return bool(self.excuse(at.topic, at.partition) & concern)


_PARENTS = (admin.DELETE_TOPICS, debts.ROOT, reassignments.ROOT, reassignment_status.ROOT, notifications.ISR_CHANGES)


def _path(name: TopicName) -> str:
    return topic_znodes.TopicAddress(name).path
