"""Which requests about topics do people and tools send over the wire, sensible or not?"""

from __future__ import annotations

from controller.core.messages.requests import (
    DEFAULTED,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    Growth,
    NewTopic,
    TopicReference,
)
from tests.simulation.clients import Clients
from zk_layout.ids import PartitionId, Replicas, TopicName

NOWHERE = TopicName("nowhere")


class TopicClients(Clients):
    """Today's admin clients, which ask the controller instead of writing to ZooKeeper."""

    def ask_to_create(self) -> None:
        """One or two topics: placed by Kafka's rule or by the client, sensibly or not; also one that exists."""
        new = [self._any_new_topic() for _ in range(self.random.randint(1, 2))]
        only_validate = self.random.random() < 0.1
        request = CreateTopics(tuple(new), self._any_time(), only_validate)
        self.ask(request, f"create {', '.join(topic.name for topic in new)}")

    def ask_to_delete(self) -> None:
        """By name or by id."""
        name = self._any_topic() if self.random.random() < 0.9 else NOWHERE
        held = self.world.checker.topics.get(name)
        by_id = held is not None and held.topic_id is not None and self.random.random() < 0.5
        reference = TopicReference(topic_id=held.topic_id) if held is not None and by_id else TopicReference(name)
        self.ask(DeleteTopics((reference,), self._any_time()), f"delete {name}")
        if self.random.random() < 0.5:
            self.world.clock.after(self.random.uniform(0.0, 3.0), self.ask_to_create)

    def ask_to_grow(self) -> None:
        """By one or two partitions; now and then by none."""
        name = self._any_topic() if self.random.random() < 0.95 else NOWHERE
        held = self.world.checker.topics.get(name)
        count = (len(held.partitions) if held else 1) + self.random.randint(0, 2)
        only_validate = self.random.random() < 0.1
        request = CreatePartitions((Growth(name, count),), self._any_time(), only_validate)
        self.ask(request, f"grow {name} to {count}")

    def ask_to_elect(self) -> None:
        """Preferred leaders, or unclean elections; of some partitions, or of all."""
        is_unclean = self.random.random() < 0.2
        some = tuple(dict.fromkeys(self._any_partition() for _ in range(3)))
        partitions = None if self.random.random() < 0.2 else some
        kind = "any" if is_unclean else "preferred"
        text = f"elect {kind} leaders of {'all' if partitions is None else ', '.join(map(str, partitions))}"
        self.ask(ElectLeaders(partitions, is_unclean, self._any_time()), text)

    def _any_time(self) -> int:
        return self.random.choice((30_000, 30_000, 5_000, 200, 0))

    def _any_new_topic(self) -> NewTopic:
        is_free = self.random.random() < 0.8 or not self.world.checker.topics
        name = self._free_name() if is_free else self._any_topic()
        configs = (("retention.ms", "1000"),) if self.random.random() < 0.5 else ()
        if self.random.random() < 0.3:
            count = self.random.randint(1, 3)
            size = self.random.randint(1, min(3, len(self.world.brokers)))
            placed = tuple((PartitionId(n), self._placed(size)) for n in range(count))
            return NewTopic(name, assignments=placed, configs=configs)
        count = self.random.choice((DEFAULTED, 1, 3, 0))
        factor = self.random.choice((DEFAULTED, 1, 2, 3, 9))
        return NewTopic(name, count, factor, configs=configs)

    def _placed(self, size: int) -> Replicas:
        candidates = list(self.world.brokers)
        leader = self.world.leading()
        if leader is not None and self.random.random() < 0.05:
            candidates.append(leader.own_id)
        return tuple(self.random.sample(candidates, size))
