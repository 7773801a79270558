"""Which is the highest controller epoch that a partition's state carries?

During a migration a KRaft controller writes its own epoch into states, often far above `/controller_epoch`. A native
controller with a lower one refuses to change them (KAFKA-20488).

Source: Kafka's ZkTopicMigrationClient (`kraftControllerEpoch`) and ZkPartitionStateMachine.doElectLeaderForPartitions.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.state.topics import TopicView
from zk_layout.facts import Fact
from zk_layout.ids import ControllerEpoch
from zk_layout.znodes.partition_state import PartitionState, StateAddress

NO_EPOCH = ControllerEpoch(-1)


class WriterEpochs:
    """The highest epoch among all states seen, and the path of the first state that had it."""

    def __init__(self) -> None:
        self.highest = NO_EPOCH
        self.path = ""

    def saw(self, fact: Fact) -> None:
        """Take in a partition's state, whether or not it is news."""
        state = fact.value
        if isinstance(state, PartitionState) and state.controller_epoch > self.highest:
            self.highest, self.path = state.controller_epoch, fact.address.path

    def saw_all(self, facts: Iterable[Fact]) -> None:
        """Take in several states, in their order."""
        highest = self.highest
        for fact in facts:
            state = fact.value
            if isinstance(state, PartitionState) and state.controller_epoch > highest:
                highest = state.controller_epoch
                self.saw(fact)

    def only_of(self, topics: Iterable[TopicView]) -> None:
        """Forget states other than those that partitions of these topics have now."""
        self.highest, self.path = NO_EPOCH, ""
        for topic in topics:
            for number, held in topic.partitions.items():
                epoch = NO_EPOCH if held.state is None else held.state.controller_epoch
                if epoch > self.highest and held.assignment.replicas:
                    self.highest, self.path = epoch, StateAddress(topic.name, number).path
