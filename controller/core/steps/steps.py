"""What is the next step of each due topic? Requests first, then the rules, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import assert_never

from msgspec.structs import replace

from controller.core.clients.open_requests import EVERY, WHOLE_TOPIC, Item, oversized, refused
from controller.core.messages.effects import Notice, Record
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Again, Alarm
from controller.core.messages.outbox import Outbox
from controller.core.messages.requests import PartitionReassignment
from controller.core.scheduling.agenda import Numbers
from controller.core.scheduling.quarantine import described
from controller.core.scheduling.waits import LongEnough
from controller.core.state.changes import Changes
from controller.core.state.topics import BLANK, Partition, TopicView
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, Gather, Look, Precedence, Rule
from controller.core.steps.draft import Draft
from controller.core.steps.isr_deadlines import IsrDeadlines, LeadersWaited
from controller.core.steps.quarantined_topics import Limit, TopicQuarantine, TopicQuarantines, TryTopicAgain
from controller.core.steps.step import Step, TopicDuty
from controller.core.steps.work import work_of
from controller.core.transactions.proposal import (
    Accepted,
    Outcome,
    Proposal,
    Refused,
    Subject,
    TooLarge,
    Unwritable,
    topic_subject,
)
from controller.core.turn.duty import Duty
from controller.core.turn.shared import Shared
from zk_layout.catalog import Address
from zk_layout.ids import PartitionId, TopicName, TopicPartition
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, StateAddress
from zk_layout.znodes.reassignments import ReassignmentAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletionsAddress
from zk_layout.znodes.topics import TopicAddress
from zk_layout.znodes.waiting_moves import WaitingMovesAddress

Noticed = dict[str, list[Notice]]

# While a topic's znode cannot be read, its partitions keep leaders and ISRs by its former content.
WITHOUT_TOPIC_ZNODE = (Precedence.LEADER, Precedence.NEW_EPOCH)
# These write states, and nothing else.
ELECTIONS = (Precedence.FIRST_LEADER, Precedence.LEADER)
STATES_ONLY = (*ELECTIONS, Precedence.NEW_EPOCH)
OF_THE_WHOLE = TopicAddress | PartitionsAddress | ReplicaDeletionsAddress | WaitingMovesAddress
MOST_SINGLE = 8


class Steps(Duty):
    """One step per topic at a time, combined from the decisions of the topic duties.

    An error costs only the topic, partition or request concerned.
    """

    alarms = (TryTopicAgain, LongEnough, LeadersWaited)

    def __init__(self, shared: Shared, deciders: Sequence[TopicDuty]) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._deciders = deciders
        self._decider_of = {part: decider for decider in deciders for part in decider.parts}
        shared.deciders.update(self._decider_of)
        rules = in_order(deciders)
        self._rules: tuple[Rule, ...] = tuple(rule for _, rule in rules)
        self._elections = tuple(rule for rank, rule in rules if rank in ELECTIONS)
        self._states_only = tuple(rule for rank, rule in rules if rank in STATES_ONLY)
        self._rules_without_topic = tuple(rule for rank, rule in rules if rank in WITHOUT_TOPIC_ZNODE)
        self._electing = tuple(d for d in deciders if any(rank in ELECTIONS for rank, _ in d.rules))
        self._blocked: dict[Subject, dict[TopicName, Numbers]] = {}
        self._quarantines = TopicQuarantines(shared.quarantine)
        self._isr_deadlines = IsrDeadlines(shared, self._quarantines)
        self._overdue: dict[TopicName, dict[PartitionId, None]] = {}

    # ---- what is due ----------------------------------------------------------------------------------------

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Schedule everything that changed."""
        agenda, topics = self._shared.agenda, self._cluster.topics
        for name, numbers in changes.partitions.items():
            agenda.add(name, () if changes.is_initial else numbers)
        for name in changes.topics:
            if name in topics:
                agenda.add(name, topics[name].deletions)
        for name in changes.marks:
            agenda.add(name, is_urgent=True)
        for name in changes.gone_topics:
            self._quarantines.forget(name)
            self._overdue.pop(name, None)
            self._shared.waits.note_topic(name)

    def announce(self, changes: Changes, out: Outbox) -> None:
        """Schedule what is seen for the first time: all duties have noted by now what they must look at there."""
        if changes.is_initial:
            for name, numbers in changes.partitions.items():
                self._shared.agenda.add(name, self._worth_a_look(name, numbers, changes.at_rest.get(name, {})))

    def _worth_a_look(
        self, name: TopicName, numbers: Mapping[PartitionId, Partition], at_rest: Mapping[PartitionId, None]
    ) -> Iterable[PartitionId]:
        """These partitions, unless no rule can have a decision about them, and nothing waits for it."""
        cluster, topic = self._cluster, self._cluster.topics.get(name)
        if topic is None or cluster.legacy or cluster.preferring or not self._shared.waits.is_idle:
            return numbers
        held, unannounced = topic.partitions, cluster.unannounced
        left = [n for n in numbers if n not in at_rest or (unannounced and TopicPartition(name, n) in unannounced)]
        return [n for n in left if not is_sound(held.get(n, BLANK), topic, n, cluster)]

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """Try a quarantined topic again, or end waits that have reached their deadline."""
        match alarm:
            case TryTopicAgain(topic):
                due = dict.fromkeys(self._quarantines.release(topic, out))
                self._overdue.setdefault(topic, {}).update(due)  # elections first: requests have waited here, too
                self._shared.agenda.add(topic, due, is_urgent=True)
            case LongEnough():
                self._shared.waits.woke(out)
            case LeadersWaited():
                self._isr_deadlines.woke(alarm, out)
            case _:
                raise TypeError(f"{alarm} is not set here")

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Propose the steps of due topics that are not under way, within a turn's budget."""
        self._unblock()
        agenda, busy = self._shared.agenda, self._shared.transactions.busy_topics
        most, held = self._shared.budget.decided, dict[Subject, None]()
        proposals: dict[TopicName, Proposal] = {}
        unseen = self._shared.state.changes.unseen
        for name, numbers in agenda.take(most, busy, unseen, waiting=partial(work_of, shared=self._shared)):
            waiting = self._shared.requests.waiting(name)
            if (proposal := self._propose(name, numbers, held, out)) is not None:
                proposals[name] = proposal
            if self._shared.settings.budget.requested < waiting > self._shared.requests.waiting(name) > 0:
                agenda.add(name, is_urgent=True)
        if agenda.has_more(busy, unseen, proposals):
            out.wake(Again(), out.now)
        self._shared.waits.do_due(out)
        return list(proposals.values())

    def _unblock(self) -> None:
        for subject in [s for s in self._blocked if not self._shared.transactions.is_busy(s)]:
            for name, numbers in self._blocked.pop(subject).items():
                self._shared.agenda.add(name, numbers, is_urgent=True)

    def _propose(self, name: TopicName, numbers: Numbers, held: dict[Subject, None], out: Outbox) -> Proposal | None:
        step = Step(name, numbers)
        most = EVERY if self._quarantines.of(name).is_limited else self._shared.settings.budget.requested
        items = self._shared.requests.take(name, most)
        try:
            self._decide(step, items, held, out)
            wanted = (*step.accepted, *step.postponed)  # a postponed part would be accepted next
            waiting = [item for item in wanted if not self._quarantines.of(name).may_try(item)]
            if waiting:
                self._shared.requests.put_back(items)
                items = [item for item in self._shared.requests.take(name, most) if item not in waiting]
                self._isr_deadlines.put_back(name, waiting, out)
                step = Step(name, numbers)
                self._decide(step, items, held, out)
        except Exception as error:
            self._contain(step, items, described(error), out)
            self._end(step, is_decided=False)
            return None
        self._end(step, is_decided=True)
        return self._conclude(step, held, out)

    def _end(self, step: Step, *, is_decided: bool) -> None:
        for decider in self._deciders:
            decider.end_step(step, is_decided=is_decided)

    def _conclude(self, step: Step, held: dict[Subject, None], out: Outbox) -> Proposal | None:
        name = step.name
        unasked = {n: None for n in self._overdue.pop(name, ()) if n not in step.numbers}
        if unasked or step.left_alone:
            self._overdue[name] = {**unasked, **step.left_alone}
        self._shared.requests.put_back(step.postponed)
        if step.waits_for is not None:
            self._shared.requests.put_back(step.accepted)
            self._blocked.setdefault(step.waits_for, {}).setdefault(name, {}).update(step.numbers)
            return None
        for notice in step.notices:
            out.add(notice)
        if step.postponed:
            self._shared.agenda.add(name, is_urgent=True)
        if step.looks:
            out.read(step.looks)
        self._note_settled(step, out)
        if not step.atoms:
            if not step.looks:
                self._quarantines.note_success(name, has_written=False)
            return None
        held.update(dict.fromkeys(step.holds))
        for number, making in step.draft.made() if step.draft is not None else ():
            self._shared.announcements.note_making(TopicPartition(name, number), making)
        return Proposal(topic_subject(name), step.atoms, tuple(step.holds), step)

    def _note_settled(self, step: Step, out: Outbox) -> None:
        """Report settled partitions to the waits: those about which no rule has a decision."""
        waits = self._shared.waits
        if waits.is_idle:
            return
        if step.draft is None:
            waits.note_topic(step.name)
            return
        is_touched = step.draft.touches
        unsettled = step.looking.keys() | step.unasked.keys() | step.elected.keys()
        settled = [n for n in step.numbers if n not in unsettled and (n in step.left_alone or not is_touched(n))]
        waits.note(step.name, settled, out)

    # ---- deciding -------------------------------------------------------------------------------------------

    def _decide(self, step: Step, items: list[Item], held: dict[Subject, None], out: Outbox) -> None:
        name, quarantine = step.name, self._quarantines.of(step.name)
        owner = next((decider for decider in self._deciders if decider.owns(name)), None)
        topic = self._cluster.topics.get(name)
        if owner is not None or topic is None:
            if owner is None or quarantine.whole:
                self._isr_deadlines.put_back(name, items, out)
            else:
                owner.decide(step, items, out)
            return
        if quarantine.whole is Limit.NOTHING:
            quarantine.due.update(step.numbers)
            for item in items:
                self._fail(item, f"topic {name} is in quarantine and retried later; the log says why", out)
            return
        step.draft = Draft(topic, self._cluster)
        _limit(step, quarantine, items)
        overdue = {n: None for n in self._overdue.get(name, ()) if n in step.numbers}
        self._ask_rules(step, overdue, quarantine, is_election=True)
        for item in items:
            self._consider(item, step, out)
        deciders = self._electing if quarantine.whole and not step.accepted else self._deciders
        for decider in deciders:
            decider.open_step(step, out)
        taken = step.taken
        left_alone = {n: None for n in step.numbers if n in step.decided or n in taken}
        self._ask_rules(step, step.numbers.keys() - left_alone.keys() - step.elected.keys(), quarantine)
        step.at = None
        for decider in deciders:
            decider.close_step(step, out)
        step.atoms = step.draft.atoms()
        for subject in step.holds:
            if subject in held or self._shared.transactions.is_busy(subject):
                step.waits_for = subject
        step.unasked, step.left_alone = dict.fromkeys(left_alone.keys() - overdue.keys()), left_alone

    def _consider(self, item: Item, step: Step, out: Outbox) -> None:
        """Consider a part; postpone it if another request claims its partition, or has created, grown or deleted its
        topic.
        """
        number = item.at.partition
        is_second = number == WHOLE_TOPIC and step.planned.is_about_the_whole
        if number in step.closed or number in step.elected or is_second:
            step.postponed.append(item)
        else:
            step.at = item
            self._decider_of[type(item.wanted)].consider(item, step, out)
            step.at = None

    def _ask_rules(
        self, step: Step, numbers: Iterable[PartitionId], quarantine: TopicQuarantine, *, is_election: bool = False
    ) -> None:
        """Apply the rules to these partitions; those about which a request has decided get nothing else in this step.

        A leader must find in its answer the ISR it requested, and a request must not meet the legacy entry that it
        evicts. In the next step elections come first there, so that a leader's repeated requests cannot prevent them.
        """
        cluster, draft = self._cluster, step.planned
        topic = draft.topic
        asked_for = bool(cluster.legacy or cluster.preferring)
        noticed: Noticed = {}
        for number in sorted(numbers):
            held = topic.partitions.get(number)
            if held is None:
                continue
            is_asked_for = asked_for and _is_asked_for(TopicPartition(topic.name, number), cluster)
            if not is_asked_for and is_sound(held, topic, number, cluster):
                continue
            limit = quarantine.limit(number)
            case = draft.case(number)
            if case is None or limit is Limit.NOTHING:
                continue
            step.at = number
            rules = self._elections if is_election or number in quarantine.partitions else self._rules
            if limit is Limit.ELECTIONS and number not in quarantine.partitions:
                rules = self._states_only
            _follow(case, self._rules_without_topic if topic.is_malformed else rules, step, cluster, noticed)
            if is_election and draft.touches(number):
                step.elected[number] = None
        for notices in noticed.values():  # partitions of a topic usually share their trouble
            more = f" (and {len(notices) - 1} more partitions)" if len(notices) > 1 else ""
            step.notices.append(replace(notices[0], text=f"{notices[0].text}{more}"))

    # ---- what goes wrong ------------------------------------------------------------------------------------

    def _contain(self, step: Step, items: list[Item], why: str, out: Outbox) -> None:
        """Answer the request that failed, or quarantine the partition or topic; then decide the rest again."""
        name, at, requests = step.name, step.at, self._shared.requests
        suspects = [at] if isinstance(at, Item) else []
        if at is None:
            suspects = items if step.draft is None else step.accepted
        for item in suspects:
            self._fail(item, why, out)
        requests.put_back(item for item in items if item not in suspects)
        if isinstance(at, Item):
            self._shared.quarantine.put(_what(at), why, out)
        elif at is None or len(self._quarantines.of(name).partitions) >= MOST_SINGLE:
            self._quarantines.put(name, why, out)
        else:
            self._quarantines.put(name, why, out, partitions=(at,))
        for decider in self._deciders:
            decider.step_settled(step, Unwritable(why), out)
        self._shared.agenda.add(name, step.numbers, is_urgent=True)
        out.wake(Again(), out.now)

    def _fail(self, item: Item, why: str, out: Outbox) -> None:
        self._shared.requests.settle(item, refused(item, ErrorCode.UNKNOWN_SERVER_ERROR, why), out)

    # ---- what became of it ----------------------------------------------------------------------------------

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """Answer requests, schedule the topic again, or queue everything to be decided again."""
        step = proposal.memo
        assert isinstance(step, Step)
        requests, agenda = self._shared.requests, self._shared.agenda
        match outcome:
            case Accepted():
                self._grant(step.accepted, out)
                for record, why in step.records():
                    out.record(record, *why)
                if step.draft is not None and (unclean := step.draft.unclean_elections()):
                    out.measured("unclean_elections", unclean)
                self._quarantines.note_success(step.name, has_written=True)
                agenda.add(step.name, step.unfinished)
            case Refused(is_waiting, about, may_be_written):
                done, left = self._carried_out(step, out) if may_be_written else ([], step.accepted)
                self._grant(done, out)
                requests.put_back(left)
                if not is_waiting or self._quarantine_refused(step, about, out):
                    agenda.add(step.name, step.numbers, is_urgent=bool(step.accepted) or is_waiting)
                    agenda.add_leaderless(step.name, self._leaderless(step))
            case Unwritable(message):
                self._refuse_unwritable(step, outcome, message, out)
            case _:
                assert_never(outcome)
        for decider in self._deciders:
            decider.step_settled(step, outcome, out)

    def _leaderless(self, step: Step) -> Iterable[PartitionId]:
        """The due partitions of a refused step whose leaders are gone: a transaction has many, most without fault."""
        states = self._cluster.states_of(step.name, step.numbers)
        return [n for n, state in states if not self._cluster.is_registered(state.leader)]

    def _grant(self, items: Iterable[Item], out: Outbox) -> None:
        for item in items:
            result = self._decider_of[type(item.wanted)].granted(item)
            if not self._shared.outcomes.expect(item, result):
                self._shared.requests.settle(item, result, out)
            self._shared.quarantine.release(_what(item))

    def _carried_out(self, step: Step, out: Outbox) -> tuple[list[Item], list[Item]]:
        """Split the accepted parts of a refused step into moves that were written, since steps are written in parts,
        and the rest.

        A written move must not be queued again: it could be decided after a later request for the same partition.
        """
        topic = self._cluster.topics.get(step.name)
        if step.draft is None or topic is None:
            return [], step.accepted
        assigned = {n: step.draft.assignment_of(n) for n in step.draft.assigned}
        written = {n for n, to in assigned.items() if n in topic.partitions and topic.partitions[n].assignment == to}
        for number in sorted(written):
            out.record(Record.MOVE, *step.draft.why(number))
        done: list[Item] = []
        left: list[Item] = []
        for item in step.accepted:
            is_done = item.at.partition in written and isinstance(item.wanted, PartitionReassignment)
            (done if is_done else left).append(item)
        return done, left

    def _quarantine_refused(self, step: Step, about: Iterable[Address], out: Outbox) -> bool:
        """Quarantine what ZooKeeper keeps refusing; return whether the rest of the topic can continue at once."""
        single, requested = dict[PartitionId, None](), dict[PartitionId, None]()
        other, existence, shared = "", "", ""
        for address in about:
            if step.draft is None or isinstance(address, TopicDeletionAddress):
                existence = address.path if step.accepted else ""
            elif isinstance(address, StateAddress | PartitionAddress | ReassignmentAddress):
                single[address.partition] = None
            elif isinstance(address, OF_THE_WHOLE):
                other = address.path
            elif numbers := [item.at.partition for item in step.accepted if item.at.partition != WHOLE_TOPIC]:
                # A znode of several topics, such as that of legacy entries, which only the requests have written.
                requested, shared = dict.fromkeys(numbers), address.path
        if requested:
            why = f"ZooKeeper refuses to write {shared}"
            self._quarantines.put(step.name, why, out, partitions=requested, holds_requests=True)
        if single:
            paths = ", ".join(map(str, list(single)[:MOST_SINGLE]))
            why = f"ZooKeeper refuses to write znodes of its partitions {paths}"
            self._quarantines.put(step.name, why, out, partitions=single, holds_requests=True)
        if other:
            self._quarantines.put(step.name, f"ZooKeeper refuses to write {other}", out, holds_requests=True)
        if existence:
            self._quarantines.hold_existence(step.name, f"ZooKeeper refuses to write {existence}", out)
        return bool(single or requested or other or existence)

    def _refuse_unwritable(self, step: Step, outcome: Unwritable, message: str, out: Outbox) -> None:
        """Refuse the accepted parts; decisions without a request are quarantined, but elections continue at once."""
        for item in step.accepted:
            if isinstance(outcome, TooLarge):
                self._shared.requests.settle(item, oversized(item, message), out)
            else:
                self._fail(item, message, out)
        if not step.accepted and not step.decided:
            self._quarantines.put(step.name, message, out)
        self._shared.agenda.add(step.name, step.numbers)

    def retry(self, proposal: Proposal, out: Outbox) -> None:
        """Schedule the refused step again."""
        step = proposal.memo
        assert isinstance(step, Step)
        self._shared.agenda.add(step.name, step.numbers, is_urgent=True)


