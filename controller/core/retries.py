"""When may a topic whose transactions were refused try again?

A conflict is cured by reading again, nearly always at once. What ZooKeeper refuses again and again, such as a write
without permission, must not be tried as fast as the network goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.core.effects import Effect, Notice, Wake
from zk_layout.ids import PartitionId, TopicName

RETRY = "try again with "
AT_ONCE = 3
LONGEST_WAIT_S = 30.0


def wait_s(refusals: int) -> float | None:
    """How long to wait after so many refusals in a row; None to try again at once.

    >>> [wait_s(n) for n in (1, 3, 4, 5, 20)]
    [None, None, 1.0, 2.0, 30.0]
    """
    if refusals <= AT_ONCE:
        return None
    return min(0.5 * 2.0 ** (refusals - AT_ONCE), LONGEST_WAIT_S)


class Retries:
    """Counts the refusals of each topic since its last success."""

    def __init__(self) -> None:
        """Nothing was refused."""
        self._refusals: dict[TopicName, int] = {}
        self._waiting: dict[TopicName, set[PartitionId]] = {}

    def has_failed(self, topic: TopicName) -> bool:
        """Whether the topic's last step was refused: its writes then travel alone."""
        return topic in self._refusals

    def is_waiting(self, topic: TopicName) -> bool:
        """Whether the topic was refused so often that it tries again more slowly."""
        return wait_s(self._refusals.get(topic, 0)) is not None

    def succeeded(self, topic: TopicName) -> None:
        """Forget the refusals."""
        self._refusals.pop(topic, None)

    def failed(self, topic: TopicName, numbers: Iterable[PartitionId], now: float) -> Iterator[Effect]:
        """Count a refusal; yields an alarm where these partitions must wait, nothing where they may go on at once."""
        count = self._refusals[topic] = self._refusals.get(topic, 0) + 1
        wait = wait_s(count)
        if wait is None:
            return
        if count == AT_ONCE + 1:
            text = f"ZooKeeper refused {count} transactions of topic {topic} in a row; trying again more slowly"
            yield Notice("refused by zookeeper", text)
        self._waiting.setdefault(topic, set()).update(numbers)
        yield Wake(f"{RETRY}{topic}", now + wait)

    def resume(self, topic: TopicName) -> set[PartitionId]:
        """The wait is over: the partitions to look at."""
        return self._waiting.pop(topic, set())
