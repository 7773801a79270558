"""Which ids are those of controllers, so that a successor knows that they host nothing?

A native controller that rules for a moment may place replicas on the id of one of ours that has just died: brokers
count it as live until they hear otherwise. Whoever rules next never saw it registered.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.messages.effects import Create, Set, Write
from controller.core.messages.events import Alarm
from controller.core.messages.outbox import Outbox
from controller.core.state.changes import Changes
from controller.core.transactions.proposal import Atom, Proposal, Subject
from controller.core.turn.duty import Duty
from controller.core.turn.shared import Shared
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerId, Replicas
from zk_layout.znodes.controller_ids import ControllerIds, ControllerIdsAddress

ADDRESS = ControllerIdsAddress()
SUBJECT = Subject("znode", ADDRESS.path)
OWN_AFTER_S = 5.0


class RecordOwn(Alarm, frozen=True):
    """The term has lasted for so long that others may count this id as a broker's."""


class RecordedControllers(Duty):
    """Written once for each id that leads, and when an assignment names one; an id that a broker takes is struck."""

    alarms = (RecordOwn,)

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._is_due = False
        self._is_own_due = False

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Only assignments and registrations matter."""
        if changes.is_beginning:
            out.wake(RecordOwn(), out.now + OWN_AFTER_S)
        self._is_due |= bool(changes.is_initial or changes.partitions or changes.gone_topics or changes.brokers)

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """The own id is recorded, too: what comes first in a term is for brokers and their partitions."""
        self._is_due = self._is_own_due = True

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Record whatever is not; a topic that is being decided may get a broker yet."""
        fact, transactions = self._shared.state.controller_ids, self._shared.transactions
        if not self._is_due or isinstance(fact.value, Malformed) or not transactions.may_propose(SUBJECT):
            return ()
        cluster = self._shared.cluster
        hosted = {c: cluster.hosted[c] for c in cluster.controllers if cluster.hosted.get(c)}
        if any(not transactions.busy_topics.isdisjoint(topics) for topics in hosted.values()):
            return ()
        self._is_due = False
        held: Replicas = fact.value.ids if isinstance(fact.value, ControllerIds) else ()
        wanted = {c for c in hosted if self._is_wanted(c)}
        if self._is_own_due:
            wanted.add(cluster.own_id)
        ids = tuple(sorted(wanted.union(c for c in held if c in cluster.controllers)))
        if ids == held:
            return ()
        why = f"{list(ids)} are ids of controllers"
        write: Write
        if fact.stat is None:
            write = Create(ADDRESS, ControllerIds(ids))
        else:
            write = Set(ADDRESS, ControllerIds(ids), fact.stat.version)
        return (Proposal(SUBJECT, (Atom((write,), (why,)),)),)

    def _is_wanted(self, controller: BrokerId) -> bool:
        """What is being moved away need not be recorded."""
        topics = self._shared.cluster.topics
        return any(
            controller in topics[name].partitions[number].assignment.target
            for name, numbers in self._shared.cluster.hosted[controller].items()
            for number in numbers
        )
