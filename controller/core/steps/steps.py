"""What is the next step of each topic that is due? Requests first, then the rules, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import assert_never

from controller.core.agenda import Numbers
from controller.core.clients.open_requests import WHOLE_TOPIC, Item, oversized
from controller.core.duty import Duty
from controller.core.events import Again
from controller.core.outbox import Outbox
from controller.core.shared import Shared
from controller.core.state.changes import Changes
from controller.core.state.topics import Partition, TopicView
from controller.core.steps.change import Case, Change, Gather, Look, Precedence, Rule
from controller.core.steps.draft import Draft
from controller.core.steps.step import Step, TopicDuty
from controller.core.transactions.proposal import (
    Accepted,
    Outcome,
    Proposal,
    Refused,
    Subject,
    TooLarge,
    topic_subject,
)
from controller.core.view import Cluster
from zk_layout.ids import TopicName, TopicPartition

# While a topic's znode cannot be read, its partitions keep their leaders by what it said before.
WITHOUT_TOPIC_ZNODE = (Precedence.LEADER,)


class Steps(Duty):
    """One step a topic at a time, put together from what the topic duties decide."""

    def __init__(self, shared: Shared, deciders: Sequence[TopicDuty]) -> None:
        """Nothing is due."""
        self._shared = shared
        self._cluster = shared.cluster
        self._deciders = deciders
        self._decider_of = {part: decider for decider in deciders for part in decider.parts}
        shared.deciders.update(self._decider_of)
        rules = sorted(chain.from_iterable(decider.rules for decider in deciders), key=lambda ranked: ranked[0])
        self._rules: tuple[Rule, ...] = tuple(rule for _, rule in rules)
        self._rules_without_topic = tuple(rule for rank, rule in rules if rank in WITHOUT_TOPIC_ZNODE)
        self._blocked: dict[Subject, dict[TopicName, Numbers]] = {}

    # ---- what is due ----------------------------------------------------------------------------------------

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Whatever has changed is looked at."""
        agenda, topics = self._shared.agenda, self._cluster.topics
        for name, numbers in changes.partitions.items():
            agenda.add(name, numbers)
        for name in changes.topics:
            if name in topics:
                agenda.add(name, topics[name].deletions)
        for name in changes.marks:
            agenda.add(name, is_urgent=True)

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """The steps of the topics that are due and not under way, within a turn's budget."""
        self._unblock()
        agenda, busy = self._shared.agenda, self._shared.transactions.busy_topics
        held: dict[Subject, None] = {}
        proposals: dict[TopicName, Proposal] = {}
        unseen = self._shared.state.changes.unseen
        for name, numbers in agenda.take(busy, unseen, waiting=self._shared.requests.waiting):
            proposal = self._propose(name, numbers, held, out)
            if proposal is not None:
                proposals[name] = proposal
        if agenda.has_more(busy, unseen, proposals):
            out.wake(Again(), out.now)
        self._shared.rest.do_due(out)
        return list(proposals.values())

    def _unblock(self) -> None:
        for subject in [s for s in self._blocked if not self._shared.transactions.is_busy(s)]:
            for name, numbers in self._blocked.pop(subject).items():
                self._shared.agenda.add(name, numbers, is_urgent=True)

    def _propose(self, name: TopicName, numbers: Numbers, held: dict[Subject, None], out: Outbox) -> Proposal | None:
        step = self._decide(name, numbers, held, out)
        self._shared.requests.put_back(step.postponed)
        if step.waits_for is not None:
            self._shared.requests.put_back(step.accepted)
            self._blocked.setdefault(step.waits_for, {}).setdefault(name, {}).update(numbers)
            return None
        for notice in step.notices:
            out.add(notice)
        if step.postponed:
            self._shared.agenda.add(name, is_urgent=True)
        if step.looks:
            out.read(step.looks)
        if not step.atoms:
            if not step.looks and not self._shared.agenda.is_due(name):
                self._shared.rest.note(name)
            return None
        held.update(dict.fromkeys(step.holds))
        return Proposal(topic_subject(name), step.atoms, tuple(step.holds), step)

    # ---- deciding -------------------------------------------------------------------------------------------

    def _decide(self, name: TopicName, numbers: Numbers, held: dict[Subject, None], out: Outbox) -> Step:
        items = self._shared.requests.take(name)
        step = Step(name, numbers)
        owner = next((decider for decider in self._deciders if decider.owns(name)), None)
        topic = self._cluster.topics.get(name)
        if owner is not None or topic is None:
            if owner is not None:
                owner.decide(step, items, out)
            return step
        step.draft = Draft(topic, self._cluster)
        for item in items:
            self._consider(item, step, out)
        for decider in self._deciders:
            decider.open_step(step, out)
        self._ask_rules(step)
        for decider in self._deciders:
            decider.close_step(step, out)
        step.atoms = step.draft.atoms()
        for subject in step.holds:
            if subject in held or self._shared.transactions.is_busy(subject):
                step.waits_for = subject
        preferring = self._shared.memory.preferring
        for number in numbers if preferring else ():
            preferring.pop(TopicPartition(name, number), None)
        return step

    def _consider(self, item: Item, step: Step, out: Outbox) -> None:
        """A topic is deleted or grows by one request a step, and some requests want a partition for themselves."""
        number = item.at.partition
        if number in step.closed or (number == WHOLE_TOPIC and step.planned.is_about_the_whole):
            step.postponed.append(item)
        else:
            self._decider_of[type(item.wanted)].consider(item, step, out)

    def _ask_rules(self, step: Step) -> None:
        """A partition about which a request has decided gets nothing else in the same step.

        A leader must find in its answer the ISR it asked for, and a request must not meet the legacy entry that it
        evicts.
        """
        cluster, draft = self._cluster, step.planned
        topic = draft.topic
        left_alone = {item.at.partition for item in step.accepted} | step.decided.keys()
        asked_for = bool(cluster.legacy or cluster.preferring)
        rules = self._rules_without_topic if topic.is_malformed else self._rules
        for number in sorted(n for n in step.numbers if n not in left_alone):
            held = topic.partitions.get(number)
            if held is None:
                continue
            at = TopicPartition(topic.name, number)
            is_asked_for = asked_for and (at in cluster.legacy or at in cluster.preferring)
            if not is_asked_for and is_sound(held, topic, at, cluster):
                continue
            case = draft.case(number)
            if case is not None:
                _follow(case, rules, step, cluster)

    # ---- what became of it ----------------------------------------------------------------------------------

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """Answer, look at the topic again, or put everything back to be decided anew."""
        step = proposal.memo
        assert isinstance(step, Step)
        requests, agenda = self._shared.requests, self._shared.agenda
        match outcome:
            case Accepted():
                for item in step.accepted:
                    result = self._decider_of[type(item.wanted)].granted(item)
                    if not self._shared.outcomes.expect(item, result):
                        requests.settle(item, result, out)
                agenda.add(step.name, step.numbers)
            case Refused(is_waiting):
                requests.put_back(step.accepted)
                if not is_waiting:
                    agenda.add(step.name, step.numbers, is_urgent=bool(step.accepted))
            case TooLarge(message):
                self._refuse_oversized(step, message, out)
            case _:
                assert_never(outcome)
        for decider in self._deciders:
            decider.step_settled(step, outcome, out)

    def _refuse_oversized(self, step: Step, message: str, out: Outbox) -> None:
        requests, agenda = self._shared.requests, self._shared.agenda
        for item in step.accepted:
            requests.settle(item, oversized(item, message), out)
        if step.accepted or step.decided:
            agenda.add(step.name, step.numbers)
        if agenda.is_due(step.name) or self._blocked:
            out.wake(Again(), out.now)  # nothing is under way that would bring the next turn

    def retry(self, proposal: Proposal, out: Outbox) -> None:
        """Look again at what was refused."""
        step = proposal.memo
        assert isinstance(step, Step)
        self._shared.agenda.add(step.name, step.numbers, is_urgent=True)


def _follow(case: Case, rules: Iterable[Rule], step: Step, cluster: Cluster) -> None:
    for rule in rules:
        decided = rule(case, cluster)
        match decided:
            case None:
                continue
            case Change():
                step.planned.take(case.at.partition, decided)
            case Look(addresses=addresses):
                step.looks.extend(addresses)
            case Gather():
                pass
            case _:
                assert_never(decided)
        return


def is_sound(held: Partition, topic: TopicView, at: TopicPartition, cluster: Cluster) -> bool:
    """Whether no rule can have anything to say: a quick look for the many partitions at which nothing happens."""
    state = held.state
    if state is None or held.assignment.is_moving or at.partition in topic.deletions or at in cluster.untold:
        return False
    brokers, replicas = cluster.brokers, held.assignment.replicas
    if cluster.shutting_down or cluster.offline_replicas or cluster.own_id in replicas:
        return False
    if state.leader not in brokers or state.leader not in replicas:
        return False
    return all(r in brokers and r in replicas for r in state.isr)
