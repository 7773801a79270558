"""How many events are folded in one turn?"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from controller.core.messages import commands, effects, events, requests
from controller.core.state.topics import TopicView
from controller.core.transactions.owner import Transactions
from zk_layout.facts import Fact
from zk_layout.ids import TopicName
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.partition_state import StateAddress
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
        self._waiting: deque[events.Event] = deque()
        self._facts: tuple[Fact, ...] = ()
        self._given = 0
        self.handed_out = 0

    @property
    def has_more(self) -> bool:
        """Whether events are left for the next turn."""
        return bool(self._waiting or self._facts)

    @property
    def is_within_one(self) -> bool:
        """Whether an event is partly handed out: its facts were read together, and are followed together."""
        return bool(self._facts)

    def add(self, happened: Sequence[events.Event]) -> None:
        """Append these events."""
        self._waiting.extend(happened)

    def go_on_with(self, facts: tuple[Fact, ...]) -> None:
        """Insert these facts before all waiting events: they follow from the last one."""
        if facts:
            self._waiting.appendleft(events.Observed(facts))

    def take(self, most: int) -> Iterator[events.Event]:
        """Take the events to fold in this turn; `handed_out` is their work so far."""
        budget, self.handed_out = most, 0
        while most > 0 and self.has_more:
            if not self._facts:
                event = self._waiting.popleft()
                if not isinstance(event, events.Observed):
                    most -= self._work(event)
                    self.handed_out = budget - most
                    yield event
                    continue
                self._facts, self._given = event.facts, 0
            begun = self._given
            for fact in self._facts[begun : begun + most]:
                most -= 1 if isinstance(fact.address, StateAddress) else self._work_of_znode(fact)
                self._given += 1
                if most <= 0:
                    break
            part = self._facts[begun : self._given]
            if self._given == len(self._facts):
                self._facts = ()
            self.handed_out = budget - most
            yield events.Observed(part)

    def _work(self, event: events.Event) -> int:
        match event:
            case events.Committed(commit):
                return 1 + sum(map(self._work_of_znode, self._transactions.writes(commit)))
            case events.Acknowledged(command=command, errors=errors):
                is_examined = not isinstance(command, commands.UpdateMetadata)  # who knows metadata is noted as a whole
                return 1 + len(errors) + (commands.part_count(command) if is_examined else 0)
            case events.LogDirsDescribed(sizes=sizes):
                return 1 + max(len(sizes), LOG_DIRS)  # all that were asked for are examined
            case events.DisksDescribed(sizes=sizes):
                return 1 + len(sizes)
            case events.QuotasRead(rates):
                return len(rates)
            case events.Asked(request=request):
                return 1 + requests.part_count(request)
            case _:
                return 1

    def _work_of_znode(self, seen: Fact | effects.Write) -> int:
        """The work of one znode; for a topic, or a request to delete it, its partitions count too."""
        if not isinstance(seen.address, TopicAddress | TopicDeletionAddress):
            return 1
        value = getattr(seen, "value", None)
        topic = self._topics.get(seen.address.topic)
        before = 0 if topic is None else len(topic.partitions)
        return 1 + max(before, len(value.partitions) if isinstance(value, Topic) else 0)
