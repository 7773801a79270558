"""Which duties does the controller have? One line each, in the order in which the machine calls them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.core.acls.duty import AclRequests
from controller.core.brokers.duty import Brokers
from controller.core.counts import PartitionCounts
from controller.core.elections.duty import Elections
from controller.core.isr.duty import IsrChanges
from controller.core.metadata import Metadata
from controller.core.progress.duty import RequestProgress
from controller.core.reassignment.folder import ReassignmentFolder
from controller.core.reassignment.foreign_writes import ForeignWrites
from controller.core.reassignment.legacy_znode import LegacyZnode
from controller.core.reassignment.moves import Moves
from controller.core.scram.duty import ScramCredentials
from controller.core.single_znodes.controller_ids import RecordedControllers
from controller.core.single_znodes.delegation_tokens import DelegationTokens
from controller.core.single_znodes.features import FeatureVersioning
from controller.core.single_znodes.notifications import Notifications
from controller.core.single_znodes.producer_ids import ProducerIds
from controller.core.single_znodes.unreadable import UnreadableZnodes
from controller.core.steps.step import TopicDuty
from controller.core.steps.steps import Steps
from controller.core.topics.duty import Topics
from controller.core.turn.duty import Duty
from controller.core.turn.intake import Intake
from controller.core.turn.shared import Shared

BEFORE_STEPS: Sequence[Callable[[Shared], Duty]] = (
    UnreadableZnodes,
    Brokers,
    PartitionCounts,
    FeatureVersioning,
    Notifications,
    Metadata,
)
AFTER_STEPS: Sequence[Callable[[Shared], Duty]] = (
    ProducerIds,
    DelegationTokens,
    ScramCredentials,
    AclRequests,
    RecordedControllers,
    RequestProgress,
)
# These decide about single topics; their decisions about one topic form one step.
DECIDERS: Sequence[Callable[[Shared], TopicDuty]] = (IsrChanges, Topics, Elections, Moves)


def all_duties(shared: Shared, intake: Intake) -> tuple[Duty, ...]:
    """The duties of one term, in the order in which the machine calls them.

    Where the order matters:
        amend: `ForeignWrites` restores the replicas in force before `Brokers` examines which brokers host what.
        tell: `Brokers` picks this turn's full updates before `Topics` announces deletions; the intake comes last and
        sees which brokers were sent what.
        propose: requests reach their duties earlier; `Steps` may remove entries of the legacy znode along with
        other writes, before `LegacyZnode` removes the rest.
    During `follow` the changes are read-only, so no duty depends on another.
    """
    folder = (ReassignmentFolder(shared),) if shared.settings.keeps_reassignment_znodes else ()
    legacy, foreign = LegacyZnode(shared), ForeignWrites(shared)
    deciders = (*(decider(shared) for decider in DECIDERS), *folder, legacy)
    return (
        foreign,
        *(duty(shared) for duty in BEFORE_STEPS),
        *deciders[:-1],
        Steps(shared, (foreign, *deciders)),
        legacy,
        *(duty(shared) for duty in AFTER_STEPS),
        intake,
    )
