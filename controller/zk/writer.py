"""How is a decision written: all or nothing, and only until another controller rules?

Every transaction first checks the version of `/controller_epoch`. Transactions are sent as they come, many in flight;
ZooKeeper keeps their order, so a later one may build on one that is not answered yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from controller.core.messages.effects import Commit, Create, Delete, Set, Write
from controller.core.messages.events import Committed, Conflicted, Event, Fenced, Unknown
from controller.zk import protocol
from controller.zk.answers import Reply, SessionEnded
from controller.zk.bridge import Bridge
from controller.zk.lives import Lives
from zk_layout.ids import ZnodeVersion, Zxid
from zk_layout.znodes.controller import ControllerEpochAddress

_EPOCH_PATH: Final = ControllerEpochAddress().path
_NO_WRITES: Final = "a transaction has no writes"

_Guard = tuple[Write, protocol.Operation]

DEFAULT_REQUEST_BYTES: Final = 1_048_575
"""ZooKeeper's default jute.maxbuffer."""


class Writer:
    """Writes for one term. Once fenced, it sends nothing more."""

    def __init__(
        self,
        bridge: Bridge,
        emit: Callable[[Event], None],
        *,
        fence_version: ZnodeVersion,
        max_request_bytes: int = DEFAULT_REQUEST_BYTES,
        deleted: Callable[[str], None] = lambda _: None,
        lives: Lives | None = None,
    ) -> None:
        """`fence_version` is the version of `/controller_epoch` after our own election. `deleted` is called with the
        path of each deleted znode, before any later answer. `lives` is what the reader of the same term has seen."""
        self._bridge = bridge
        self._emit = emit
        self._fence = protocol.Check(bridge.full(_EPOCH_PATH), fence_version)
        self._max_request_bytes = max_request_bytes
        self._deleted = deleted
        self._lives = lives or Lives()
        self._waiting: list[tuple[Commit, frozenset[str]]] = []
        self.is_fenced = False

    def submit(self, commit: Commit) -> None:
        """Send a transaction. `emit` receives its outcome in the order of submission, unless it waits: where it depends
        on the life of a znode, creations of ours in flight in its folder come first; what creates there later, last.
        An outcome also waits for the reader to count a child over which it was refused.

        Refuses a transaction that is too large, for which the server would close the connection each time.
        """
        if not commit.operations:
            raise ValueError(_NO_WRITES)
        folders = frozenset(f for w in commit.writes if (f := self._lives.folder_of(w.address.path)) is not None)
        self._send_or_wait(commit, folders)

    def _send_or_wait(self, commit: Commit, folders: frozenset[str]) -> None:
        """Wait behind others in these folders, and for creations there that a guard would count, although ZooKeeper may
        refuse them."""
        is_behind = any(not folders.isdisjoint(other) for _, other in self._waiting)
        if is_behind or (folders and any(map(self._lives.is_creating, self._guarded(commit)))):
            self._waiting.append((commit, folders))
        else:
            self._send(commit)

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for commit, folders in waiting:
            self._send_or_wait(commit, folders)

    def _give_up_waiting(self) -> None:
        """Send nothing in the next session: the term ends with this one, even while its epoch is still the highest."""
        waiting, self._waiting = self._waiting, []
        for commit, _ in waiting:
            self._emit(Unknown(commit.commit))

    def _send(self, commit: Commit) -> None:
        if self.is_fenced:
            self._emit(Fenced(commit.commit))
            return
        other = next((w for w in commit.writes if _is_of_another_life(w, self._lives)), None)
        if other is not None:
            self._emit(Conflicted(commit.commit, other.address, f"not sent: {other.address.path} was created again"))
            return
        guards = self._guards(commit)
        operations = [self._operation(made.write, made.data) for made in commit.operations]
        request = protocol.transaction((self._fence, *(part for _, part in guards), *operations))
        if request.size_bytes > self._max_request_bytes and guards:
            guards, request = [], protocol.transaction((self._fence, *operations))  # rely on versions
        if request.size_bytes > self._max_request_bytes:
            largest = max(commit.operations, key=lambda made: len(made.data) + len(made.write.address.path))
            reason = f"not sent: {request.size_bytes} of {self._max_request_bytes} bytes (jute.maxbuffer)"
            self._emit(Conflicted(commit.commit, largest.write.address, reason))
            return
        creations = self._creations(commit, guards)
        self._lives.sent(creations)

        def answered(reply: Reply) -> None:
            is_done = reply.failure is None and reply.code == protocol.OK and protocol.refusal(reply.value) is None
            self._lives.answered(creations, reply.zxid if is_done else None)
            self._answered(commit, guards, reply)
            if isinstance(reply.failure, SessionEnded):
                self._give_up_waiting()
            else:
                self._send_waiting()

        self._bridge.submit(request, answered)

    def _guarded(self, commit: Commit) -> dict[str, Write]:
        """The folders in which the transaction depends on the life of a znode, each with a write that does."""
        found: dict[str, Write] = {}
        for write in commit.writes:
            folder = self._lives.folder_of(write.address.path)
            if folder is not None and not isinstance(write, Create) and write.life is not None:
                found.setdefault(folder, write)
        return found

    def _guards(self, commit: Commit) -> list[_Guard]:
        return [
            (write, part)
            for folder, write in self._guarded(commit).items()
            for part in self._lives.guard(folder, self._bridge.full(folder))
        ]

    def _creations(self, commit: Commit, guards: Sequence[_Guard]) -> Counter[str]:
        """How many children it creates in each folder that is counted."""
        folders = [self._lives.folder_of(w.address.path) for w in commit.writes if isinstance(w, Create)]
        folders += [self._lives.folder_of(w.address.path) for w, part in guards if isinstance(part, protocol.Create)]
        return Counter(folder for folder in folders if folder is not None)

    def _operation(self, write: Write, data: bytes) -> protocol.Operation:
        path = self._bridge.full(write.address.path)
        match write:
            case Create(value=value, is_sequential=is_sequential):
                held = None if value is None else data
                return protocol.Create(path, held, acl=self._bridge.acl(write.address.path), sequential=is_sequential)
            case Set(expected=version):
                return protocol.SetData(path, data, version)
            case Delete(expected=version):
                return protocol.Delete(path, version)

    def _answered(self, commit: Commit, guards: Sequence[_Guard], reply: Reply) -> None:
        if reply.failure is not None:
            self._emit(Unknown(commit.commit))
            return
        if reply.code != protocol.OK:
            # Refused as a whole, before any of its operations was looked at.
            reason = f"refused: {protocol.error_name(reply.code)}"
            self._emit(Conflicted(commit.commit, commit.operations[0].write.address, reason))
            return
        refusal = protocol.refusal(reply.value)
        if refusal is None:
            self._note(commit, reply.zxid)
            self._emit(Committed(commit.commit, reply.zxid))
        elif refusal[0] == 0:
            self.is_fenced = True
            self._emit(Fenced(commit.commit))
        elif refusal[0] <= len(guards):
            self._conflicted(commit, guards[refusal[0] - 1][0], refusal[1])
        else:
            index, code = refusal[0] - len(guards), refusal[1]
            write = commit.operations[index - 1].write
            self._emit(Conflicted(commit.commit, write.address, _reason(write, code)))

    def _conflicted(self, commit: Commit, write: Write, code: int) -> None:
        """A guard was refused."""
        folder = self._lives.folder_of(write.address.path)
        reason = f"a child of {folder} was created meanwhile ({protocol.error_name(code)})"
        tell = partial(self._emit, Conflicted(commit.commit, write.address, reason))
        assert folder is not None
        if code in (protocol.NO_NODE, protocol.NODE_EXISTS):
            self._lives.refused(folder, tell)
        else:
            self._lives.give_up(folder)
            tell()

    def _note(self, commit: Commit, zxid: Zxid) -> None:
        for write in commit.writes:
            if isinstance(write, Delete):
                self._deleted(write.address.path)
            elif isinstance(write, Create) and not write.is_sequential:
                self._lives.saw(write.address.path, zxid)


def _is_of_another_life(write: Write, lives: Lives) -> bool:
    life = None if isinstance(write, Create) else write.life
    return life is not None and not lives.is_same(write.address.path, life)


def _reason(write: Write, code: int) -> str:
    verb = type(write).__name__.lower()
    expected = "" if isinstance(write, Create) else f" at version {write.expected}"
    return f"cannot {verb} {write.address.path}{expected}: {protocol.error_name(code)}"
