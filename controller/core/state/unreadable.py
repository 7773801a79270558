"""Which znodes cannot be read now: refused by ZooKeeper, or holding what nobody can read?"""

from __future__ import annotations

from itertools import chain, islice

from msgspec import Struct

from zk_layout.codec import Malformed
from zk_layout.facts import Fact

SHOWN = 20


class Unreadable(Struct):
    """By path, why; in the order in which they were met."""

    refusals: dict[str, str] = {}
    malformed: dict[str, str] = {}

    def refused(self, path: str, reason: str) -> bool:
        """ZooKeeper does not let us read it; whether that is news."""
        is_news = path not in self.refusals
        self.refusals[path] = reason
        return is_news

    def allowed(self, path: str) -> None:
        """It has been read after all, or is gone."""
        self.refusals.pop(path, None)

    def seen(self, fact: Fact) -> None:
        """A newer sighting of a znode tells whether it can be read."""
        if isinstance(fact.value, Malformed):
            self.malformed[fact.address.path] = fact.value.reason
        elif self.malformed:
            self.malformed.pop(fact.address.path, None)

    def __len__(self) -> int:
        return len(self.refusals) + len(self.malformed)

    def __contains__(self, path: object) -> bool:
        return path in self.refusals or path in self.malformed

    def sentences(self) -> tuple[str, ...]:
        """Each with its reason, as people read them; of very many the first."""
        first = islice(chain(self.refusals.items(), self.malformed.items()), SHOWN)
        shown = [f"{path}: {reason}" for path, reason in first]
        more = len(self.refusals) + len(self.malformed) - len(shown)
        return (*shown, f"and {more} more znodes that cannot be read") if more else tuple(shown)
