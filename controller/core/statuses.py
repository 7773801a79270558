"""Which reassignment requests are written down in ZooKeeper, and which id is the next one's?"""

from __future__ import annotations

from msgspec import Struct

from zk_layout.facts import Fact, is_newer
from zk_layout.ids import RequestId, ZnodeVersion, Zxid
from zk_layout.znodes.reassignment_status import (
    ReassignmentStatusAddress,
    RequestStatus,
    StatusRoot,
    StatusRootAddress,
)

ABSENT = ZnodeVersion(-1)


class KeptStatus(Struct, frozen=True):
    """A status as its znode shows it; None where somebody else wrote what cannot be read."""

    status: RequestStatus | None
    version: ZnodeVersion
    as_of: Zxid


class Statuses:
    """The children of `/admin/reassign_partitions_status`, as folded from facts."""

    def __init__(self) -> None:
        """Nothing seen yet."""
        self.kept: dict[RequestId, KeptStatus] = {}
        self.root_version = ABSENT
        self._root_as_of = Zxid(-1)
        self._highest = 0

    @property
    def next_id(self) -> RequestId:
        """The version that the parent will have, or more where an id has run ahead of it."""
        return RequestId(max(self.root_version, self._highest, 0) + 1)

    def apply(self, fact: Fact) -> None:
        """Fold one fact in."""
        match fact.address:
            case StatusRootAddress():
                if is_newer(fact, self._root_as_of, is_held_present=self.root_version != ABSENT):
                    self._root_as_of = fact.as_of
                    self.root_version = fact.stat.version if fact.stat else ABSENT
                    if isinstance(fact.value, StatusRoot):
                        self._highest = max(self._highest, fact.value.last_request_id)
            case ReassignmentStatusAddress(request):
                self._apply_status(request, fact)
            case _:
                pass

    def _apply_status(self, request: RequestId, fact: Fact) -> None:
        self._highest = max(self._highest, request)
        held = self.kept.get(request)
        if held is not None and not is_newer(fact, held.as_of):
            return
        if fact.stat is None:
            self.kept.pop(request, None)
            return
        status = fact.value if isinstance(fact.value, RequestStatus) else None
        self.kept[request] = KeptStatus(status, fact.stat.version, fact.as_of)
