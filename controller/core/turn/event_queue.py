"""How many events are folded in one turn?"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from controller.core.messages.commands import Command, LeaderAndIsr, StopReplica
from controller.core.messages.effects import Write
from controller.core.messages.events import (
    Acknowledged,
    Asked,
    Committed,
    Event,
    LogDirsDescribed,
    Observed,
    QuotasRead,
)
from controller.core.messages.requests import part_count
from controller.core.state.topics import TopicView
from controller.core.transactions.owner import Transactions
from zk_layout.facts import Fact
from zk_layout.ids import TopicName
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.topics import Topic, TopicAddress

LOG_DIRS = 4_000


class EventQueue:
    """Events in order of arrival. An event with many facts is handed out in parts.

    Shape:
        Work is counted in znodes, in partitions where one znode or command names several, and in parts of requests.
    """

    def __init__(self, topics: Mapping[TopicName, TopicView], transactions: Transactions) -> None:
        self._topics = topics
        self._transactions = transactions
        self._waiting: deque[Event] = deque()
        self._facts: tuple[Fact, ...] = ()
        self._given = 0

    @property
    def has_more(self) -> bool:
        """Whether events are left for the next turn."""
        return bool(self._waiting or self._facts)

    @property
    def is_within_one(self) -> bool:
        """Whether an event is partly handed out: its facts were read together, and are followed together."""
        return bool(self._facts)

    def add(self, events: Sequence[Event]) -> None:
        """Append these events."""
        self._waiting.extend(events)

    def go_on_with(self, facts: tuple[Fact, ...]) -> None:
        """Insert these facts before all waiting events: they follow from the last one."""
        if facts:
            self._waiting.appendleft(Observed(facts))

    def take(self, most: int) -> Iterator[Event]:
        """Take the events to fold in this turn."""
        while most > 0 and self.has_more:
            if not self._facts:
                event = self._waiting.popleft()
                if not isinstance(event, Observed):
                    most -= self._work(event)
                    yield event
                    continue
                self._facts, self._given = event.facts, 0
            begun = self._given
            while most > 0 and self._given < len(self._facts):
                fact = self._facts[self._given]
                most -= self._work_of_znode(fact)
                self._given += 1
            part = self._facts[begun : self._given]
            if self._given == len(self._facts):
                self._facts = ()
            yield Observed(part)

    def _work(self, event: Event) -> int:
        match event:
            case Committed(commit):
                return 1 + sum(map(self._work_of_znode, self._transactions.writes(commit)))
            case Acknowledged(command=command, errors=errors):
                return 1 + len(errors) + _partitions(command)
            case LogDirsDescribed(sizes=sizes):
                return 1 + max(len(sizes), LOG_DIRS)  # all that were asked for are examined
            case QuotasRead(rates):
                return len(rates)
            case Asked(request=request):
                return 1 + part_count(request)
            case _:
                return 1

    def _work_of_znode(self, seen: Fact | Write) -> int:
        """The work of one znode; for a topic, or a request to delete it, its partitions count too."""
        if not isinstance(seen.address, TopicAddress | TopicDeletionAddress):
            return 1
        value = getattr(seen, "value", None)
        topic = self._topics.get(seen.address.topic)
        before = 0 if topic is None else len(topic.partitions)
        return 1 + max(before, len(value.partitions) if isinstance(value, Topic) else 0)


def _partitions(command: Command) -> int:
    match command:
        case StopReplica(stops):
            return len(stops)
        case LeaderAndIsr(partitions, new):
            return len(partitions) + len(new)
        case _:
            return 0
