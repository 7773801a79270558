"""What does this controller want written that the one that leads has not written yet?

Bounded: what does not fit is not remembered, and then nothing is said about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from heapq import heappop, heappush

from msgspec import Struct

from controller.core.comparing.judging import Outcome
from controller.core.messages.events import CommitId
from zk_layout.ids import PartitionEpoch, PartitionId, TopicName
from zk_layout.znodes.partition_state import PartitionState

DONE_WITHIN_S = 20.0
"""Less than `controller.process.unsent.HOLD_S`, for which a transaction is held."""
GRACE_S = 5.0
MOST = 100_000


class Matter(StrEnum):
    """What a wish is about."""

    STATE = "state"
    END_OF_MOVE = "end of move"
    DELETION = "deletion"


class Key(Struct, frozen=True, gc=False):
    """The subject of a wish; `partition` is -1 for a whole topic."""

    matter: Matter
    topic: TopicName
    partition: PartitionId = PartitionId(-1)


class Wish(Struct, gc=False):
    """A decision of this controller that was not written.

    Shape:
        `commit` is the last transaction that holds it, proposed at `renewed`; `why` are its sentences. `base` is the
        version of the state before, `state` the wanted one. `late` is the outcome if it is not done in time.
    """

    commit: CommitId
    why: tuple[str, ...]
    since: float
    renewed: float
    late: Outcome = Outcome.NOT_THERE
    base: PartitionEpoch = PartitionEpoch(-1)
    state: PartitionState | None = None
    is_told: bool = False


class Wishes:
    """All wishes, by subject."""

    def __init__(self, most: int = MOST) -> None:
        """Remember at most `most`."""
        self._most = most
        self._held: dict[Key, Wish] = {}
        self._due: list[tuple[float, int, Key]] = []
        self._count = 0

    def __len__(self) -> int:
        """How many there are."""
        return len(self._held)

    def note(self, key: Key, wish: Wish) -> bool:
        """Remember a wish, or that it is still wanted; return whether there was room."""
        held = self._held.get(key)
        if held is not None and _is_same(held, wish):
            held.commit, held.renewed, held.base = wish.commit, wish.renewed, wish.base
            return True
        if held is None and max(len(self._held), len(self._due)) >= self._most:
            return False
        self._held[key] = wish
        self._push(wish.since + DONE_WITHIN_S, key)
        return True

    def take(self, key: Key) -> Wish | None:
        """Forget a wish, and return it."""
        return self._held.pop(key, None)

    @property
    def next_due(self) -> float | None:
        """When to ask for overdue wishes again."""
        return self._due[0][0] if self._due else None

    def overdue(self, now: float, most: int) -> Iterator[tuple[Key, Wish]]:
        """Up to `most` wishes that have waited long enough, each once."""
        for _ in range(most):
            if not self._due or self._due[0][0] > now:
                return
            _, _, key = heappop(self._due)
            wish = self._held.get(key)
            if wish is None or wish.is_told:
                continue
            if wish.since + DONE_WITHIN_S > now:
                continue  # a later wish, with an entry of its own
            yield key, wish

    def wait_for(self, key: Key, until: float) -> None:
        """Return a wish once more at this time."""
        self._push(until, key)

    def _push(self, at: float, key: Key) -> None:
        self._count += 1
        heappush(self._due, (at, self._count, key))


def _is_same(held: Wish, wish: Wish) -> bool:
    if held.state is None or wish.state is None:
        return held.state is wish.state
    return held.state.leader == wish.state.leader and set(held.state.isr) == set(wish.state.isr)
