"""What do all duties of a term share?"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from controller.core.announcing.announcements import Announcements
from controller.core.clients.authorization import Authorizer, Reasons, authorizer_of
from controller.core.clients.decisions import Decisions
from controller.core.clients.open_requests import Item, OpenRequests, Wanted
from controller.core.clients.outcomes import Outcomes
from controller.core.messages.events import Asked
from controller.core.messages.replies import Result
from controller.core.quotas.mutations import MutationQuotas
from controller.core.scheduling.agenda import Agenda
from controller.core.scheduling.quarantine import Quarantine
from controller.core.scheduling.waits import Waits
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings, TurnBudget, adjusted
from controller.core.state.cluster import ClusterState
from controller.core.state.remembered import Remembered
from controller.core.state.view import Cluster, Identity
from controller.core.transactions.owner import Transactions
from controller.core.transactions.sizes import RequestSizes
from zk_layout.ids import ControllerEpoch


class Decider(Protocol):
    """A duty that decides parts of one type of request, as seen by others."""

    def missing(self, item: Item) -> Result:
        """The answer to a part whose topic or partition does not exist."""

    def being_deleted(self, item: Item) -> Result:
        """The answer to a part whose topic is being deleted."""


class TermMemory(Protocol):
    """The memory of a term, as far as duties share it; each duty gets its own part."""

    @property
    def brokers(self) -> Announcements:
        """What the duty for brokers remembers for others."""

    def view(self) -> Remembered:
        """A live, read-only view of all parts."""


class Shared(Struct, eq=False):
    """One instance of each for all duties; only `settings` are ever replaced, by `adjust`, and `budget`, by each turn:
    what is left of it. Rules get only `cluster`, which is read-only."""

    settings: MachineSettings
    is_allowed: Authorizer
    reasons: Reasons | None
    state: ClusterState
    cluster: Cluster
    announcements: Announcements
    transactions: Transactions
    sizes: RequestSizes
    quarantine: Quarantine
    agenda: Agenda
    quotas: MutationQuotas
    requests: OpenRequests
    outcomes: Outcomes
    waits: Waits
    random: SeededRandom
    deciders: dict[type[Wanted], Decider]
    budget: TurnBudget

    def decisions_on(self, asked: Asked) -> Decisions:
        """Decide about the caller's rights, and record the reasons."""
        return Decisions(asked, self.is_allowed, self.reasons)

    def adjust(self, wanted: MachineSettings) -> None:
        """Let changed settings count from now on, as far as a term can take them."""
        self.settings = adjusted(self.settings, wanted)
        self.cluster.adjust(_identity(self.settings, self.cluster.controller_epoch))
        self.quotas.adjust(self.settings.quota_window_s)


def _identity(settings: MachineSettings, controller_epoch: ControllerEpoch) -> Identity:
    return Identity(
        settings.own_id,
        controller_epoch,
        settings.unclean_election,
        settings.has_leader_recovery,
        settings.deletes_topics,
        settings.unclean_election_of_brokers,
    )


def at_beginning(
    settings: MachineSettings,
    controller_epoch: ControllerEpoch,
    random: SeededRandom,
    memory: TermMemory,
    is_allowed: Authorizer | None = None,
    state: ClusterState | None = None,
) -> Shared:
    """Make what the duties of a term share when it begins; `state` is what was folded before, if anything was."""
    if state is None:
        state = ClusterState()
    else:
        state.was_followed = bool(state.topics.views)
    state.topics.set_deletes_topics(deletes_topics=settings.deletes_topics is True)
    quotas = MutationQuotas(state.quotas, settings.quota_window_s)
    requests = OpenRequests(quotas)
    cluster = Cluster(state, memory.view(), _identity(settings, controller_epoch))
    sizes = RequestSizes(settings.znode_size_limit, settings.chroot_bytes, settings.acl_bytes)
    quarantine = Quarantine()
    judge, reasons = authorizer_of(settings.authorizer, state.rights.known)
    if is_allowed is not None:
        judge, reasons = is_allowed, None
    return Shared(
        settings,
        judge,
        reasons,
        state,
        cluster,
        memory.brokers,
        Transactions(sizes, quarantine, settings.writes_a_transaction, counts_refusals=not settings.is_observing),
        sizes,
        quarantine,
        Agenda(),
        quotas,
        requests,
        Outcomes(cluster, requests),
        Waits(),
        random,
        {},
        settings.budget,
    )
