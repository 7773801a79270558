"""How is one partition's history written in a test?"""

from __future__ import annotations

from typing import Any

from metrics.replay.partitions.moves import Happened
from zk_layout.ids import BrokerId, Replicas


def ids(text: str) -> Replicas:
    return tuple(BrokerId(int(part)) for part in text.split(",") if part)


class History:
    """A history to which each call adds an event, a second after the last."""

    def __init__(self) -> None:
        self.events: list[Happened] = []
        self._leader_epoch = 0
        self._version = -1
        self._now_ms = 1_000_000

    def assigned(
        self, replicas: str, adding: str = "", removing: str = "", *, op: str = "set", fence: int | None = 1,
        after_ms: int = 1000, **more: object,
    ) -> History:  # fmt: skip
        return self._add(
            after_ms, op=op, kind="assignment", replicas=ids(replicas), adding=ids(adding), removing=ids(removing),
            fence=fence, **more,
        )  # fmt: skip

    def created(self, replicas: str) -> History:
        return self.assigned(replicas, op="create", fence=None)

    def state(
        self, leader: int, isr: str, *, raised: int = 1, epoch: int = 1, fence: int | None = 1, after_ms: int = 1000,
        skipped_versions: int = 0, session: int = 7,
    ) -> History:  # fmt: skip
        is_first = self._version < 0
        self._leader_epoch = 0 if is_first else self._leader_epoch + raised
        self._version += 1 + skipped_versions
        return self._add(
            after_ms, op="create" if is_first else "set", kind="state", leader=leader,
            leader_epoch=self._leader_epoch, controller_epoch=epoch, isr=ids(isr), version=self._version, fence=fence,
            session=session,
        )  # fmt: skip

    def isr(self, leader: int, isr: str, **more: int) -> History:
        return self.state(leader, isr, raised=0, fence=None, **more)

    def legacy(self, replicas: str) -> History:
        return self._add(1000, op="create", kind="legacy_move", replicas=ids(replicas))

    def wanted(self, replicas: str, session: int) -> History:
        """The partition's own znode below `/admin/reassignments`."""
        return self._add(1000, op="create", kind="znode_move", replicas=ids(replicas), session=session)

    def deleted(self) -> History:
        return self._add(1000, op="delete", kind="state")

    def emptied(self) -> History:
        """A person emptied the partition's state."""
        return self._add(1000, op="set", kind="state")

    def _add(self, after_ms: int, **fields: Any) -> History:
        self._now_ms += after_ms
        empty: dict[str, Any] = dict.fromkeys(Happened._fields)
        known = {"zxid": 100 + len(self.events), "time_ms": self._now_ms, "session": 7}
        self.events.append(Happened(**{**empty, **known, **fields}))
        return self


def moving() -> History:
    """A partition on 1,2 with a requested move to 3,4."""
    return History().created("1,2").state(1, "1,2").assigned("3,4,1,2", "3,4", "1,2")


def moved_as_kafka_does() -> History:
    """The writes of Kafka's own controller, from first to last."""
    return (
        moving().state(1, "1,2").isr(1, "1,2,3").isr(1, "1,2,3,4").state(3, "1,2,3,4").state(3, "2,3,4")
        .state(3, "3,4").assigned("3,4")
    )  # fmt: skip
