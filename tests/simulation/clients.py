"""Which requests do people and tools send, sensible or not?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from controller.core.messages.replies import Reply
from controller.core.messages.requests import (
    AlterReassignments,
    DescribeCluster,
    ListReassignments,
    Mode,
    PartitionReassignment,
    Request,
)
from tests.simulation.zookeeper import MakeNode, SetData
from zk_layout import catalog
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicId, TopicName, TopicPartition
from zk_layout.znodes import controller_ids
from zk_layout.znodes.admin import DELETE_TOPICS, LegacyMove, LegacyReassignment, PreferredElection
from zk_layout.znodes.configs import Config
from zk_layout.znodes.controller_ids import ControllerIdsAddress
from zk_layout.znodes.topics import Assignment, Topic

if TYPE_CHECKING:
    from tests.simulation.world import World

LEGACY = "/admin/reassign_partitions"
PREFERRED = "/admin/preferred_replica_election"
WIDE = 150


class Clients:
    """All clients other than brokers and controllers."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self._numbers: dict[TopicPartition, int] = {}
        self._topics_made = 0

    # data

    def produce(self) -> None:
        """One record to each partition that has a leader."""
        for at, state in self.world.checker.states.items():
            leader = self.world.brokers.get(state.leader)
            if leader is None or leader.model is None:
                continue
            number = self._numbers[at] = self._numbers.get(at, 0) + 1
            leader.model.append(at, number)

    # topics

    def create_topic(self) -> None:
        """Write a topic znode, as a broker does for an auto-created topic; it may name a controller, dead or not."""
        name = self._free_name()
        candidates = list(self.world.brokers)
        if self.random.random() < 0.3:
            leader = self.world.leading()
            candidates.extend([leader.own_id] if leader else self.recorded_controllers())
        size = self.random.randint(1, min(3, len(self.world.brokers)))
        width = self.world.sizes.width(self.random.randint(1, 4) if self.random.random() < 0.99 else WIDE)
        partitions = {PartitionId(p): Assignment(tuple(self.random.sample(candidates, size))) for p in range(width)}
        topic_id = TopicId(f"{self.random.getrandbits(128):022x}"[:22]) if self.world.plan.topic_ids else None
        self.world.say("client", f"creates {name} {[list(a.replicas) for a in partitions.values()]}")
        if self.random.random() < 0.5:
            self.world.write(MakeNode(f"/config/topics/{name}", catalog.encode(Config({"retention.ms": "1000"}))))
        operation = MakeNode(f"/brokers/topics/{name}", catalog.encode(Topic(partitions, topic_id)))
        self.world.write(operation)

    def recorded_controllers(self) -> tuple[BrokerId, ...]:
        """The ids recorded as those of controllers."""
        node = self.world.zookeeper.nodes.get(ControllerIdsAddress().path)
        return () if node is None else controller_ids.decode(node.data).ids

    def _free_name(self) -> TopicName:
        """An unused name, or a deleted topic's."""
        former = self._former_names()
        if former and self.random.random() < 0.7:
            return self.random.choice(former)
        self._topics_made += 1
        return TopicName(f"topic{self._topics_made}")

    def _former_names(self) -> list[TopicName]:
        names = (TopicName(f"topic{number + 1}") for number in range(self._topics_made))
        return [name for name in names if name not in self.world.checker.topics]

    def delete_topic(self) -> None:
        """Request a topic's deletion as brokers and old tools do; now and then of a missing topic."""
        name = self._any_topic()
        if self.random.random() < 0.2:
            name = self.random.choice([*self._former_names(), TopicName("nowhere")])
        if self.random.random() < 0.1 and name in self.world.checker.topics:
            self.world.write(MakeNode(f"/brokers/topics/{name}/somebody-elses"))
        self.world.say("client", f"wants {name} to be deleted")
        self.world.write(MakeNode(f"{DELETE_TOPICS}/{name}"))
        for _ in range(self.random.randint(0, 2)):
            self.world.clock.after(self.random.uniform(0.0, 5.0), self.create_topic)

    def add_partition(self) -> None:
        """Write one more partition into a topic znode, keeping the moves in it."""
        name = self._any_topic()
        topic = self.world.checker.topics[name]
        number = PartitionId(max(topic.partitions) + 1)
        size = self.random.randint(1, min(3, len(self.world.brokers)))
        added = Assignment(tuple(self.random.sample(list(self.world.brokers), size)))
        grown = Topic({**topic.partitions, number: added}, topic.topic_id)
        path = f"/brokers/topics/{name}"
        version = self.world.zookeeper.nodes[path].version
        self.world.say("client", f"adds {name}-{number} {list(added.replicas)}")
        self.world.write(SetData(path, catalog.encode(grown), version))

    def _any_topic(self) -> TopicName:
        topics = self.world.checker.topics
        return self.random.choice([name for name, topic in topics.items() if topic.partitions] or list(topics))

    def _any_partition(self) -> TopicPartition:
        name = self._any_topic()
        return TopicPartition(name, self.random.choice(list(self.world.checker.topics[name].partitions)))

    # moves

    def any_replicas(self) -> Replicas:
        """Some brokers."""
        brokers = list(self.world.brokers)
        return tuple(self.random.sample(brokers, self.random.randint(1, min(3, len(brokers)))))

    def _bad_replicas(self) -> Replicas:
        some = self.any_replicas()
        one = some[0]
        return self.random.choice([(), (*some, one), (BrokerId(-2), *some), (BrokerId(77),), (BrokerId(100), one)])

    def _any_wish(self) -> PartitionReassignment:
        chance = self.random.random()
        at = self._any_partition()
        if chance < 0.1:
            return PartitionReassignment(at, self._bad_replicas())
        if chance < 0.3:
            return PartitionReassignment(at, None)
        if chance < 0.35:
            return PartitionReassignment(TopicPartition(TopicName("nowhere"), PartitionId(0)), self.any_replicas())
        return PartitionReassignment(at, self.any_replicas())

    def reassign(self) -> None:
        """Request some moves and cancellations at once."""
        reassignments = {w.topic_partition: w for w in (self._any_wish() for _ in range(self.random.randint(1, 4)))}
        text = ", ".join(
            f"{at}→{w.replicas if w.replicas is None else list(w.replicas)}" for at, w in reassignments.items()
        )
        mode = self.random.choices(tuple(Mode), (12, 3, 1))[0]
        timeout_ms = self.random.choice((60_000, 60_000, 5_000, 500))
        request = AlterReassignments(
            tuple(structs.replace(w, weight=self.world.limits.paces.weight()) for w in reassignments.values()),
            mode,
            timeout_ms,
            self.world.throttles.rate(),
            give_up_ms=self.world.limits.paces.give_up_of_request(),
        )
        self.ask(request, f"reassign {text} {mode}".rstrip())

    def supersede(self) -> None:
        """Redirect moves in progress, or cancel them gently, all at once: overlapping changes."""
        moving = [
            TopicPartition(name, number)
            for name, topic in self.world.checker.topics.items()
            for number, assignment in topic.partitions.items()
            if assignment.is_moving
        ]
        if not moving:
            return
        some = self.random.sample(moving, min(len(moving), self.random.randint(1, 4)))
        mode = self.random.choice((Mode.SAFE, Mode.GENTLE))
        reassignments = tuple(
            PartitionReassignment(at, self.any_replicas() if self.random.random() < 0.5 else None) for at in some
        )
        text = ", ".join(f"{w.topic_partition}→{w.replicas and list(w.replicas)}" for w in reassignments)
        for _ in range(self.random.randint(1, 2)):
            asked = AlterReassignments(reassignments, mode, throttle=self.world.throttles.rate())
            self.ask(asked, f"supersede {text} {mode}".rstrip())

    def prefer(self) -> None:
        """Write the znode that requests preferred leaders, unless it exists, as old tools do."""
        if PREFERRED in self.world.zookeeper.nodes:
            return
        some = dict.fromkeys(self._any_partition() for _ in range(3))
        self.world.say("client", f"wants the preferred leaders of {', '.join(map(str, some))}")
        self.world.write(MakeNode(PREFERRED, catalog.encode(PreferredElection(tuple(some)))))

    def list_moves(self) -> None:
        """Request the moves in progress and the list of brokers."""
        self.ask(ListReassignments(None), "list")
        self.ask(DescribeCluster(None), "describe")

    def ask(self, request: Request, text: str) -> None:
        """Send a request to the leader, if there is one."""
        leader = self.world.leading()
        if leader is None:
            return
        number = self.world.next_ask()
        self.world.say("client", f"asks #{number} {leader.own_id} to {text}")

        def answered(reply: Reply | None) -> None:
            self.world.say("client", f"#{number} gets {reply}")

        self.world.ask(leader.own_id, request, answered, number)

    def legacy(self) -> None:
        """Write the legacy znode, unless it exists, as old tools do."""
        if LEGACY in self.world.zookeeper.nodes:
            return
        if self.random.random() < 0.1:
            self.world.say("client", "writes a malformed legacy znode")
            self.world.write(MakeNode(LEGACY, b'{"version":1,"partitions":'))
            return
        moves = []
        for _ in range(self.random.randint(1, 3)):
            at = self._any_partition()
            replicas = self._bad_replicas() if self.random.random() < 0.15 else self.any_replicas()
            moves.append(LegacyMove(at.topic, at.partition, replicas))
        text = ", ".join(f"{m.topic_partition}→{list(m.replicas)}" for m in moves)
        self.world.say("client", f"writes the legacy znode {text}")
        self.world.write(MakeNode(LEGACY, catalog.encode(LegacyReassignment(tuple(moves)))))
