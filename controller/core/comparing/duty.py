"""Does the controller that leads decide as this one would? Compares what changes with what this one wanted.

Only for processes that observe. What ZooKeeper shows is compared: leaders and ISRs that a controller wrote, ends of
moves, and deletions of topics. What a leader, a broker or a client asks the controller for is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count

from msgspec import Struct

from controller.core.comparing.judging import (
    ASKED,
    DIFFERENCES,
    SAME,
    UNSEEN,
    Outcome,
    Verdict,
    Written,
    is_end_of_move,
    judge,
)
from controller.core.comparing.wishes import DONE_WITHIN_S, GRACE_S, Key, Matter, Wish, Wishes
from controller.core.messages.effects import Commit, Create, Delete, Differed, Set
from controller.core.messages.events import Alarm
from controller.core.messages.outbox import Outbox
from controller.core.state.changes import Changes
from controller.core.state.topics import Partition, TopicView
from controller.core.transactions.proposal import Proposal
from controller.core.turn.duty import Duty
from controller.core.turn.shared import Shared
from zk_layout.ids import TopicName, TopicPartition
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, PartitionState, StateAddress
from zk_layout.znodes.topics import Topic, TopicAddress

LOOKS_AFTER_S = (1.0, 3.0, 10.0, 60.0)
"""A cause may be read after its effect: a difference is one if it was one at each of these looks."""
MOST_DOUBTS = 10_000
MOST_A_TURN = 500
MOST_TOLD_A_TURN = 10


class CompareAgain(Alarm, frozen=True):
    """Look again at what differed, and at what the controller that leads has not done."""


class _End(Struct, frozen=True, gc=False):
    """A move that the controller that leads ended: the partition before that."""

    at: TopicPartition
    former: Partition


class _Doubt(Struct, gc=False):
    """What looked like a difference; `looks` says how often, and it began at `since`."""

    what: Written | _End
    since: float
    looks: int = 0


class Comparison(Duty):
    """The decisions of the controller that leads beside those of this one, in one term."""

    alarms = (CompareAgain,)

    def __init__(self, shared: Shared) -> None:
        self._state, self._cluster, self._transactions = shared.state, shared.cluster, shared.transactions
        self._quarantine = shared.quarantine
        self._wishes = Wishes()
        self._doubts: list[tuple[float, int, _Doubt]] = []
        self._order = count()
        self._blind_until = 0.0
        self._counts: Counter[Outcome] = Counter()
        self._texts: list[Verdict] = []
        self._alarm: float | None = None

    # ---- what the controller that leads wrote ---------------------------------------------------------------

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Compare what has changed since the last turn. An error in comparing does not end the term."""
        is_first_sight = changes.is_beginning or changes.is_initial
        if not is_first_sight and (changes.partitions or changes.gone_topics):
            self._quarantine.attempt("the comparison of decisions", partial(self._compare_all, changes, out), out)

    def _compare_all(self, changes: Changes, out: Outbox) -> None:
        for name, numbers in changes.partitions.items():
            topic = self._cluster.topics[name]
            for number, former in numbers.items():
                now = topic.partitions[number]
                if now is not former:
                    self._compare(TopicPartition(name, number), former, now, topic, out)
        for name, gone in changes.gone_topics.items():
            self._deleted(name, gone)

    def _compare(self, at: TopicPartition, former: Partition, now: Partition, topic: TopicView, out: Outbox) -> None:
        if former.assignment != now.assignment and former.assignment.replicas:
            self._moved(at, former, now, out)
        if now.state is None or not _is_decided_by_controller(former, now.state):
            return
        wish = self._wishes.take(Key(Matter.STATE, *at))
        wanted = wish.state if wish is not None and wish.base == former.epoch else None
        written = Written(at, former, now.state, now.epoch, wanted)
        self._note_or_doubt(self._judge(written, topic), written, out)

    def _judge(self, written: Written, topic: TopicView) -> Verdict:
        held = self._state.topics.config(topic.name)
        return judge(written, topic, self._cluster, None if held is None else held.config)

    def _moved(self, at: TopicPartition, former: Partition, now: Partition, out: Outbox) -> None:
        """Judge a changed assignment: a client began or cancelled a move, or the controller that leads ended one."""
        wish = self._wishes.take(Key(Matter.END_OF_MOVE, *at))
        has_ended = former.assignment.is_moving and now.assignment.replicas == former.assignment.target
        if not has_ended:
            self._note(ASKED)
        elif wish is not None or is_end_of_move(former, now):
            self._note(SAME)
        else:
            self._doubt(_End(at, former), out)

    def _deleted(self, name: TopicName, gone: TopicView) -> None:
        wish = self._wishes.take(Key(Matter.DELETION, name))
        for number in gone.partitions if len(self._wishes) else ():
            self._wishes.take(Key(Matter.STATE, name, number))
            self._wishes.take(Key(Matter.END_OF_MOVE, name, number))
        if wish is not None:
            self._note(SAME)
        else:
            self._note(UNSEEN if gone.is_queued_for_deletion else ASKED)

    # ---- what this one wants --------------------------------------------------------------------------------

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Note what other duties had written in this turn, tell what came of comparing, and set the alarm."""
        for effect in out.effects:
            if isinstance(effect, Commit):
                self._want(effect, out)
        self._tell(out)
        self._set_alarm(out)
        return ()

    def _want(self, commit: Commit, out: Outbox) -> None:
        for write in commit.writes:
            match write:
                case Set(StateAddress() as at, PartitionState() as state) | Create(
                    StateAddress() as at, PartitionState() as state
                ):
                    self._want_state(commit, at, state, out)
                case Set(TopicAddress() as address, Topic() as value):
                    self._want_ends(commit, address.topic, value, out)
                case Delete(StateAddress() | PartitionAddress() | PartitionsAddress() | TopicAddress() as address):
                    self._wish(Key(Matter.DELETION, address.topic), commit, out)

    def _want_state(self, commit: Commit, address: StateAddress, wanted: PartitionState, out: Outbox) -> None:
        at = TopicPartition(address.topic, address.partition)
        held = self._cluster.partition(at)
        if held is None:
            return
        late, state = Outcome.NOT_THERE, held.state
        if state is not None and set(state.isr) == set(wanted.isr):
            if state.leader == wanted.leader:
                late = Outcome.NEW_EPOCH
            elif self._cluster.is_online(state.leader, at) and state.leader in held.assignment.target:
                late = Outcome.OWN_TIME
        wish = Wish(commit.commit, commit.why, out.now, out.now, late, held.epoch, wanted)
        self._remember(Key(Matter.STATE, *at), wish, out)

    def _want_ends(self, commit: Commit, name: TopicName, value: Topic, out: Outbox) -> None:
        for number in self._cluster.moving.get(name, ()):
            wanted = value.partitions.get(number)
            if wanted is not None and not wanted.is_moving:
                self._wish(Key(Matter.END_OF_MOVE, name, number), commit, out)

    def _wish(self, key: Key, commit: Commit, out: Outbox) -> None:
        self._remember(key, Wish(commit.commit, commit.why, out.now, out.now), out)

    def _remember(self, key: Key, wish: Wish, out: Outbox) -> None:
        if not self._wishes.note(key, wish):
            self._blind_until = out.now + DONE_WITHIN_S

    # ---- what came of it ------------------------------------------------------------------------------------

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """Look again at what differed, and at what has not been done; a part of it at once."""
        self._alarm = None
        for _ in range(MOST_A_TURN):
            if not self._doubts or self._doubts[0][0] > out.now:
                break
            _, _, doubt = heappop(self._doubts)
            verdict = self._judge_again(doubt.what)
            doubt.looks += 1
            if verdict.outcome in DIFFERENCES and doubt.looks < len(LOOKS_AFTER_S):
                self._look_later(doubt)
            else:
                self._note(verdict)
        for key, wish in self._wishes.overdue(out.now, MOST_A_TURN):
            if self._transactions.writes(wish.commit):
                wish.is_told = True
                self._note(self._undone(key, wish))
            elif out.now - wish.renewed < GRACE_S:
                self._wishes.wait_for(key, out.now + GRACE_S)  # it may just be decided again
            else:
                self._wishes.take(key)

    def _undone(self, key: Key, wish: Wish) -> Verdict:
        if wish.late not in DIFFERENCES or len(self._texts) >= MOST_TOLD_A_TURN:
            return Verdict(wish.late)
        what = _why(key, wish.why)
        text = f"{what}: this one would have, and the controller that leads has not for {DONE_WITHIN_S:.0f} s"
        return Verdict(wish.late, text)

    def _judge_again(self, doubt: Written | _End) -> Verdict:
        topic = self._cluster.topics.get(doubt.at.topic)
        now = None if topic is None else topic.partitions.get(doubt.at.partition)
        if topic is None or now is None:
            return UNSEEN
        if isinstance(doubt, Written):
            return self._judge(doubt, topic)
        if is_end_of_move(doubt.former, now):
            return SAME
        text = f"{doubt.at}: the controller that leads ended the move; this one would not have yet"
        return Verdict(Outcome.NOT_HERE, text)

    def _note_or_doubt(self, verdict: Verdict, written: Written, out: Outbox) -> None:
        if verdict.outcome in DIFFERENCES:
            self._doubt(Written(written.at, written.former, written.state, written.epoch), out)
        else:
            self._note(verdict)

    def _doubt(self, what: Written | _End, out: Outbox) -> None:
        if out.now < self._blind_until or len(self._doubts) >= MOST_DOUBTS:
            self._note(UNSEEN)
        else:
            self._look_later(_Doubt(what, out.now))

    def _look_later(self, doubt: _Doubt) -> None:
        heappush(self._doubts, (doubt.since + LOOKS_AFTER_S[doubt.looks], next(self._order), doubt))

    def _note(self, verdict: Verdict) -> None:
        self._counts[verdict.outcome] += 1
        if verdict.text and len(self._texts) < MOST_TOLD_A_TURN:
            self._texts.append(verdict)

    def _tell(self, out: Outbox) -> None:
        for outcome, compared in self._counts.items():
            out.measured("compared_decisions", compared, outcome.value)
        for verdict in self._texts:
            out.add(Differed(verdict.outcome.value, verdict.text))
        told = Counter(verdict.outcome for verdict in self._texts)
        for outcome in sorted(DIFFERENCES & self._counts.keys()):
            if (more := self._counts[outcome] - told[outcome]) > 0:
                out.add(Differed(outcome.value, f"and {more} more at the same moment"))
        self._counts.clear()
        self._texts.clear()

    def _set_alarm(self, out: Outbox) -> None:
        due = [self._doubts[0][0]] if self._doubts else []
        if (next_due := self._wishes.next_due) is not None:
            due.append(next_due)
        if due and (self._alarm is None or min(due) < self._alarm):
            self._alarm = min(due)
            out.wake(CompareAgain(), self._alarm)


def _is_decided_by_controller(former: Partition, state: PartitionState) -> bool:
    """Whether a controller wrote the state by its own decision: leaders change ISRs within a leader epoch.

    False for a state seen for the first time that has a history.
    """
    if former.state is None:
        return state.leader_epoch == 0
    return state.leader_epoch > former.state.leader_epoch


def _why(key: Key, sentences: tuple[str, ...]) -> str:
    """The sentence of a transaction that is about this."""
    if key.matter is Matter.DELETION:
        return f"delete topic {key.topic}"
    name = str(TopicPartition(key.topic, key.partition))
    return next((why for why in sentences if name in why.replace(":", " ").replace(";", " ").split()), f"write {name}")
