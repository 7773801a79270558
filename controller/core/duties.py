"""Which duties does the controller have? One line each, in the order in which the machine calls them."""

from __future__ import annotations

from controller.core.acls.duty import AclRequests
from controller.core.brokers.duty import Brokers
from controller.core.comparing.duty import Comparison
from controller.core.counts import PartitionCounts
from controller.core.elections.duty import Elections
from controller.core.isr.duty import IsrChanges
from controller.core.memory import Memory
from controller.core.metadata import Metadata
from controller.core.progress.duty import RequestProgress
from controller.core.reassignment.folder import ReassignmentFolder
from controller.core.reassignment.foreign_writes import ForeignWrites
from controller.core.reassignment.legacy_znode import LegacyZnode
from controller.core.reassignment.moves import Moves
from controller.core.reassignment.queue import MoveQueue
from controller.core.reassignment.throttles import Throttles
from controller.core.scram.duty import ScramCredentials
from controller.core.single_znodes.controller_ids import RecordedControllers
from controller.core.single_znodes.delegation_tokens import DelegationTokens
from controller.core.single_znodes.features import FeatureVersioning
from controller.core.single_znodes.notifications import Notifications
from controller.core.single_znodes.producer_ids import ProducerIds
from controller.core.single_znodes.unreadable import UnreadableZnodes
from controller.core.steps.step import TopicDuty
from controller.core.steps.steps import Steps
from controller.core.topics.by_hand import TopicsByHand
from controller.core.topics.duty import Topics
from controller.core.turn.duty import Duty
from controller.core.turn.intake import Intake
from controller.core.turn.shared import Shared


def all_duties(shared: Shared, memory: Memory, intake: Intake) -> tuple[Duty, ...]:
    """The duties of one term, in the order in which the machine calls them.

    Where the order matters:
        follow: `PartitionCounts` before `MoveQueue`, which looks for shortages among the partitions counted.
        announce: `Brokers` picks this turn's full updates before `Topics` announces deletions; the intake comes last
        and sees which brokers were sent what.
        propose: requests reach their duties earlier; `Throttles` gets a topic's settings written before `Steps` keeps
        the topic busy again; `Steps` may remove entries of the legacy znode along with other
        writes, before `LegacyZnode` removes the rest. `Comparison` comes last, and sees what all others want written.

    Otherwise no duty depends on another earlier in a turn: only `ForeignWrites` retracts, only `Brokers` amends, and
    all follow read-only changes.
    """
    foreign, queue = ForeignWrites(shared, memory.foreign_writes), MoveQueue(shared, memory.queue)
    throttles = Throttles(shared)
    legacy = LegacyZnode(shared, memory.legacy, queue, throttles)
    # These decide about single topics; their decisions about one topic form one step.
    deciders: tuple[TopicDuty, ...] = (
        IsrChanges(shared),
        Topics(shared, memory.topics),
        Elections(shared, memory.elections),
        Moves(shared, memory.moves, queue, throttles),
    )
    if shared.settings.keeps_reassignment_znodes:
        deciders = (*deciders, ReassignmentFolder(shared, memory.folder, queue, throttles, legacy.is_later_than))
    deciders = (*deciders, queue)  # what znodes ask for comes first in a step: it is later
    comparing = (Comparison(shared),) if shared.settings.is_observing else ()
    return (
        foreign,
        UnreadableZnodes(shared),
        TopicsByHand(shared),
        Brokers(shared, memory.brokers),
        PartitionCounts(shared, memory.counts),
        FeatureVersioning(shared),
        Notifications(shared),
        Metadata(shared),
        *deciders,
        throttles,
        Steps(shared, (foreign, *deciders, legacy)),
        legacy,
        ProducerIds(shared),
        DelegationTokens(shared),
        ScramCredentials(shared),
        AclRequests(shared),
        RecordedControllers(shared),
        RequestProgress(shared),
        intake,
        *comparing,
    )
