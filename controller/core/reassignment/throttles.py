"""How are moves throttled whose request gives a rate, and what remains of that when they are over? Nothing.

The receiving replicas are listed in the settings of their topics, and their brokers given the rate, before a move of
the request begins. A replica leaves the list when it is in sync, or its move is over; a broker loses the rate with its
last replica. Whatever was set before is then as it was.

Our records say what is owed to the settings. Each is written with the settings it is about, so a successor goes on from
there. What someone else has changed meanwhile is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from math import inf

from msgspec import Struct

from controller.core.messages.events import Again, Alarm, BrokerConfigDescribed, CallId, LogEndsDescribed
from controller.core.messages.outbox import Outbox
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.core.reassignment.asked_throttle import AskedThrottle
from controller.core.reassignment.barrier import FIXED_S, PATIENCE_S, Barrier
from controller.core.reassignment.default_throttle import DefaultThrottle
from controller.core.reassignment.held_moves import HeldMoves
from controller.core.reassignment.receiving_rates import ReceivingRates
from controller.core.reassignment.throttle_rules import Wish, broker_wish, topic_wish
from controller.core.reassignment.throttle_writes import (
    broker_of,
    named,
    reason,
    record_of,
    record_writes,
    settings_of,
    settings_writes,
    subject_of,
)
from controller.core.settings import MachineSettings
from controller.core.state.changes import Changes
from controller.core.state.throttles import Throttled
from controller.core.transactions.proposal import (
    Accepted,
    Atom,
    Outcome,
    Proposal,
    Refused,
    Unwritable,
    topic_subject,
)
from controller.core.turn.duty import Duty, Report
from controller.core.turn.shared import Shared
from zk_layout.codec import Malformed
from zk_layout.facts import Fact
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition
from zk_layout.znodes.configs import Config
from zk_layout.znodes.throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    ThrottledBroker,
    ThrottledTopic,
)

# Each change of a list makes every broker read it again.
SPACING_S = 1.0
AT_ONCE = 100
YIELDED = "changed throttle"
UNTHROTTLED = "unthrottled moves"

Fail = Callable[[CallId, str, Outbox], None]
Start = Callable[[CallId, Outbox], None]


class ThrottlesDue(Alarm, frozen=True):
    """A throttle is in force by now, or a list may be changed again."""


class _Memo(Struct, frozen=True, eq=False):
    """What a proposal is about, and for which requests; the value of the setting, if that is written.

    Shape:
        `begun` are replicas of moves that have begun without a throttle.
    """

    of: Throttled
    calls: tuple[CallId, ...]
    value: str | None
    begun: tuple[str, ...] = ()


class Throttles(Duty):
    """The throttles of one term's moves."""

    alarms = (ThrottlesDue,)

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._znodes = shared.state.throttles
        # No broker is older than the protocol between them; a rate is shown from 2.8 on, as topics have ids.
        self._barrier = Barrier(shared.cluster, do_brokers_show=shared.settings.assigns_topic_ids)
        self._default = DefaultThrottle(shared.cluster)
        self._held = HeldMoves(shared.cluster)
        self._batches = 0
        self._asked: dict[CallId, AskedThrottle] = {}
        self._due: dict[Throttled, None] = {}
        self._lists: dict[TopicName, Mapping[str, int]] = {}
        self._rates = ReceivingRates(shared)
        self._unlisted: dict[TopicName, None] = {}
        self._written_at: dict[TopicName, float] = {}
        self._alarm_at: float | None = None
        self._start: Start | None = None
        self._fail: Fail | None = None

    def serve(self, start: Start, fail: Fail) -> None:
        """Learn how a request goes on once its throttle is in force, and how it is refused if it cannot be."""
        self._start, self._fail = start, fail

    def ask(self, call: CallId, request: AlterReassignments) -> bool:
        """Throttle the moves of a request before they begin; return whether there is anything to throttle."""
        default = self._shared.settings.moves_throttle
        rate = default if request.throttle is None else request.throttle
        if rate is None:
            return False
        lists: dict[TopicName, dict[str, int]] = {}
        for wanted in request.reassignments:
            name = wanted.topic_partition.topic
            for broker in self._receivers(wanted.topic_partition, wanted.replicas or ()):
                entry = f"{wanted.topic_partition.partition}:{broker}"
                if request.throttle is not None or entry not in self._ours(name):
                    lists.setdefault(name, {})[entry] = rate
        if not lists:
            return False
        targets = {wanted.topic_partition: wanted.replicas for wanted in request.reassignments}
        self._ask(call, AskedThrottle(targets, lists, {}))
        return True

    def hold(self, at: TopicPartition, target: Replicas) -> bool:
        """Hold a move that a znode asks for until its throttle is in force; return whether it is held now.

        Its partition is due as soon as it may begin.
        """
        settings = self._shared.settings
        if settings.moves_throttle is None or settings.is_observing:
            return False
        return any(True for _ in self._receivers(at, target)) and self._held.hold(at, target)

    def go_on(self, out: Outbox) -> None:
        """See to it that the throttles of moves that are held now are asked for: a step comes after that in a turn."""
        if self._held.is_any_new:
            out.wake(Again(), out.now)

    def _ask_for_held(self, out: Outbox) -> None:
        """Ask for the throttles of moves that are held since the last turn, as if one request had asked for them."""
        new, rate = self._held.take_new(), self._shared.settings.moves_throttle
        if not new:
            return
        lists = {} if rate is None else self._entries_of(new, rate)
        self._batches += 1
        self._ask(CallId(-self._batches), AskedThrottle({}, lists, {}, held=new))
        self._wake(out.now, out)

    def _entries_of(self, moves: Mapping[TopicPartition, Replicas], rate: int) -> dict[TopicName, dict[str, int]]:
        """What is to be listed; what is listed already keeps the rate of the request that it is of."""
        lists: dict[TopicName, dict[str, int]] = {}
        for at, target in moves.items():
            for entry in (f"{at.partition}:{broker}" for broker in self._receivers(at, target)):
                lists.setdefault(at.topic, {})[entry] = self._ours(at.topic).get(entry, rate)
        return lists

    def _ask(self, call: CallId, asked: AskedThrottle) -> None:
        asked.missing.update(dict.fromkeys(asked.lists))
        asked.missing.update({broker_of(entry): None for listed in asked.lists.values() for entry in listed})
        self._asked[call] = asked
        self._due.update(asked.missing)

    def take(self, call: CallId, at: TopicPartition) -> bool:
        """Take in that a part is being decided; return whether a later request has overruled it meanwhile."""
        asked = self._asked.get(call)
        if asked is None:
            return False
        asked.targets.pop(at, None)
        return at in asked.superseded

    def supersede(self, call: CallId, wanted: PartitionReassignment) -> bool:
        """Let an accepted part overrule others that came before, and wait; return whether there are any."""
        at, is_any = wanted.topic_partition, False
        for earlier, asked in self._asked.items():
            if earlier < call and at in asked.targets and asked.targets[at] != wanted.replicas:
                del asked.targets[at]
                asked.superseded[at] = None
                is_any = True
        return is_any

    def _receivers(self, at: TopicPartition, target: Replicas) -> Iterator[BrokerId]:
        held = self._cluster.partition(at)
        if held is None:
            return
        in_sync = () if held.state is None else held.state.isr
        settled = [r for r in held.assignment.replicas if r not in held.assignment.adding]
        yield from (r for r in target if r >= 0 and r not in settled and r not in in_sync)

    # ---- what happens ---------------------------------------------------------------------------------------

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Look again at lists whose partitions have changed."""
        records, default = self._znodes.records, self._shared.settings.moves_throttle
        if default is not None and changes.is_beginning:
            self._default.begin()
        elif default is not None and not self._shared.settings.is_observing:
            self._due.update(dict.fromkeys(self._default.follow(changes, default, self._ours)))
        if changes.is_beginning:
            self._due.update(dict.fromkeys(records))
            self._unlisted = {of: None for of in records if isinstance(of, str)}
            self._rates.begin(records, out)
        self._rates.follow(changes)
        self._due.update(self._znodes.take_changed())
        for call in tuple(self._asked):
            if call > 0 and not self._shared.requests.is_open(call):
                self._end(call)
        if records:
            for name in (*changes.partitions, *changes.gone_topics, *changes.waiting):
                if name in records:
                    self._due[name] = None

    def _end(self, call: CallId) -> None:
        """Forget a request that has its answer, or a batch that may begin."""
        asked = self._asked.pop(call)
        self._due.update(dict.fromkeys(asked.lists))
        self._due.update(asked.missing)  # another request's rate may have waited for its lists

    def adjust(self, before: MachineSettings, out: Outbox) -> None:
        """Throttle what begins from now on, if the settings say so now."""
        if before.moves_throttle is None:
            self._default.begin()
        self._due.update(dict.fromkeys(self._rates.receiving))

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """Go on: the turn itself is all it asks for."""
        self._alarm_at = None

    def hear(self, report: Report, out: Outbox) -> None:
        """Take in what a broker shows of its rate, and of how far its replicas are."""
        if isinstance(report, BrokerConfigDescribed):
            self._barrier.hear(report, out.now)
        elif isinstance(report, LogEndsDescribed):
            self._rates.hear(report)

    def announce(self, changes: Changes, out: Outbox) -> None:
        """Let the moves begin whose throttle is in force by now."""
        self._wake(self._barrier.ask(out), out)
        self._due.update(dict.fromkeys(self._held.follow(changes)))
        for call, asked in tuple(self._asked.items()):
            if asked.has_begun or asked.missing:
                continue
            begins_at = asked.begins_at
            for broker, latest in tuple(asked.unseen.items()):
                until = min(latest, self._barrier.until(broker))
                if until <= out.now:
                    del asked.unseen[broker]
                begins_at = max(begins_at, until)
            if begins_at > out.now:
                self._wake(begins_at, out)
            elif asked.held:
                self._free(call)
            elif self._start is not None:
                asked.has_begun = True
                self._start(call, out)

    def _free(self, call: CallId) -> None:
        for at in self._held.free(self._asked[call].held.items()):
            self._shared.agenda.add(at.topic, (at.partition,))
        self._end(call)

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Propose the settings that are due."""
        if self._shared.settings.is_observing:
            return ()
        self._ask_for_held(out)
        self._due.update(dict.fromkeys(self._rates.due(out)))
        topics = [of for of in self._due if isinstance(of, str) and not self._is_too_early(of, out)]
        proposals = [self._proposal(name, out) for name in islice(topics, AT_ONCE)]
        # Which rates are needed is known only once all lists are.
        brokers = [] if self._unlisted else [of for of in self._due if not isinstance(of, str)]
        proposals += [self._proposal(broker, out) for broker in islice(brokers, AT_ONCE)]
        if len(topics) > AT_ONCE or len(brokers) > AT_ONCE:
            out.wake(Again(), out.now)
        self._wake(self._rates.next_at(), out)
        return [proposal for proposal in proposals if proposal is not None]

    def _wake(self, at: float, out: Outbox) -> None:
        if at == inf:
            return
        if self._alarm_at is None or at < self._alarm_at or self._alarm_at <= out.now:
            self._alarm_at = at
            out.wake(ThrottlesDue(), at)

    # ---- what is written ------------------------------------------------------------------------------------

    def _proposal(self, of: Throttled, out: Outbox) -> Proposal | None:
        waiting = tuple(call for call, asked in self._asked.items() if of in asked.missing)
        # A broker's rate comes last: when it shows that, it has read the lists as well.
        calls = tuple(call for call in waiting if isinstance(of, str) or self._asked[call].is_listed)
        if isinstance(of, str):
            self._list(of)
        if isinstance(of, str) and self._shared.transactions.is_busy(topic_subject(of)):
            return None  # it may be about to be deleted, with its settings
        del self._due[of]
        if waiting and not calls:
            return None  # the last of the lists makes it due again
        if not self._shared.transactions.may_propose(subject_of(of)):
            return None  # its outcome, or the end of its wait, makes it due again
        kept = self._znodes.records.get(of)
        record = None if kept is None else kept.value
        if kept is not None and record is None:
            self._refuse(of, calls, f"{record_of(of).path} is malformed; repair it first", out)
            return None
        if not calls and self._is_as_wanted(of, record, out.now):
            self._znodes.forget(settings_of(of))
            self._note_default(of, self._default.missing(of) if isinstance(of, str) else ())
            return None
        settings = self._znodes.settings(settings_of(of))
        if settings is None:
            self._znodes.want(settings_of(of))
            out.read([settings_of(of)])
            return None
        self._znodes.forget(settings_of(of))  # they are read again before the next write: others change them, too
        if isinstance(settings.value, Malformed):
            self._refuse(of, calls, f"{settings.address.path} cannot be read: {settings.value.reason}", out)
            return None
        return self._written(of, settings, calls, out)

    def _written(self, of: Throttled, settings: Fact, calls: tuple[CallId, ...], out: Outbox) -> Proposal | None:
        """The writes that are missing; without any, the settings are as these requests need them."""
        begun = tuple(self._default.missing(of)) if isinstance(of, str) else ()
        wish = self._wish(of, settings, calls, out.now)
        kept = self._znodes.records.get(of)
        writes = [*settings_writes(of, settings, wish), *record_writes(of, wish, kept)]
        is_there = not isinstance(of, str) or of in self._cluster.topics
        if wish.yielded is not None and is_there:
            text = f"someone else has changed {wish.yielded} in {settings.address.path}: it is left as it is now"
            out.notice(YIELDED, text)
        if not writes:
            self._note_written(_Memo(of, calls, None, begun), out)
            return None
        holds, why = ((topic_subject(of),), "") if isinstance(of, str) else ((), self._rates.why(of, wish.value))
        value = wish.value if any(write.address == settings.address for write in writes) else None
        return Proposal(
            subject_of(of), (Atom(tuple(writes), (reason(of, wish, why),)),), holds, _Memo(of, calls, value, begun)
        )

    def _wish(self, of: Throttled, settings: Fact, calls: Collection[CallId], now: float) -> Wish:
        config = settings.value.config if isinstance(settings.value, Config) else {}
        kept = self._znodes.records.get(of)
        record = None if kept is None else kept.value
        if isinstance(of, str):
            assert record is None or isinstance(record, ThrottledTopic)
            asked = {entry for call in calls for entry in self._asked[call].lists.get(of, ())}
            asked.update(self._default.missing(of))
            return topic_wish(record, config.get(FOLLOWER_REPLICAS), self._lists.get(of, {}), asked)
        assert record is None or isinstance(record, ThrottledBroker)
        current = config.get(FOLLOWER_RATE)
        # It rises from what is in force: a rate that someone else has changed says nothing about that.
        ours = record.ours if record is not None and record.ours == current else None
        return broker_wish(record, current, self._rates.now(of, ours, now), is_asked=bool(calls))

    def _is_as_wanted(self, of: Throttled, record: ThrottledTopic | ThrottledBroker | None, now: float) -> bool:
        """Whether nothing has to be written, as far as our record says."""
        if isinstance(of, str):
            wanted = self._lists.get(of, {})
            return record is None if not wanted else isinstance(record, ThrottledTopic) and record.ours == wanted
        rate = self._rates.now(of, record.ours if isinstance(record, ThrottledBroker) else None, now)
        if rate is None or not isinstance(record, ThrottledBroker):
            return record is None and (rate is None or of not in self._default.unrated)
        return record.ours is None or broker_wish(record, record.ours, rate, is_asked=False).record == record

    def _is_too_early(self, name: TopicName, out: Outbox) -> bool:
        """Whether a list was changed a moment ago, and no request waits for the next change."""
        written_at = self._written_at.get(name)
        if any(name in asked.missing for asked in self._asked.values()):
            return False
        if written_at is None or written_at + SPACING_S <= out.now:
            self._written_at.pop(name, None)
            return False
        self._wake(written_at + SPACING_S, out)
        return True

    # ---- what is wanted -------------------------------------------------------------------------------------

    def _list(self, name: TopicName) -> None:
        """Find out which replicas of a topic are to be throttled, and at which rate."""
        self._unlisted.pop(name, None)
        there = {**self._default.missing(name), **self._ours(name)}
        listed = {entry: rate for entry, rate in there.items() if self._is_needed(name, entry)}
        topic = self._cluster.topics.get(name)
        for asked in self._asked.values() if topic is not None and not topic.is_queued_for_deletion else ():
            listed |= asked.lists.get(name, {})
        lowest: dict[BrokerId, int] = {}
        for entry, rate in listed.items():
            broker = broker_of(entry)
            lowest[broker] = min(rate, lowest.get(broker, rate))
        for broker in {**dict.fromkeys(map(broker_of, self._lists.get(name, ()))), **lowest}:
            if self._rates.note(broker, name, lowest.get(broker)):
                self._due[broker] = None
        self._lists[name] = listed
        if not listed:
            del self._lists[name]

    def _ours(self, name: TopicName) -> Mapping[str, int]:
        kept = self._znodes.records.get(name)
        return kept.value.ours if kept is not None and isinstance(kept.value, ThrottledTopic) else {}

    def _is_needed(self, name: TopicName, entry: str) -> bool:
        """Whether a replica still receives, or waits to."""
        number, broker = PartitionId(int(entry.partition(":")[0])), broker_of(entry)
        at = TopicPartition(name, number)
        held = self._cluster.partition(at)
        if held is None:
            return not self._cluster.is_missing(at)
        if held.state is not None and broker in held.state.isr:
            return False
        waiting = self._cluster.waiting_move(at)
        is_waiting = waiting is not None and broker in waiting.to
        return broker in held.assignment.adding or is_waiting or self._held.is_asked_for(at, broker)

    # ---- what became of it ----------------------------------------------------------------------------------

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """Let requests go on whose settings are written; refuse those whose settings cannot be."""
        memo = proposal.memo
        assert isinstance(memo, _Memo)
        match outcome:
            case Accepted():
                if isinstance(memo.of, str):
                    self._written_at[memo.of] = out.now
                else:
                    self._rates.written(memo.of, self._znodes.records.get(memo.of), out)
                self._note_written(memo, out)
            case Refused(is_waiting=True):
                self._refuse(memo.of, memo.calls, f"ZooKeeper refuses to write {settings_of(memo.of).path}", out)
                return
            case Unwritable(message):
                self._refuse(memo.of, memo.calls, message, out)
                return
            case _:
                pass
        self._due[memo.of] = None

    def retry(self, proposal: Proposal, out: Outbox) -> None:
        """The wait after too many refusals is over."""
        memo = proposal.memo
        assert isinstance(memo, _Memo)
        self._due[memo.of] = None

    def _note_written(self, memo: _Memo, out: Outbox) -> None:
        self._note_default(memo.of, memo.begun)
        of, waiting = memo.of, [self._asked[call] for call in memo.calls if call in self._asked]
        for asked in waiting:
            self._done_with(of, asked, out)
        if not isinstance(of, str) and self._cluster.is_registered(of):
            self._await(of, memo.value, waiting, out.now)

    def _done_with(self, of: Throttled, asked: AskedThrottle, out: Outbox) -> None:
        """Go on to what else a request needs; `of` is as it needs it, or cannot be."""
        asked.missing.pop(of, None)
        if isinstance(of, str) and asked.is_listed:
            self._due.update(asked.missing)
        if not asked.missing:
            self._wake(out.now, out)

    def _note_default(self, of: Throttled, listed: Collection[str]) -> None:
        """A list, or a rate, is as moves need it that have begun without a throttle."""
        if not isinstance(of, str):
            self._default.unrated.pop(of, None)
        elif listed:
            self._default.written(of, tuple(listed))
            self._due.update(dict.fromkeys(self._default.unrated))

    def _await(self, broker: BrokerId, value: str | None, waiting: Collection[AskedThrottle], now: float) -> None:
        """Wait until a broker has read its settings, which it shows by a new rate."""
        if value is not None and waiting:
            self._barrier.expect(broker, value, now)
        elif value is not None:
            self._barrier.rewritten(broker, value)
        for asked in waiting:
            if value is None:
                asked.begins_at = now + FIXED_S
            else:
                asked.unseen[broker] = now + PATIENCE_S

    def _refuse(self, of: Throttled, calls: Collection[CallId], why: str, out: Outbox) -> None:
        """Refuse requests whose throttle cannot be set; what znodes ask for begins without."""
        for call in calls:
            asked = self._asked.get(call)
            if asked is not None and asked.held:
                out.notice(UNTHROTTLED, f"what znodes ask to move for {named(of)} begins without a throttle: {why}")
                self._done_with(of, asked, out)
            elif self._fail is not None:
                self._fail(call, f"nothing was moved, because the throttle cannot be set: {why}", out)