def in_order(deciders: Iterable[TopicDuty]) -> list[tuple[Precedence, Rule]]:
    """The rules in order; README.md lists them."""
    return sorted(chain.from_iterable(decider.rules for decider in deciders), key=lambda ranked: ranked[0])


def _limit(step: Step, quarantine: TopicQuarantine, items: Iterable[Item]) -> None:
    """Limit a step; what it may not decide now is due when the quarantine ends."""
    if quarantine.is_limited:
        numbers = (*step.numbers, *(item.at.partition for item in items if item.at.partition != WHOLE_TOPIC))
        step.limited, step.is_limited = frozenset(n for n in numbers if quarantine.limit(n)), bool(quarantine.whole)
        quarantine.due.update(dict.fromkeys(step.limited))


def _what(item: Item) -> str:
    return f"a {type(item.wanted).__name__} of topic {item.at.topic}"


def _follow(case: Case, rules: Iterable[Rule], step: Step, cluster: Cluster, noticed: Noticed) -> None:
    for rule in rules:
        decided = rule(case, cluster)
        match decided:
            case None:
                continue
            case Change():
                step.planned.take(case.at.partition, decided)
                if decided.notice is not None:
                    noticed.setdefault(decided.notice.kind, []).append(decided.notice)
            case Look(addresses=addresses):
                step.looks.extend(addresses)
                step.looking[case.at.partition] = None
            case Gather():
                pass
            case _:
                assert_never(decided)
        return


def _is_asked_for(at: TopicPartition, cluster: Cluster) -> bool:
    return at in cluster.legacy or at in cluster.preferring


def is_sound(held: Partition, topic: TopicView, number: PartitionId, cluster: Cluster) -> bool:
    """Whether no rule can have a decision: a quick check for the many partitions to which nothing happens.

    Nothing happens to a move either while a replica that it adds catches up.
    """
    state, assignment = held.state, held.assignment
    if state is None or number in topic.deletions or cluster.shutting_down or cluster.offline_replicas:
        return False
    if cluster.unannounced and TopicPartition(topic.name, number) in cluster.unannounced:
        return False
    adding, replicas = assignment.adding, assignment.replicas
    if (adding or assignment.removing) and all(r in state.isr for r in adding):
        return False
    brokers = cluster.brokers
    if state.leader not in brokers or state.leader not in replicas:
        return False
    for replica in state.isr:
        if replica not in brokers or replica not in replicas:
            return False
    return cluster.controllers.keys().isdisjoint(replicas)
