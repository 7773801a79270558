"""Which records have been acknowledged, and is none of them lost?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.lab.broker_model import BrokerModel
from tests.simulation.broken import Broken
from zk_layout.ids import BrokerId, LeaderEpoch, TopicPartition
from zk_layout.znodes.admin import DELETE_TOPICS

if TYPE_CHECKING:
    from tests.simulation.checker import Checker


class Records:
    """The acknowledged records of every partition, by what its leaders have shown."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._world = checker.world
        self.lost: dict[TopicPartition, LeaderEpoch] = {}  # in-sync replicas were given up, last in this leader epoch
        self._numbers: dict[TopicPartition, dict[int, None]] = {}
        self._seen_marks: dict[tuple[int, TopicPartition], tuple[int, int]] = {}

    def forget(self, at: TopicPartition) -> None:
        """Its topic is gone."""
        self.lost.pop(at, None)
        self._numbers.pop(at, None)
        for broker in self._world.brokers.values():
            self._seen_marks.pop((broker.broker, at), None)

    def joins_with_everything(self, at: TopicPartition, joined: list[BrokerId], since: float) -> None:
        """Check a joining replica: its leader acknowledges nothing more without it, so it must have every record.

        Exceptions: a topic that is being deleted; and a request sent before the broker died, which is granted until the
        controller can know of the death, and then removes the broker from the ISR.

        Units:
            `since` is when the writer's server last stopped lagging.
        """
        if at.topic in self._checker.unwanted:
            return
        brokers = self._world.brokers
        for broker in joined:
            if broker in brokers and brokers[broker].may_pass_for_alive(since):
                continue
            log = brokers[broker].disk.get(at) if broker in brokers else None
            held = {record.number for record in log.records} if log is not None else set()
            missing = [number for number in self._numbers.get(at, {}) if number not in held]
            if missing:
                raise Broken(f"{broker} joins the ISR of {at} without the acknowledged records {missing[:5]}")

    def lost_log(self, broker: BrokerId, at: TopicPartition) -> None:
        """A disk was lost; records that only its broker had in sync do not count."""
        state = self._checker.states.get(at)
        if state is not None and broker in state.isr:
            self.lose(at, state.leader_epoch)

    def lose(self, at: TopicPartition, epoch: LeaderEpoch) -> None:
        """In-sync replicas were given up in this leader epoch: what they alone had does not count any more."""
        self._world.say("checker", f"{at} gave up its in-sync replicas; acknowledged records may be gone")
        self.lost[at] = epoch
        self._numbers.pop(at, None)

    def acknowledged(self, model: BrokerModel) -> None:
        """Note every record below a leader's high watermark: its producer got an acknowledgement."""
        for at in model.led():
            log = model.disk[at]
            key = (model.broker, at)
            epoch = model.replicas[at].view.leader_epoch
            if at not in self._checker.states:
                continue  # its topic is being deleted
            if at in self.lost and epoch != self._checker.states[at].leader_epoch:
                continue  # records that a deposed leader acknowledges are lost, as an unclean election implies
            if epoch < self._checker.states[at].leader_epoch and self._wrote_more(model, at):
                continue  # the hole of the protocol before 2.7: see traps.md
            view = model.replicas[at].view
            if any(member not in view.replicas for member in view.isr):
                continue  # only Kafka's own controllers send that: the leader does not wait for such a member
            mark, marked_in = self._seen_marks.get(key, (0, -1))
            start = mark if marked_in == epoch else 0
            numbers = self._numbers.setdefault(at, {})
            for record in log.records[min(start, log.high_watermark) : log.high_watermark]:
                numbers[record.number] = None
            self.note_led(model.broker, at, log.high_watermark, epoch)

    def acknowledged_numbers(self, at: TopicPartition) -> tuple[int, ...]:
        """The records that must not be lost."""
        return tuple(self._numbers.get(at, {}))

    def _wrote_more(self, model: BrokerModel, at: TopicPartition) -> bool:
        """Whether a leader has written a larger ISR than it knows: the acceptance never reached it."""
        replica = model.replicas[at]
        following = self._checker.accepted.get((at, replica.partition_epoch + 1), ())
        return not model.traits.uses_alter_partition and any(
            state.leader_epoch == replica.view.leader_epoch and not set(state.isr).issubset(replica.isr)
            for state in following
        )

    def note_led(self, broker: BrokerId, at: TopicPartition, high_watermark: int, epoch: LeaderEpoch) -> None:
        """Note the records that a broker has acknowledged as a leader."""
        self._seen_marks[broker, at] = (high_watermark, epoch)

    def has_led_since(self, broker: BrokerId, at: TopicPartition, epoch: LeaderEpoch) -> bool:
        """Whether a broker has led in this leader epoch, or in a later one."""
        return self._seen_marks.get((broker, at), (0, -1))[1] >= epoch

    def leads_with_everything(self, model: BrokerModel, at: TopicPartition) -> None:
        """Check that the leader in ZooKeeper has every acknowledged record."""
        state = self._checker.states.get(at)
        replica = model.replicas.get(at)
        if state is None or replica is None or state.leader != model.broker:
            return
        if at.topic in self._checker.unwanted and self._world.refusals.hid_lately(DELETE_TOPICS):
            return  # a controller that takes over half-way does not know that it is being deleted
        if replica.view.leader_epoch != state.leader_epoch:
            return
        held = {record.number for record in model.disk[at].records}
        missing = [number for number in self._numbers.get(at, {}) if number not in held]
        if missing:
            raise Broken(f"leader {model.broker} of {at} lacks the acknowledged records {missing[:5]}")
