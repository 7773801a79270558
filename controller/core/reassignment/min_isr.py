"""Which partitions have fewer in-sync replicas than `min.insync.replicas` asks for, or no leader?

Only partitions that lack replicas are looked at, and only the settings of their topics are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from controller.core.messages.events import Again
from controller.core.messages.outbox import Outbox
from controller.core.state.changes import Changes
from controller.core.state.placement import Numbers, discard
from controller.core.state.topics import Partition
from controller.core.turn.shared import Shared
from zk_layout.catalog import address_of
from zk_layout.ids import PartitionId, Replicas, TopicName, TopicPartition
from zk_layout.znodes.configs import Config, TopicConfigAddress
from zk_layout.znodes.topics import Assignment

SETTING = "min.insync.replicas"


class MinIsr:
    """The partitions below it, as far as this term looks for them."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self.below: Numbers = {}
        self.count = 0
        self._is_on = False
        self._has_seen_all = False
        # Partitions that are still to be looked at again, for another reason than that they have changed.
        self._again: Iterator[TopicPartition] = iter(())
        self._is_again = False
        # Topics whose settings were read since they were last said to have changed, and those that wait for that.
        self._read: dict[TopicName, None] = {}
        self._asked: dict[TopicName, None] = {}
        self._changed: dict[TopicPartition, None] = {}

    @property
    def is_known(self) -> bool:
        """Whether every partition has been looked at, with the settings of its topic."""
        return self._has_seen_all and not self._is_again and not self._asked

    def look(self, *, is_wanted: bool) -> None:
        """Look for such partitions from now on, or no longer."""
        if is_wanted and not self._is_on:
            self._look_again()
        elif not is_wanted:
            self._changed.update(dict.fromkeys(self._all_below()))
            self.below, self.count = {}, 0
            self._read, self._asked, self._again, self._is_again = {}, {}, iter(()), False
        self._is_on = is_wanted

    def settings_changed(self) -> None:
        """The value for topics that have none of their own may be another."""
        if self._is_on:
            self._look_again()

    def follow(self, changes: Changes, out: Outbox) -> list[TopicPartition]:
        """Take in what has changed; returns the partitions that are below now and were not, or the reverse."""
        self._has_seen_all = not changes.unseen
        if not self._is_on:
            return []
        for name in changes.gone_topics:
            self._forget(name)
        for name in changes.reconfigured:
            self._read.pop(name, None)
        self._read.update(dict.fromkeys(name for name in changes.configs if name in self._cluster.topics))
        for name in (*changes.reconfigured, *changes.configs, *_refused(changes)):
            self._asked.pop(name, None)
            self._judge(name, tuple(self._cluster.under_replicated.get(name, ())), out)
        for name, numbers in changes.partitions.items():
            self._judge(name, numbers, out)
        if changes.broker_defaults:
            self._look_again()
        self._go_on(out)
        changed, self._changed = list(self._changed), {}
        return changed

    def is_below(self, at: TopicPartition) -> bool:
        """Whether a partition is."""
        return at.partition in self.below.get(at.topic, ())

    def would_do(self, at: TopicPartition, target: Replicas) -> bool:
        """Whether enough replicas would be in sync, if all of a target's that can be are."""
        able = sum(self._cluster.is_online(r, at) for r in target)
        return able >= min(self._needed(at.topic), len(target))

    def sentence(self) -> str:
        """What is wrong, with one example."""
        at = next(self._all_below())
        held = self._cluster.partition(at)
        what = "has no leader" if at.partition in self._cluster.offline.get(at.topic, ()) else self._shortage(at, held)
        others = f", and {self.count - 1} more partitions lack a leader or in-sync replicas" if self.count > 1 else ""
        return f"{at} {what}{others}"

    def _shortage(self, at: TopicPartition, held: Partition | None) -> str:
        in_sync = 0 if held is None or held.state is None else len(held.state.isr)
        if self._is_hidden(at.topic):
            return f"has {in_sync} in-sync replicas, and the settings of its topic cannot be read"
        return f"has {in_sync} in-sync replicas, and {SETTING} is {self._needed(at.topic)}"

    def _all_below(self) -> Iterator[TopicPartition]:
        return (TopicPartition(name, number) for name, numbers in self.below.items() for number in numbers)

    def _look_again(self) -> None:
        self._again, self._is_again = self._every(), True

    def _every(self) -> Iterator[TopicPartition]:
        for index in (self._cluster.under_replicated, self._cluster.offline, self.below):
            for name in tuple(index):
                for number in tuple(index.get(name, ())):
                    yield TopicPartition(name, number)

    def _go_on(self, out: Outbox) -> None:
        most = self._shared.settings.budget.followed if self._is_again else 0
        some = list(islice(self._again, most))
        for at in some:
            self._judge(at.topic, (at.partition,), out)
        self._is_again = self._is_again and len(some) == most
        if self._is_again:
            out.wake(Again(), out.now)

    def _judge(self, name: TopicName, numbers: Iterable[PartitionId], out: Outbox) -> None:
        topic = self._cluster.topics.get(name)
        for number in numbers:
            held = None if topic is None or topic.is_queued_for_deletion else topic.partitions.get(number)
            is_below = held is not None and self._is_below(name, number, held, out)
            if is_below is not None:
                self._note(TopicPartition(name, number), is_below=is_below)

    def _is_below(self, name: TopicName, number: PartitionId, held: Partition, out: Outbox) -> bool | None:
        """None while the settings of the topic must be read first. A partition that was never led has lost nothing."""
        if held.state is None or not held.assignment.replicas:
            return False
        if number in self._cluster.offline.get(name, ()):
            return True
        in_sync, should = len(held.state.isr), _should(held.assignment)
        if in_sync >= should:
            return False
        if name not in self._read and not self._is_hidden(name):
            if name not in self._asked:
                self._asked[name] = None
                out.read([TopicConfigAddress(name)])
            return None
        return in_sync < min(self._needed(name), should)

    def _is_hidden(self, name: TopicName) -> bool:
        return self._cluster.is_unreadable(TopicConfigAddress(name))

    def _needed(self, name: TopicName) -> int:
        """How many replicas must be in sync; where the topic's settings cannot be read, all."""
        if self._is_hidden(name):
            return 2**31 - 1
        held = self._shared.state.topics.config(name)
        own = None if held is None or name not in self._read else _number(held.config)
        dynamic = _number(self._shared.state.broker_defaults)
        return next(n for n in (own, dynamic, self._shared.settings.min_insync_replicas) if n is not None)

    def _note(self, at: TopicPartition, *, is_below: bool) -> None:
        if is_below == self.is_below(at):
            return
        self._changed[at] = None
        self.count += 1 if is_below else -1
        if is_below:
            self.below.setdefault(at.topic, {})[at.partition] = None
        else:
            discard(self.below, *at)

    def _forget(self, name: TopicName) -> None:
        self.count -= len(self.below.pop(name, ()))
        self._read.pop(name, None)
        self._asked.pop(name, None)


def _should(assignment: Assignment) -> int:
    """How many replicas can be in sync at least: those before a move, or after it if these are fewer."""
    return min(len(assignment.original), len(assignment.target))


def _number(config: Config) -> int | None:
    """What settings say.

    >>> _number(Config({"min.insync.replicas": " 2"})), _number(Config({"min.insync.replicas": "two"}))
    (2, None)
    """
    try:
        return int(config.config[SETTING])
    except (KeyError, ValueError):
        return None


def _refused(changes: Changes) -> Iterator[TopicName]:
    for path, _ in changes.refused:
        address = address_of(path)
        if isinstance(address, TopicConfigAddress):
            yield address.topic
