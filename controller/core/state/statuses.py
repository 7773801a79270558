"""Which reassignment requests are written down in ZooKeeper, and which id is the next one's?"""

from __future__ import annotations

from msgspec import Struct

from zk_layout.bounds import HIGHEST_REQUEST_ID
from zk_layout.facts import Fact
from zk_layout.ids import ABSENT, RequestId, ZnodeVersion
from zk_layout.znodes.reassignment_status import ReassignmentStatusAddress, RequestStatus, StatusRoot


class KeptStatus(Struct, frozen=True):
    """A status as its znode shows it; None where somebody else wrote what cannot be read."""

    status: RequestStatus | None
    version: ZnodeVersion


class Statuses:
    """The children of `/admin/reassign_partitions_status`, as folded from facts."""

    def __init__(self) -> None:
        self.kept: dict[RequestId, KeptStatus] = {}
        self._appeared: dict[RequestId, None] = {}
        self.root_version = ABSENT
        self._counted = 0
        self._highest = 0

    @property
    def next_id(self) -> RequestId:
        """The version that the parent will have, or more where an id has run ahead of it.

        An id that nothing can come after does not count: anybody may have written it.
        """
        ahead = max((n for n in (self.root_version, self._counted, self._highest) if n < HIGHEST_REQUEST_ID), default=0)
        request = max(ahead, 0) + 1
        while request in self.kept:
            request += 1
        return RequestId(request)

    def take_appeared(self) -> list[RequestId]:
        """The statuses that can be read now and could not, or were not there, when this was last asked."""
        appeared, self._appeared = self._appeared, {}
        return sorted(appeared)

    def apply(self, fact: Fact) -> None:
        """Fold in a fact that is newer than what is held of the same znode."""
        if isinstance(fact.address, ReassignmentStatusAddress):
            self._apply_status(fact.address.request, fact)
            return
        self.root_version = fact.stat.version if fact.stat else ABSENT
        self._counted = fact.value.last_request_id if isinstance(fact.value, StatusRoot) else 0

    def _apply_status(self, request: RequestId, fact: Fact) -> None:
        if request <= HIGHEST_REQUEST_ID:
            self._highest = max(self._highest, request)
        if fact.stat is None:
            self.kept.pop(request, None)
        else:
            status = fact.value if isinstance(fact.value, RequestStatus) else None
            if request not in self.kept or self.kept[request].status is None:
                self._appeared[request] = None
            self.kept[request] = KeptStatus(status, fact.stat.version)
