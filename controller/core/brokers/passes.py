"""Which partitions of a broker are still to be looked at, since it came, left, or began to shut down? Some a turn.

All brokers may leave at once, and together they host every replica of the cluster. So what follows for their partitions
is done in passes, one after the other, of which each turn does a counted part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from controller.core.messages.events import Again
from controller.core.messages.outbox import Outbox
from controller.core.state.remembered import Numbers
from zk_layout.ids import BrokerId, PartitionId, TopicName

Visit = Callable[[TopicName, Sequence[PartitionId]], None]
"""What is done with some partitions of one topic."""
End = Callable[[Outbox], None]


def _no_end(_: Outbox) -> None:
    pass


class _Pass(Struct, eq=False):
    """Shape: `numbers` are the partitions of the topic `name` still to be visited; it is empty before the first."""

    broker: BrokerId
    visit: Visit
    end: End
    topics: Iterator[TopicName]
    name: TopicName
    numbers: Iterator[PartitionId]


class HostedPasses:
    """The passes of one term, in the order in which they were begun; those that were begun `ahead` come first.

    A pass visits the topics that its broker hosts when it begins, and of each the partitions that it hosts when their
    turn comes. What is placed on the broker later has been decided with what is known now.
    """

    def __init__(self, hosted: Mapping[BrokerId, Numbers], budget: int) -> None:
        """Begin without passes. `budget` is how many topics and partitions a turn visits."""
        self._hosted = hosted
        self._budget = self._room = budget
        self._ahead: deque[_Pass] = deque()
        self._left: deque[_Pass] = deque()

    @property
    def has_more(self) -> bool:
        """Whether a pass is not over."""
        return bool(self._ahead or self._left)

    def is_under_way(self, broker: BrokerId) -> bool:
        """Whether a pass over this broker's partitions is not over."""
        return any(one.broker == broker for one in (*self._ahead, *self._left))

    def begin(self, broker: BrokerId, visit: Visit, end: End = _no_end) -> None:
        """Queue a pass; `end` is called after the last partition."""
        self._left.append(self._pass(broker, visit, end))

    def begin_ahead(self, broker: BrokerId, visit: Visit) -> None:
        """Queue a pass before all that were not begun ahead, even one that is under way: that one goes on later."""
        self._ahead.append(self._pass(broker, visit, _no_end))

    def begin_once(self, broker: BrokerId, visit: Visit) -> None:
        """Queue a pass, unless the same one still waits for its turn: that one visits what is hosted now."""
        waiting = next((p for p in self._left if p.broker == broker and p.visit == visit and not p.name), None)
        if waiting is None:
            self.begin(broker, visit)
        else:
            waiting.topics = self._topics_of(broker)

    def _pass(self, broker: BrokerId, visit: Visit, end: End) -> _Pass:
        return _Pass(broker, visit, end, self._topics_of(broker), TopicName(""), iter(()))

    def _topics_of(self, broker: BrokerId) -> Iterator[TopicName]:
        return iter(tuple(self._hosted.get(broker, ())))

    def renew(self) -> None:
        """A turn begins."""
        self._room = self._budget

    def go_on(self, out: Outbox) -> None:
        """Visit as many partitions as this turn still may; the next turn goes on."""
        while self.has_more and self._room > 0:
            queue = self._ahead or self._left
            now = queue[0]
            numbers = tuple(islice(now.numbers, self._room))
            if numbers:
                self._room -= len(numbers)
                now.visit(now.name, numbers)
                continue
            self._room -= 1
            name = next(now.topics, None)
            if name is None:
                queue.popleft()
                now.end(out)
            else:
                hosted = self._hosted.get(now.broker, {}).get(name, {})
                now.name, now.numbers = name, iter(tuple(hosted))
        if self.has_more:
            out.wake(Again(), out.now)
