"""What do all duties of a term share?"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from controller.core.clients.authorization import Authorizer, Reasons, authorizer_of
from controller.core.clients.decisions import Decisions
from controller.core.clients.open_requests import Item, OpenRequests, Wanted
from controller.core.clients.outcomes import Outcomes
from controller.core.messages.events import Asked
from controller.core.messages.replies import Result
from controller.core.quotas.mutations import MutationQuotas
from controller.core.scheduling.agenda import Agenda
from controller.core.scheduling.quarantine import SetAside
from controller.core.scheduling.waits import Rest
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.core.state.cluster import ClusterState
from controller.core.state.memory import Memory
from controller.core.state.view import Cluster, Identity
from controller.core.transactions.owner import Transactions
from controller.core.transactions.sizes import RequestSizes
from zk_layout.ids import ControllerEpoch


class Decider(Protocol):
    """Who decides parts of requests of one type, as far as the others have to know."""

    def missing(self, item: Item) -> Result:
        """The answer to a part whose topic or partition does not exist."""

    def being_deleted(self, item: Item) -> Result:
        """The answer to a part whose topic is being deleted."""


class Shared(Struct, frozen=True, eq=False):
    """One of each for all duties. Rules get `cluster` only, which cannot change anything."""

    settings: MachineSettings
    is_allowed: Authorizer
    reasons: Reasons | None
    state: ClusterState
    memory: Memory
    cluster: Cluster
    transactions: Transactions
    sizes: RequestSizes
    set_aside: SetAside
    agenda: Agenda
    quotas: MutationQuotas
    requests: OpenRequests
    outcomes: Outcomes
    rest: Rest
    random: SeededRandom
    deciders: dict[type[Wanted], Decider]

    def decisions_on(self, asked: Asked) -> Decisions:
        """Who asks for something is judged by this, and it is remembered why."""
        return Decisions(asked, self.is_allowed, self.reasons)


def at_beginning(
    settings: MachineSettings,
    controller_epoch: ControllerEpoch,
    random: SeededRandom,
    is_allowed: Authorizer | None = None,
    state: ClusterState | None = None,
) -> Shared:
    """What the duties of a term share when it begins; `state` is what was folded before, if anything was."""
    state, memory = ClusterState() if state is None else state, Memory(settings.own_id)
    state.topics.set_deletes_topics(deletes_topics=settings.deletes_topics is True)
    quotas = MutationQuotas(state.quotas, settings.quota_window_s)
    requests = OpenRequests(quotas)
    identity = Identity(
        settings.own_id,
        controller_epoch,
        settings.unclean_election,
        settings.has_leader_recovery,
        settings.deletes_topics,
        settings.unclean_election_of_brokers,
    )
    cluster = Cluster(state, memory, identity)
    sizes = RequestSizes(settings.znode_size_limit, settings.chroot_bytes, settings.acl_bytes)
    set_aside = SetAside()
    judge, reasons = authorizer_of(settings.authorizer, state.rights.known)
    if is_allowed is not None:
        judge, reasons = is_allowed, None
    return Shared(
        settings,
        judge,
        reasons,
        state,
        memory,
        cluster,
        Transactions(sizes, set_aside, settings.writes_a_transaction),
        sizes,
        set_aside,
        Agenda(settings.budget.decided),
        quotas,
        requests,
        Outcomes(cluster, requests),
        Rest(),
        random,
        {},
    )
