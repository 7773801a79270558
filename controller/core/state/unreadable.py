"""Which znodes cannot be read now, because ZooKeeper refuses it, or because they are malformed?"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice

from msgspec import Struct

from zk_layout.codec import Malformed
from zk_layout.facts import Fact

SHOWN = 20


class Unreadable(Struct):
    """Reasons by path, in the order of discovery."""

    refusals: dict[str, str] = {}
    malformed: dict[str, str] = {}

    def refused(self, path: str, reason: str) -> bool:
        """Note a refused read; return whether it is news."""
        is_news = path not in self.refusals
        self.refusals[path] = reason
        return is_news

    def allowed(self, path: str) -> None:
        """Note that a refused znode has been read, or is gone."""
        self.refusals.pop(path, None)

    def seen(self, fact: Fact) -> None:
        """Note whether a newer version of a znode is malformed; one that is gone need not be read."""
        if fact.stat is None:
            self.refusals.pop(fact.address.path, None)
        if isinstance(fact.value, Malformed):
            self.malformed[fact.address.path] = fact.value.reason
        elif self.malformed:
            self.malformed.pop(fact.address.path, None)

    def forget(self, is_outdated: Callable[[str], bool]) -> None:
        """Forget the paths of which this holds."""
        for paths in (self.refusals, self.malformed):
            for path in [path for path in paths if is_outdated(path)]:
                del paths[path]

    def __len__(self) -> int:
        return len(self.refusals) + len(self.malformed)

    def __contains__(self, path: object) -> bool:
        return path in self.refusals or path in self.malformed

    def sentences(self) -> tuple[str, ...]:
        """List paths with their reasons for an operator; at most `SHOWN`."""
        first = islice(chain(self.refusals.items(), self.malformed.items()), SHOWN)
        shown = [f"{path}: {reason}" for path, reason in first]
        more = len(self.refusals) + len(self.malformed) - len(shown)
        return (*shown, f"and {more} more znodes that cannot be read") if more else tuple(shown)
