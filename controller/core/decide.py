"""What is the next step of a topic? Asks first, then the rules, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field, structs

from controller.core import reassignment_wishes, topic_wishes
from controller.core.admin import alter_partition, alter_reassignments
from controller.core.asks import WHOLE_TOPIC, Asks, Item, moved
from controller.core.cluster import Cluster, Partition, TopicView
from controller.core.draft import Draft
from controller.core.errors import ErrorCode, Refusal
from controller.core.replies import IsrResult, Result
from controller.core.requests import AlterPartition, AlterReassignments, IsrProposal, Mode, MoveWish
from controller.core.rules import creation, election, legacy, placement, preferred, reassignment
from controller.core.rules.change import Case, Change, Gather, Look, Rule
from controller.core.stage import Stage, stage
from zk_layout.catalog import Address
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.reassignments import ROOT
from zk_layout.znodes.topics import TopicAddress

NOBODY: frozenset[BrokerId] = frozenset()
EVERY_RULE: tuple[Rule, ...] = (
    placement.next_step,
    creation.next_step,
    election.next_step,
    reassignment.next_step,
    preferred.next_step,
)
# While a topic's znode cannot be read, its partitions keep their leaders by what it said before.
WITHOUT_TOPIC_ZNODE: tuple[Rule, ...] = (election.next_step,)


class Verdict(Struct):
    """What a look at one topic came to.

    Shape:
        `settled` are parts of requests that are answered at once, `accepted` those that are answered when the
        draft's writes are done, `postponed` those that wait for the next step. `struck` are legacy entries to
        strike out, with the reason where that is a refusal. `gathered` are ends of moves that wait to be written with
        others; `ends_moves` says that some are written now. `warnings` tell of what was forced. `wished` was accepted
        through children of `/admin/reassignments`, `unwished` refused.
    """

    draft: Draft
    accepted: list[Item] = field(default_factory=list)
    postponed: list[Item] = field(default_factory=list)
    settled: list[tuple[Item, Result]] = field(default_factory=list)
    looks: list[Address] = field(default_factory=list)
    letting_go: list[TopicPartition] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    gathered: list[PartitionId] = field(default_factory=list)
    ends_moves: bool = False
    struck: dict[TopicPartition, str | None] = field(default_factory=dict)
    wished: list[TopicPartition] = field(default_factory=list)
    unwished: dict[TopicPartition, str] = field(default_factory=dict)


class Waits(Struct):
    """What is known in memory of replicas that were told to delete their logs."""

    confirmed: dict[TopicPartition, frozenset[BrokerId]] = field(default_factory=dict)
    out_of_patience: set[TopicPartition] = field(default_factory=set)
    gathering: set[TopicName] = field(default_factory=set)


def look(
    topic: TopicView,
    numbers: Iterable[PartitionId],
    items: list[Item],
    asks: Asks,
    cluster: Cluster,
    waits: Waits,
) -> Verdict:
    """Decide the step of one topic: the wishes in the order asked, then the rules for each due partition.

    A topic is deleted or grows by one wish a step. A partition for which something was asked gets nothing else in the
    same step: a leader must find in its answer the ISR it asked for, and a wish must not meet the legacy entry that it
    evicts.
    """
    verdict = Verdict(Draft(topic, cluster))
    proposed: set[PartitionId] = set()
    for item in items:
        number = item.at.partition
        if number in proposed or (verdict.draft.touches(number) and isinstance(item.wanted, IsrProposal)):
            verdict.postponed.append(item)
        elif isinstance(item.wanted, MoveWish):
            _consider_wish(item, item.wanted, _mode(asks, item), verdict, cluster, waits)
        elif isinstance(item.wanted, IsrProposal):
            proposed.add(number)
            _consider_proposal(item, item.wanted, verdict, cluster, asks)
        elif number == WHOLE_TOPIC and verdict.draft.has_grown:
            verdict.postponed.append(item)
        else:
            _consider_topic(item, verdict, cluster, asks, waits)
    waiting = _consider_znodes(topic, numbers, verdict, cluster, waits) if cluster.move_znodes.is_kept else set()
    left_alone = {at.partition for at in (*(item.at for item in verdict.accepted), *verdict.wished)}
    _look_at_due(verdict, sorted(n for n in numbers if n not in left_alone), cluster, waits)
    if cluster.move_znodes.is_kept:
        reassignment_wishes.keep(verdict.draft, {*numbers} - waiting, cluster)
    return verdict


def _look_at_due(verdict: Verdict, numbers: Iterable[PartitionId], cluster: Cluster, waits: Waits) -> None:
    topic = verdict.draft.topic
    asked_for = bool(cluster.legacy or cluster.preferring)
    for number in numbers:
        held = topic.partitions.get(number)
        if held is None:
            continue
        at = TopicPartition(topic.name, number)
        is_asked_for = asked_for and (at in cluster.legacy or at in cluster.preferring)
        if not is_asked_for and is_sound(held, topic, number, cluster):
            continue
        case = _case(verdict.draft, at, waits)
        if case is not None:
            _follow_rules(case, verdict, cluster)


def is_sound(held: Partition, topic: TopicView, number: PartitionId, cluster: Cluster) -> bool:
    """Whether no rule can have anything to say: a quick look for the many partitions at which nothing happens."""
    state = held.state
    if state is None or held.is_untold or held.assignment.is_moving or number in topic.deletions:
        return False
    brokers, replicas = cluster.brokers, held.assignment.replicas
    if cluster.shutting_down or cluster.offline_replicas or cluster.own_id in replicas:
        return False
    if state.leader not in brokers or state.leader not in replicas:
        return False
    return all(r in brokers and r in replicas for r in state.isr)


def _case(draft: Draft, at: TopicPartition, waits: Waits) -> Case | None:
    return draft.case(
        at.partition,
        waits.confirmed.get(at, NOBODY),
        is_patience_over=at in waits.out_of_patience,
        is_gathering=at.topic in waits.gathering,
    )


def _mode(asks: Asks, item: Item) -> Mode:
    request = asks.request(item.ask)
    return Mode(request.mode) if isinstance(request, AlterReassignments) else Mode.SAFE


def _unreadable(draft: Draft, at: TopicPartition) -> Refusal | None:
    """Nobody can tell what a partition's replicas or its leader are while their znode says nothing sensible."""
    held = draft.topic.partitions.get(at.partition)
    if not draft.topic.is_malformed and not (held is not None and held.is_malformed):
        return None
    path = TopicAddress(at.topic).path if draft.topic.is_malformed else StateAddress(at.topic, at.partition).path
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"{path} cannot be read; mend it first")


