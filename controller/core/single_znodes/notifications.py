"""Which notification znodes have been noted and can be deleted?

Writers expect the controller to delete them: an old tool that requested preferred leaders refuses to do so again while
its znode exists. Other duties react to a notification when it is first seen, however long it stays.
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
    PreferredElectionAddress: (Subject("znode", PreferredElectionAddress().path), "preferred election noted"),
}


class Notifications(Duty):
    """Deletes notifications; each kind is one subject, since permission to delete is the same for all of a kind."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._refused: dict[Notification, None] = {}

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Delete all notifications; once one of a kind was refused, one at a time until one is accepted."""
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
        """Delete one; names numbered by ZooKeeper do not return, but the request for preferred leaders does."""
        if not isinstance(address, PreferredElectionAddress):
            return Delete(address, version)
        stat = self._shared.state.preferred_election.stat
        return Delete(address, version, None if stat is None else stat.czxid)

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """Move refused ones to the end, so that each gets its turn."""
        attempted = proposal.memo
        assert isinstance(attempted, tuple)
        for address in attempted:
            self._refused.pop(address, None)
            if not isinstance(outcome, Accepted) and address in self._shared.state.notifications:
                self._refused[address] = None
