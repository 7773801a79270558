"""Notifications: which of the znodes that only tell something have been noted, and are to be deleted?

Whoever wrote one expects the controller to delete it: an old tool that asked for preferred leaders refuses to ask again
while its znode is there. What a notification says is done by other duties when it is first seen, however long it stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.messages.effects import Delete
from controller.core.messages.outbox import Outbox
from controller.core.state.cluster import Notification
from controller.core.transactions.proposal import Accepted, Atom, Outcome, Proposal, Subject
from controller.core.turn.duty import Duty
from controller.core.turn.shared import Shared
from zk_layout.ids import ZnodeVersion
from zk_layout.znodes.admin import PreferredElectionAddress
from zk_layout.znodes.notifications import ISR_CHANGES, LOG_DIR_EVENTS, IsrChangeAddress, LogDirEventAddress

DELETIONS_AT_ONCE = 1_000
KINDS: dict[type[Notification], tuple[Subject, str]] = {
    IsrChangeAddress: (Subject("notifications in", ISR_CHANGES), "ISR changes noted"),
    LogDirEventAddress: (Subject("notifications in", LOG_DIR_EVENTS), "log directory failure noted"),
    PreferredElectionAddress: (Subject("znode", PreferredElectionAddress().path), "preferred leaders will be elected"),
}


class Notifications(Duty):
    """Whoever may not delete one notification may not delete others of its kind either: each kind is one subject."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._refused: dict[Notification, None] = {}

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Delete what is there. Once one of a kind was refused, one at a time until one is accepted."""
        by_kind: dict[type[Notification], list[tuple[Notification, ZnodeVersion]]] = {}
        for address, version in self._shared.state.notifications.items():
            by_kind.setdefault(type(address), []).append((address, version))
        ranks = {address: rank for rank, address in enumerate(self._refused)}
        proposals = []
        for kind, found in by_kind.items():
            subject, why = KINDS[kind]
            if self._shared.transactions.may_propose(subject):
                most = 1 if self._shared.transactions.refusals(subject) else DELETIONS_AT_ONCE
                found.sort(key=lambda noted: ranks.get(noted[0], -1))
                atoms = tuple(Atom((self._removal(*noted),), (why,)) for noted in found[:most])
                proposals.append(Proposal(subject, atoms, memo=tuple(address for address, _ in found[:most])))
        return proposals

    def _removal(self, address: Notification, version: ZnodeVersion) -> Delete:
        """Names that ZooKeeper has numbered do not come back; a request for preferred leaders does."""
        if not isinstance(address, PreferredElectionAddress):
            return Delete(address, version)
        stat = self._shared.state.preferred_election.stat
        return Delete(address, version, None if stat is None else stat.czxid)

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """Those that were refused come last the next time, so that each gets its turn."""
        attempted = proposal.memo
        assert isinstance(attempted, tuple)
        for address in attempted:
            self._refused.pop(address, None)
            if not isinstance(outcome, Accepted) and address in self._shared.state.notifications:
                self._refused[address] = None