def _consider_wish(item: Item, wish: MoveWish, mode: Mode, verdict: Verdict, cluster: Cluster, waits: Waits) -> None:
    draft = verdict.draft
    outcome = _unreadable(draft, item.at) or alter_reassignments.consider(
        wish, _case(draft, item.at, waits), cluster, mode
    )
    if isinstance(outcome, Refusal):
        verdict.settled.append((item, moved(item, outcome.error, outcome.message)))
    elif outcome is None:
        verdict.settled.append((item, moved(item)))
    else:
        draft.take(item.at.partition, outcome)
        verdict.accepted.append(item)
        if outcome.warning is not None:
            verdict.warnings.append(outcome.warning)
        if item.at in cluster.legacy:
            draft.strike(item.at)


def _consider_znodes(
    topic: TopicView, numbers: Iterable[PartitionId], verdict: Verdict, cluster: Cluster, waits: Waits
) -> set[PartitionId]:
    """What children of `/admin/reassignments` ask for, unless a request decides about the same partition's replicas.

    Answers those that wait for the next step, because this one decides something else about them.
    """
    draft, waiting = verdict.draft, set[PartitionId]()
    for wish in reassignment_wishes.wishes(topic, numbers, cluster):
        at = wish.topic_partition
        if draft.touches(at.partition):
            waiting.add(at.partition)
            continue
        outcome = alter_reassignments.consider(wish, _case(draft, at, waits), cluster)
        if isinstance(outcome, Refusal):
            verdict.unwished[at] = outcome.message or outcome.error.name
            continue
        if outcome is not None:
            draft.take(at.partition, structs.replace(outcome, why=f"{outcome.why} by {ROOT}"))
            verdict.wished.append(at)
        if at in cluster.legacy:
            draft.strike(at)
    return waiting


def _consider_topic(item: Item, verdict: Verdict, cluster: Cluster, asks: Asks, waits: Waits) -> None:
    draft = verdict.draft
    case = None if draft.topic.is_malformed else _case(draft, item.at, waits)
    outcome = topic_wishes.consider(item, draft, case, asks, cluster)
    if outcome is None:
        verdict.accepted.append(item)
    else:
        verdict.settled.append((item, outcome))


def _consider_proposal(item: Item, proposal: IsrProposal, verdict: Verdict, cluster: Cluster, asks: Asks) -> None:
    request = asks.request(item.ask)
    if not isinstance(request, AlterPartition):
        raise TypeError(f"an ISR proposal came with {type(request).__name__}")
    outcome = alter_partition.consider(request, proposal, item.at, cluster)
    if isinstance(outcome, IsrResult):
        verdict.settled.append((item, outcome))
    else:
        verdict.draft.take(item.at.partition, outcome)
        verdict.accepted.append(item)


def _follow_rules(case: Case, verdict: Verdict, cluster: Cluster) -> None:
    target = cluster.legacy.get(case.at)
    is_asked_for = target is not None and not case.topic.is_malformed and not verdict.draft.strikes(case.at)
    if is_asked_for and _follow_legacy(case, verdict, cluster):
        return
    for rule in WITHOUT_TOPIC_ZNODE if case.topic.is_malformed else EVERY_RULE:
        step = rule(case, cluster)
        if isinstance(step, Change):
            verdict.draft.take(case.at.partition, step)
            verdict.ends_moves |= step.assignment is not None and not step.assignment.is_moving
            return
        if isinstance(step, Gather):
            verdict.gathered.append(case.at.partition)
            return
        if isinstance(step, Look):
            verdict.looks.extend(step.addresses)
            return
    if stage(case.assignment, case.state) is Stage.LETTING_GO and not case.is_untold:
        verdict.letting_go.append(case.at)


def _follow_legacy(case: Case, verdict: Verdict, cluster: Cluster) -> bool:
    """Whether the entry of the legacy znode decided this step."""
    target = cluster.legacy[case.at]
    if legacy.is_done(case, target):
        verdict.struck[case.at] = None
        return False
    outcome = legacy.next_step(case, cluster, target)
    if isinstance(outcome, Refusal):
        verdict.struck[case.at] = outcome.message
        return False
    if outcome is None:
        return False
    verdict.draft.take(case.at.partition, outcome)
    return True
