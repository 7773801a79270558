"""Which ids of controllers do assignments name, so that a successor knows that they host nothing?"""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.duty import Duty
from controller.core.effects import Create, Delete, Set, Write
from controller.core.outbox import Outbox
from controller.core.shared import Shared
from controller.core.state.changes import Changes
from controller.core.transactions.proposal import Atom, Proposal, Subject
from zk_layout.facts import Malformed
from zk_layout.ids import BrokerId, Replicas
from zk_layout.znodes.controller_ids import ControllerIds, ControllerIdsAddress

ADDRESS = ControllerIdsAddress()
SUBJECT = Subject("znode", ADDRESS.path)


class RecordedControllers(Duty):
    """Written when an assignment keeps such an id because no broker can take its place yet; deleted when none does."""

    def __init__(self, shared: Shared) -> None:
        """The znode as it is, is a fact."""
        self._shared = shared
        self._is_due = False

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Only assignments and registrations matter."""
        self._is_due |= bool(changes.is_initial or changes.partitions or changes.gone_topics or changes.brokers)

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Record what is named; a topic that is being decided may get a broker yet."""
        fact, transactions = self._shared.state.controller_ids, self._shared.transactions
        if not self._is_due or isinstance(fact.value, Malformed) or not transactions.may_propose(SUBJECT):
            return ()
        cluster = self._shared.cluster
        hosted = {c: cluster.hosted[c] for c in cluster.controllers if cluster.hosted.get(c)}
        if any(not transactions.busy_topics.isdisjoint(topics) for topics in hosted.values()):
            return ()
        self._is_due = False
        held: Replicas = fact.value.ids if isinstance(fact.value, ControllerIds) else ()
        # What is being moved away need not be recorded, but whoever finishes the move must still know.
        named = tuple(sorted(c for c in hosted if c in held or self._is_wanted(c)))
        if named == held:
            return ()
        why = f"assignments name the ids {list(named)} of controllers, where brokers are missing"
        write: Write
        if fact.stat is None:
            write = Create(ADDRESS, ControllerIds(named))
        elif named:
            write = Set(ADDRESS, ControllerIds(named), fact.stat.version)
        else:
            write, why = Delete(ADDRESS, fact.stat.version), "no assignment names the id of a controller any more"
        return (Proposal(SUBJECT, (Atom((write,), (why,)),)),)

    def _is_wanted(self, controller: BrokerId) -> bool:
        topics = self._shared.cluster.topics
        return any(
            controller in topics[name].partitions[number].assignment.target
            for name, numbers in self._shared.cluster.hosted[controller].items()
            for number in numbers
        )
