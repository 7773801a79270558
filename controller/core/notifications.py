"""Which notification znodes have been noted and are to be deleted, and when may a refused deletion be tried again?

Whoever wrote one expects the controller to delete it: an old tool that asked for preferred leaders refuses to ask again
while its znode is there. What a notification says is done once, when it is first seen, however long it stays.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from controller.core.effects import Delete, Notice, Wake
from controller.core.events import CommitId
from controller.core.retries import AT_ONCE, wait_s
from zk_layout.facts import Fact
from zk_layout.ids import ZnodeVersion
from zk_layout.znodes.admin import PreferredElectionAddress
from zk_layout.znodes.notifications import IsrChangeAddress, LogDirEventAddress

Address = IsrChangeAddress | LogDirEventAddress | PreferredElectionAddress

NOTIFICATIONS_AGAIN = "delete notifications again: "
WHY: dict[type[Address], str] = {
    IsrChangeAddress: "ISR changes noted",
    LogDirEventAddress: "log directory failure noted",
    PreferredElectionAddress: "preferred leaders will be elected",
}


class _Kind(Struct):
    """The notifications of one kind: whoever may not delete one of them may not delete the others either.

    Shape:
        `due` are to be deleted at the version given; the deletions of those `under_way` are in flight; `unread` were
        refused and not read again since.
    """

    due: dict[Address, ZnodeVersion] = field(default_factory=dict)
    under_way: set[Address] = field(default_factory=set)
    unread: set[Address] = field(default_factory=set)
    refusals: int = 0
    is_waiting: bool = False


class Notifications:
    """The notifications of one reign that are still there."""

    def __init__(self) -> None:
        """None seen yet."""
        self._kinds: dict[type[Address], _Kind] = {kind: _Kind() for kind in WHY}
        self._in_flight: dict[CommitId, Address] = {}

    def see(self, address: Address, version: ZnodeVersion) -> bool:
        """A notification is there and has been noted; whether it is a new one."""
        kind = self._kinds[type(address)]
        is_new = not any(address in known for known in (kind.due, kind.under_way, kind.unread))
        kind.due[address] = version
        return is_new

    def saw(self, fact: Fact) -> None:
        """A znode was read: if its deletion was refused, it is due again, unless it has gone."""
        address = fact.address
        if not isinstance(address, Address) or address not in self._kinds[type(address)].unread:
            return
        kind = self._kinds[type(address)]
        kind.unread.discard(address)
        if fact.stat is not None:
            kind.due[address] = fact.stat.version

    def strikes(self) -> Iterator[tuple[Delete, str]]:
        """What is to be deleted now, and why: after a refusal one at a time, until one is accepted."""
        for of, kind in self._kinds.items():
            if not kind.due or kind.is_waiting:
                continue
            for address in [a for a in kind.due if a not in kind.under_way]:
                if kind.refusals and (kind.under_way or kind.unread):
                    break
                kind.under_way.add(address)
                yield Delete(address, kind.due.pop(address)), WHY[of]

    def sent(self, commit: CommitId, write: Delete) -> None:
        """The deletion travels with this transaction."""
        if isinstance(write.address, Address):
            self._in_flight[commit] = write.address

    def accepted(self, commit: CommitId) -> None:
        """ZooKeeper accepted a transaction: if it was a deletion, others of its kind will be accepted too."""
        address = self._in_flight.pop(commit, None)
        if address is not None:
            kind = self._kinds[type(address)]
            kind.under_way.discard(address)
            kind.refusals = 0

    def failed(self, commit: CommitId, now: float) -> Iterator[Notice | Wake]:
        """ZooKeeper refused a transaction: after a few deletions refused in a row the next one waits."""
        address = self._in_flight.pop(commit, None)
        if address is None:
            return
        kind = self._kinds[type(address)]
        kind.under_way.discard(address)
        kind.unread.add(address)
        if kind.is_waiting:
            return
        kind.refusals += 1
        wait = wait_s(kind.refusals)
        if wait is None:
            return
        if kind.refusals == AT_ONCE + 1:
            text = f"ZooKeeper refused {kind.refusals} deletions of notifications in a row, the last of {address.path}"
            yield Notice("refused by zookeeper", f"{text}; trying again more slowly")
        kind.is_waiting = True
        yield Wake(f"{NOTIFICATIONS_AGAIN}{type(address).__name__}", now + wait)

    def resume(self, alarm: str) -> None:
        """The wait is over for the kind that this alarm names."""
        for of, kind in self._kinds.items():
            if alarm == f"{NOTIFICATIONS_AGAIN}{of.__name__}":
                kind.is_waiting = False
