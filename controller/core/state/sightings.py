"""Is this newer than everything seen of its path?"""

from __future__ import annotations

from zk_layout.facts import Fact, is_newer
from zk_layout.ids import Zxid

NEVER = Zxid(-1)
MOST_TOMBSTONES = 10_000


class Sightings:
    """The last sighting of each path that may come and go, present or absent.

    Absences are kept in bounded number: no read is late enough to need more.
    """

    def __init__(self) -> None:
        self._there: dict[str, Zxid] = {}
        self._gone: dict[str, Zxid] = {}

    def is_news(self, fact: Fact) -> bool:
        """Whether a fact is newer than everything seen of its path; records it if so."""
        path = fact.address.path
        is_held_present = path in self._there
        held_as_of = self._there[path] if is_held_present else self._gone.get(path, NEVER)
        if not is_newer(fact, held_as_of, is_held_present=is_held_present):
            return False
        self._there.pop(path, None)
        self._gone.pop(path, None)
        (self._there if fact.is_present else self._gone)[path] = fact.as_of
        if len(self._gone) > MOST_TOMBSTONES:
            del self._gone[next(iter(self._gone))]
        return True
