"""Which accepted transactions can their controller not know of (decision 82)?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from controller.core.messages.commands import PartitionView
from controller.core.messages.effects import Commit, Delete
from controller.core.messages.events import CommitId
from controller.core.transactions.owner import PROOFS
from zk_layout.ids import ControllerEpoch, TopicName
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

if TYPE_CHECKING:
    from tests.simulation.checker import Checker


class _Doubt(Struct, frozen=True, eq=False):
    """A topic's value before and after a transaction; `proofs` are the znodes of which any one shows the outcome."""

    epoch: ControllerEpoch
    before: Topic
    after: Topic
    proofs: tuple[str, ...]


class Doubts:
    """The topics that a transaction has changed, until its controller knows."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._accepted: dict[tuple[ControllerEpoch, CommitId], dict[TopicName, _Doubt]] = {}
        self._lost: dict[TopicName, _Doubt] = {}

    def accepted(self, epoch: ControllerEpoch, commit: Commit) -> None:
        """ZooKeeper accepts a transaction, which the checker's topics do not show yet.

        It carries the versions of the topics it writes: their controller is in no doubt about these.
        """
        written = [w for w in commit.writes if not isinstance(w, Delete)]
        proofs = tuple(w.address.path for w in written if isinstance(w.address, PROOFS))
        for write in commit.writes:
            if isinstance(write.address, TopicAddress):
                self._lost.pop(write.address.topic, None)
        for write in written:
            before = self._checker.topics.get(write.address.topic) if isinstance(write.address, TopicAddress) else None
            if before is not None and isinstance(write.address, TopicAddress) and isinstance(write.value, Topic):
                doubts = self._accepted.setdefault((epoch, commit.commit), {})
                doubts[write.address.topic] = _Doubt(epoch, before, write.value, proofs)

    def answered(self, epoch: ControllerEpoch, commit: CommitId) -> None:
        """The controller knows the outcome."""
        self._accepted.pop((epoch, commit), None)

    def lost(self, epoch: ControllerEpoch, commit: CommitId) -> None:
        """The answer is lost: the controller has to read."""
        self._lost.update(self._accepted.pop((epoch, commit), {}))

    def announced(self, epoch: ControllerEpoch, view: PartitionView) -> None:
        """A controller that announces what only the transaction wrote has found it out."""
        doubt = self._lost.get(view.topic)
        after = None if doubt is None else doubt.after.partitions.get(view.partition)
        if doubt is None or doubt.epoch != epoch or after is None:
            return
        if is_of(view, after) and not _is_former(view, doubt):
            del self._lost[view.topic]

    def excuses(self, epoch: ControllerEpoch, view: PartitionView) -> bool:
        """Whether the controller may announce the former replicas: nothing that proves the transaction can be read."""
        doubt = self._lost.get(view.topic)
        if doubt is None or doubt.epoch != epoch or not _is_former(view, doubt):
            return False
        return all(map(self._checker.may_be_unread, doubt.proofs))


def _is_former(view: PartitionView, doubt: _Doubt) -> bool:
    """Whether a view shows what was before the transaction: a move, or in its last stage only its target."""
    before = doubt.before.partitions.get(view.partition)
    return before is not None and (is_of(view, before) or is_of(view, Assignment(before.target)))


def is_of(view: PartitionView, accepted: Assignment) -> bool:
    """Whether these replicas are announced correctly with this ISR.

    An unlisted in-sync replica is announced as leaving: a change of a topic may take several transactions.
    """
    unlisted = tuple(r for r in view.isr if r not in accepted.replicas)
    leaving = {*accepted.removing, *unlisted}
    return (
        view.replicas == (*accepted.replicas, *unlisted)
        and view.adding == accepted.adding
        and {*view.removing} == leaving
    )
