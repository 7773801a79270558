"""How is a decision written, all or nothing, and only while no other controller rules?

Every transaction first checks the version of `/controller_epoch`. Transactions are sent as they come, many in
flight; ZooKeeper keeps their order, so a later one may build on an earlier one that is not answered yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from controller.core.effects import Commit, Create, Delete, Set, Write
from controller.core.events import Committed, Conflicted, Event, Fenced, Unknown
from controller.zk import protocol
from controller.zk.answers import Reply
from controller.zk.bridge import Bridge
from zk_layout.ids import ZnodeVersion
from zk_layout.znodes.controller import ControllerEpochAddress

_EPOCH_PATH: Final = ControllerEpochAddress().path
_NO_WRITES: Final = "a transaction without writes decides nothing"

DEFAULT_REQUEST_BYTES: Final = 1_048_575
"""ZooKeeper's default jute.maxbuffer."""


class Writer:
    """Writes for one term. Once fenced it sends nothing more."""

    def __init__(
        self,
        bridge: Bridge,
        emit: Callable[[Event], None],
        *,
        fence_version: ZnodeVersion,
        max_request_bytes: int = DEFAULT_REQUEST_BYTES,
        deleted: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`fence_version` is the version that `/controller_epoch` had after our own election. `deleted` is called with
        the path of each znode that is gone now, before anything that is answered later."""
        self._bridge = bridge
        self._emit = emit
        self._fence = protocol.Check(bridge.full(_EPOCH_PATH), fence_version)
        self._max_request_bytes = max_request_bytes
        self._deleted = deleted
        self.is_fenced = False

    def submit(self, commit: Commit) -> None:
        """Send a transaction; `emit` is called with its outcome, in the order of submission.

        The server would close the connection over one that is too large, again and again: that is refused here.
        """
        if not commit.operations:
            raise ValueError(_NO_WRITES)
        if self.is_fenced:
            self._emit(Fenced(commit.commit))
            return
        request = protocol.transaction(
            (self._fence, *(self._operation(made.write, made.data) for made in commit.operations)),
        )
        if request.size_bytes > self._max_request_bytes:
            largest = max(commit.operations, key=lambda made: len(made.data) + len(made.write.address.path))
            reason = f"not sent: {request.size_bytes} of {self._max_request_bytes} bytes (jute.maxbuffer)"
            self._emit(Conflicted(commit.commit, largest.write.address, reason))
            return
        self._bridge.submit(request, lambda reply: self._answered(commit, reply))

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

    def _answered(self, commit: Commit, reply: Reply) -> None:
        if reply.failure is not None:
            self._emit(Unknown(commit.commit))
            return
        if reply.code != protocol.OK:
            # Refused as a whole, before any of its operations was looked at.
            reason = f"refused: {protocol.error_name(reply.code)}"
            self._emit(Conflicted(commit.commit, commit.operations[0].write.address, reason))
            return
        refused = protocol.refusal(reply.value)
        if refused is None:
            for write in commit.writes:
                if isinstance(write, Delete):
                    self._deleted(write.address.path)
            self._emit(Committed(commit.commit, reply.zxid))
        elif refused[0] == 0:
            self.is_fenced = True
            self._emit(Fenced(commit.commit))
        else:
            index, code = refused
            write = commit.operations[index - 1].write
            self._emit(Conflicted(commit.commit, write.address, _reason(write, code)))


def _reason(write: Write, code: int) -> str:
    verb = type(write).__name__.lower()
    expected = "" if isinstance(write, Create) else f" at version {write.expected}"
    return f"cannot {verb} {write.address.path}{expected}: {protocol.error_name(code)}"
