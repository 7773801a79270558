"""What follows from what happened? The whole controller of one reign as one function: fold, announce, decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from controller.core import topic_wishes
from controller.core.admin import authorization, controlled_shutdown
from controller.core.admin.authorization import Authorizer, anybody
from controller.core.admin.create_topics import Defaults
from controller.core.admin.refusal import refusal
from controller.core.agenda import Agenda
from controller.core.announcer import OWED, Announcer
from controller.core.answers import RESEND, BrokerAnswers
from controller.core.asks import Asks, Item, granted, oversized
from controller.core.barriers import Barriers, PermitShutdown, Readmit
from controller.core.births import Births
from controller.core.cluster import Changes, Cluster
from controller.core.commands import UpdateMetadata
from controller.core.deadlines import DEADLINE, Deadlines
from controller.core.decide import Verdict, look
from controller.core.dice import Dice
from controller.core.dividing import Divider
from controller.core.effects import (
    Answer,
    Commit,
    Delete,
    Drained,
    Effect,
    Notice,
    Read,
    StepDown,
    Tell,
    Wake,
    Write,
)
from controller.core.errors import ErrorCode
from controller.core.events import (
    Acknowledged,
    Asked,
    AskId,
    CommitId,
    Committed,
    Conflicted,
    Event,
    Fenced,
    Loaded,
    LogDirsDescribed,
    Observed,
    ResignationAsked,
    Surveyed,
    Unknown,
    Woke,
)
from controller.core.flights import Flights, TopicStep, facts_of
from controller.core.large_znodes import LargeZnodes
from controller.core.leavers import GATHER_S, Leavers
from controller.core.legacy_znode import LEGACY_AGAIN, LegacyZnode
from controller.core.notifications import NOTIFICATIONS_AGAIN, Notifications
from controller.core.outcomes import NO_TIME, TOLD, Outcomes
from controller.core.packing import Packed, encoded, parcels
from controller.core.producer_ids import ProducerIds
from controller.core.reassignment_znodes import ALARM as MOVE_ZNODES
from controller.core.reassignment_znodes import ReassignmentZnodes
from controller.core.reception import Reception
from controller.core.replies import Result
from controller.core.reports import ALARM as REPORTS
from controller.core.reports import Reports
from controller.core.retries import RETRY, Retries
from controller.core.rules import preferred
from controller.core.tally import Tally
from controller.core.topic_deletions import TopicDeletions
from zk_layout import catalog
from zk_layout.catalog import Address
from zk_layout.ids import BrokerId, ControllerEpoch, PartitionId, TopicName, TopicPartition, Zxid
from zk_layout.znodes.admin import LegacyReassignmentAddress, PreferredElectionAddress
from zk_layout.znodes.configs import TopicConfigAddress
from zk_layout.znodes.partition_state import StateAddress

AGAIN = "again"
PATIENCE = "patience"
GATHERED = "gathered of "
REBALANCE = "rebalance"
FIRST_REBALANCE_S = 5.0


class MachineSettings(Struct, frozen=True):
    """What of the configuration decisions depend on.

    Shape:
        `leaders_write_isr` says that brokers may have an inter.broker.protocol.version below 2.7-IV2: leaders then
        write state znodes themselves, and those of moving partitions are watched.

    Units:
        `deletion_patience_s` is how long a move waits for leaving live replicas to confirm their deletion.
        `rebalance_every_s` is Kafka's leader.imbalance.check.interval.seconds; None turns rebalancing off.
        `znode_size_limit` is in bytes: a little less than ZooKeeper's jute.maxbuffer.
        `status_retention_ms` is how long the status of a finished reassignment request is kept; with None requests
        get no ids and nothing is measured. `keeps_reassignment_znodes` says that `/admin/reassignments` is followed
        (KIP-236). `clock_zero_ms` is the Unix time at which the machine's clock showed 0.
    """

    own_id: BrokerId
    cluster_id: str | None = None
    unclean_election: bool = False
    leaders_write_isr: bool = False
    has_leader_recovery: bool = True
    assigns_topic_ids: bool = True
    deletes_topics: bool = True
    deletion_patience_s: float = 10.0
    znode_size_limit: int = 1_000_000
    rebalance_every_s: float | None = None
    imbalance_percentage: int = 10
    shutdown_redundancy: int = 0
    defaults: Defaults = Defaults()
    status_retention_ms: int | None = None
    clock_zero_ms: int = 0
    keeps_reassignment_znodes: bool = False


class Machine:
    """One reign: from the won election to the lost or given up one.

    Its memory of the cluster is the facts. What is in flight, acknowledged or shutting down may be lost with it: that
    costs a repetition, never correctness.
    """

    def __init__(
        self,
        settings: MachineSettings,
        controller_epoch: ControllerEpoch,
        dice: Dice,
        is_allowed: Authorizer = anybody,
    ) -> None:
        """A reign that has not loaded anything yet."""
        self.cluster = Cluster(
            settings.own_id,
            controller_epoch,
            unclean_election=settings.unclean_election,
            has_leader_recovery=settings.has_leader_recovery,
            deletes_topics=settings.deletes_topics,
        )
        self.tally = Tally()
        self._settings = settings
        self._dice = dice
        self._agenda = Agenda()
        self._asks = Asks()
        self._flights = Flights()
        self._barriers = Barriers()
        self._leavers = Leavers(settings.deletion_patience_s)
        self._deletions = TopicDeletions(self.cluster)
        self._announcer = Announcer(self.cluster, self._leavers, self._barriers, self._flights, self._deletions)
        self._legacy = LegacyZnode(self.cluster)
        self._notifications = Notifications()
        self.cluster.move_znodes.is_kept = settings.keeps_reassignment_znodes
        self._move_znodes = ReassignmentZnodes(self.cluster)
        self._producer_ids = ProducerIds(self.cluster)
        self._answers = BrokerAnswers(self.cluster, self._leavers, self._agenda, self._deletions)
        self.reports: Reports | None = None
        if settings.status_retention_ms is not None:
            clock_zero_ms, retention_ms = settings.clock_zero_ms, settings.status_retention_ms
            limit = settings.znode_size_limit
            self.reports = Reports(self.cluster, self._leavers.waits, clock_zero_ms, retention_ms, limit)
        self._reception = Reception(
            self.cluster,
            settings.cluster_id,
            self._asks,
            self._agenda,
            self._barriers,
            self._producer_ids,
            Divider(self.cluster, self.tally, is_allowed),
            self.reports,
            redundancy=settings.shutdown_redundancy,
        )
        self._outcomes = Outcomes(self.cluster, self._asks)
        self._births = Births(self.cluster, self._asks, dice, settings.defaults, gives_ids=settings.assigns_topic_ids)
        self._is_allowed = is_allowed
        self._deadlines = Deadlines()
        self._alarms: dict[str, Callable[[], None]] = {
            OWED: self._announcer.ask_again,
            REBALANCE: self._rebalance,
            PATIENCE: self._lose_patience,
            DEADLINE: self._time_out,
            LEGACY_AGAIN: self._legacy.resume,
            REPORTS: self._look_after_moves,
            MOVE_ZNODES: lambda: None,  # the turn itself is all that is wanted
        }
        self._early: list[Asked] = []
        self._retries = Retries()
        self._watched: set[TopicPartition] = set()
        self._large_znodes = LargeZnodes(settings.znode_size_limit)
        self._last_commit = 0
        self._is_draining = self._is_over = False
        self._effects: list[Effect] = []
        self._now = 0.0

    def turn(self, events: Sequence[Event], now: float) -> list[Effect]:
        """What follows from these events.

        Shape:
            The effects are in the order in which they are to be carried out.

        Units:
            `now` is in monotonic seconds.
        """
        self._effects, self._now = [], now
        if self._is_over:
            return []
        for event in events:
            self._receive(event)
        if not self.cluster.is_loading and not self._is_over:
            self._announce(self.cluster.take_changes())
            if not self._is_draining:
                self._decide()
                self._allocate_producer_ids()
                self._do_deferred()
            self._report()
        if self._is_draining and not self._flights.count and not self._is_over:
            self._effects.append(Drained())
            self._is_over = True
        return self._effects

    @property
    def figures(self) -> dict[str, float]:
        """The gauges of this moment, by measure."""
        return {**self.tally.figures(self.cluster), **self._deletions.figures()}

    @property
    def in_flight(self) -> int:
        """How many transactions ZooKeeper has not answered yet."""
        return self._flights.count

    # ---- fold -----------------------------------------------------------------------------------------------

    def _receive(self, event: Event) -> None:  # noqa: C901 (one flat match over the closed union of events)
        match event:
            case Observed(facts):
                for fact in facts:
                    self.cluster.apply(fact)
                    self._notifications.saw(fact)
                    self._saw(fact.address)
            case Surveyed():
                self._deletions.surveyed(event)
                self._agenda.add(event.topic)
            case Loaded():
                self._loaded()
            case Committed(commit, zxid):
                self._committed(commit, zxid)
            case Conflicted(commit, address):
                self._failed(commit, (address,))
            case Unknown(commit):
                self._failed(commit, None)
            case Fenced():
                self._effects.append(StepDown("another controller has raised the controller epoch"))
                self._is_over = True
            case Acknowledged():
                self._take(self._answers.hear(event, self._now))
                self._answer(self._outcomes.hear(event))
            case Asked():
                self._effects.extend(self._deadlines.note(event, self._now))
                if self.cluster.is_loading:
                    self._early.append(event)
                else:
                    self._admit(event)
            case LogDirsDescribed() if self.reports is not None:
                self.reports.hear(event, self._now)
            case Woke(key):
                self._woke(key)
            case ResignationAsked():
                self._is_draining = True

    def _loaded(self) -> None:
        self.cluster.is_loading = False
        self._effects.extend(self._move_znodes.begin())
        if self.reports is not None:
            self.reports.begin(self._now)
        if self._settings.rebalance_every_s is not None:
            self._effects.append(Wake(REBALANCE, self._now + FIRST_REBALANCE_S))
        early, self._early = self._early, []
        for asked in early:
            self._admit(asked)

    def _admit(self, asked: Asked) -> None:
        refused = authorization.refuse(asked, self._is_allowed)
        self._answer(self._reception.admit(asked, self._now) if refused is None else (Answer(asked.ask, refused),))

    def _answer(self, effects: Iterable[Answer | Wake | Notice]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                self._deadlines.answered(effect.ask)
            self._effects.append(effect)

    def _committed(self, commit_id: CommitId, zxid: Zxid) -> None:
        commit, topics, _ = self._flights.arrive(commit_id, has_failed=False)
        czxids = {name: self.cluster.topics[name].czxid for name in topics if name in self.cluster.topics}
        for fact in facts_of(commit, zxid, czxids):
            self.cluster.apply(fact)
        self._effects.extend(self._producer_ids.accepted(commit_id))
        self._notifications.accepted(commit_id)
        self._move_znodes.accepted(commit_id)
        if self.reports is not None:
            self._effects.extend(self.reports.accepted(commit_id, self._now))
        if self._legacy.is_written_by(commit_id):
            self._legacy.succeeded()
            self._free_legacy()
        for topic in topics:
            self._finish(topic)

    def _failed(self, commit_id: CommitId, look_at: tuple[Address, ...] | None) -> None:
        """Read what the transaction was about; the facts then decide what is still to be done."""
        _, _, addresses = self._flights.arrive(commit_id, has_failed=True, look_at=look_at)
        self._producer_ids.failed(commit_id)
        self._effects.extend(self._notifications.failed(commit_id, self._now))
        self._effects.extend(self._move_znodes.failed(commit_id, self._now))
        if self._legacy.is_written_by(commit_id):
            self._effects.extend(self._legacy.failed(self._now))
        if self.reports is not None:
            self.reports.failed(commit_id, addresses)
        self._effects.append(Read(addresses))

    def _saw(self, address: Address) -> None:
        self._producer_ids.saw(address)
        if self.reports is not None:
            self._effects.extend(self.reports.saw(address, self._now))
        for topic in self._flights.saw(address):
            self._finish(topic)
        if isinstance(address, LegacyReassignmentAddress) and self._legacy.is_being_written_alone:
            self._free_legacy()

    def _finish(self, topic: TopicName) -> None:
        step = self._flights.finish(topic)
        if step is None:
            return
        if self._legacy.is_written_by(topic):
            self._free_legacy()
        if step.has_failed:
            self._deletions.failed(topic)
            self._asks.put_back(step.items)
            alarms = list(self._retries.failed(topic, step.numbers, self._now))
            self._effects.extend(alarms)
            if not alarms:
                self._agenda.add(topic, step.numbers, is_urgent=bool(step.items))
            return
        self._retries.succeeded(topic)
        for item in step.items:
            if not self._outcomes.expect(item):
                self._settle(item, granted(item, self.cluster))
        self._agenda.add(topic, step.numbers)

    def _free_legacy(self) -> None:
        for topic, numbers in self._legacy.release():
            self._agenda.add(topic, numbers, is_urgent=True)

    def _woke(self, key: str) -> None:
        if key.startswith(RESEND):
            self._announcer.tell_all_again(BrokerId(int(key.removeprefix(RESEND))))
        elif key.startswith(RETRY):
            name = TopicName(key.removeprefix(RETRY))
            self._agenda.add(name, self._retries.resume(name), is_urgent=True)
        elif key.startswith(GATHERED):
            topic = TopicName(key.removeprefix(GATHERED))
            self._agenda.add(topic, self._leavers.gathered(topic))
        elif key.startswith(TOLD):
            self._answer(self._outcomes.told(AskId(int(key.removeprefix(TOLD)))))
        elif key.startswith(NO_TIME):
            self._give_up(AskId(int(key.removeprefix(NO_TIME))))
        elif key.startswith(NOTIFICATIONS_AGAIN):
            self._notifications.resume(key)
        elif key in self._alarms:
            self._alarms[key]()

    def _lose_patience(self) -> None:
        expired, next_at = self._leavers.lose_patience(self._now)
        for at in expired:
            self._agenda.add(at.topic, (at.partition,))
        if next_at is not None:
            self._effects.append(Wake(PATIENCE, next_at))

    def _look_after_moves(self) -> None:
        if self.reports is not None:
            self._effects.extend(self.reports.woke(self._now))

    def _time_out(self) -> None:
        """Whoever has waited as long as it wanted is told so; what is on its way to ZooKeeper may still happen."""
        for ask, request in self._deadlines.expired(self._now):
            if any(asked.ask == ask for asked in self._early):
                self._early = [asked for asked in self._early if asked.ask != ask]
                self._effects.append(Answer(ask, refusal(request, ErrorCode.REQUEST_TIMED_OUT)))
            else:
                self._give_up(ask)
        self._effects.extend(self._deadlines.next_alarm())

    def _give_up(self, ask: AskId) -> None:
        if self.reports is not None:
            self.reports.give_up(ask)
        self._answer(self._outcomes.forget(ask))
        answer = self._asks.give_up(ask)
        if answer is not None:
            self._effects.append(answer)

    def _rebalance(self) -> None:
        led_by_others = self.tally.not_preferred
        for at in preferred.unbalanced(self.cluster, led_by_others, self._settings.imbalance_percentage):
            self.cluster.preferring.add(at)
            self._agenda.add(at.topic, (at.partition,))
        if self._settings.rebalance_every_s is not None:
            self._effects.append(Wake(REBALANCE, self._now + self._settings.rebalance_every_s))

    # ---- announce -------------------------------------------------------------------------------------------

    def _announce(self, changes: Changes) -> None:
        self._hold_back(changes)
        for path, reason in changes.malformed:
            self._effects.append(Notice("malformed znode", f"{path}: {reason}"))
        self._follow_notifications(changes)
        self._deletions.follow(changes)
        if self.reports is not None:
            self.reports.follow(changes, self._now)
        self._take(self._announcer.announce(changes, self._now))
        self._follow_partitions(changes)
        for name in changes.marks:
            self._agenda.add(name, is_urgent=True)
        for due in self._move_znodes.follow(changes):
            if isinstance(due, Notice):
                self._effects.append(due)
            else:
                self._agenda.add(due.topic, (due.partition,))
        self._follow_configs(changes)
        self._follow_outcomes(changes)
        if changes.legacy:
            self._effects.extend(self._legacy.look())
        elif changes.marks:
            self._effects.extend(self._legacy.strike_unknown())

    def _follow_outcomes(self, changes: Changes) -> None:
        """Clients are answered when the brokers have been told, and have taken it in."""
        told = {
            effect.broker: effect.command
            for effect in self._effects
            if isinstance(effect, Tell) and isinstance(effect.command, UpdateMetadata)
        }
        self._answer(self._outcomes.look(changes, told, self._now))

    def _take(self, effects: Iterable[Effect]) -> None:
        """Nothing is decided after a reason to step down."""
        for effect in effects:
            self._effects.append(effect)
            self._is_over = self._is_over or isinstance(effect, StepDown)

    def _hold_back(self, changes: Changes) -> None:
        """Brokers hear nothing of a topic while only some of the znodes of an unanswered transaction are read again.

        A new state beside an old assignment is a pair that ZooKeeper never held.
        """
        for name in [n for n in changes.partitions if n in self._flights.busy and self._flights.busy[n].unread]:
            for number, flags in changes.partitions.pop(name).items():
                self.cluster.mark(name, number, flags)
                at = TopicPartition(name, number)
                if at in changes.former_leaders:
                    self.cluster.changes.former_leaders[at] = changes.former_leaders[at]

    def _follow_notifications(self, changes: Changes) -> None:
        """Read what a leader wrote itself, then strike the notification; a new reign reads everything anyway."""
        for isr_address, version, isr_change in changes.isr_changes:
            if self._notifications.see(isr_address, version) and isr_change is not None:
                partitions = [at for at in isr_change.partitions if self.cluster.partition(at)]
                self._effects.append(Read(tuple(StateAddress(at.topic, at.partition) for at in partitions)))
        for version in changes.preferred_elections:
            self._notifications.see(PreferredElectionAddress(), version)
        for dir_address, version, event in changes.log_dir_events:
            is_new = self._notifications.see(dir_address, version)
            if is_new and event is not None and self.cluster.is_registered(event.broker):
                self._announcer.tell_all_again(event.broker)
        for write, why in self._notifications.strikes():
            self._notifications.sent(self._commit((write,), (why,)), write)

    def _follow_partitions(self, changes: Changes) -> None:
        watch: list[Address] = []
        for name, numbers in changes.partitions.items():
            self._agenda.add(name, numbers)
            topic = self.cluster.topics[name]
            for number in numbers:
                at, held = TopicPartition(name, number), topic.partitions[number]
                self._effects.extend(
                    self.tally.see(at, None if topic.is_queued_for_deletion else held, self.cluster, self._now)
                )
                self._leavers.see(at, held, topic.deletions.get(number, ()))
                if self._settings.leaders_write_isr and held.assignment.is_moving and at not in self._watched:
                    self._watched.add(at)
                    watch.append(StateAddress(name, number))
        for name in sorted(changes.topics & self.cluster.topics.keys()):
            self._agenda.add(name, self.cluster.topics[name].deletions)
        for name, gone in changes.gone_topics.items():
            for at in (TopicPartition(name, number) for number in gone.partitions):
                self._effects.extend(self.tally.see(at, self.cluster.partition(at), self.cluster, self._now))
                self._watched.discard(at)
        if watch:
            self._effects.append(Read(tuple(watch), watch=True))

    def _follow_configs(self, changes: Changes) -> None:
        """Only partitions without a leader can gain by other settings: unclean election may have been allowed."""
        for name in sorted(changes.configs & self.cluster.topics.keys()):
            self._agenda.add(name, self._offline(name))
        to_read = [TopicConfigAddress(name) for name in sorted(changes.reconfigured) if self._offline(name)]
        if to_read:
            self._effects.append(Read(tuple(to_read)))
        if changes.unclean_election:
            for at in self.tally.offline:
                self._agenda.add(at.topic, (at.partition,))

    def _offline(self, name: TopicName) -> list[PartitionId]:
        topic = self.cluster.topics.get(name)
        return [n for n in topic.partitions if TopicPartition(name, n) in self.tally.offline] if topic else []

    # ---- decide ---------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        for plan in self._move_znodes.plans(self._now):
            self._move_znodes.sent(plan, self._commit(plan.writes, (plan.why,)))
        packed: list[Packed] = []
        for name, numbers in self._agenda.take(self._flights.busy):
            packed.extend(self._decide_topic(name, numbers))
        for parcel in parcels(packed):
            self._commit(parcel.writes, parcel.why, parcel.data, parcel.topics)
        trim = self._legacy.trimmed()
        if trim is not None:
            self._legacy.reserve(self._commit((trim,), ("entries of /admin/reassign_partitions are done",)))
        if self._agenda.has_more(self._flights.busy):
            self._effects.append(Wake(AGAIN, self._now))

    def _allocate_producer_ids(self) -> None:
        self._effects.extend(self._producer_ids.refuse())
        write = self._producer_ids.next_write()
        if write is not None:
            self._producer_ids.reserve(self._commit((write[0],), (write[1],)))

    def _decide_topic(self, name: TopicName, numbers: set[PartitionId]) -> Iterable[Packed]:
        items = self._asks.take(name)
        topic = self.cluster.topics.get(name)
        if name in self.cluster.deletion_marks:
            return self._delete(name, numbers, items)
        if topic is None:
            self._barriers.at_rest(name)
            return self._create_topic(name, items) if items else ()
        self.cluster.move_znodes.settle(name, numbers, self.cluster.moving.get(name, set()))
        verdict = look(topic, numbers, items, self._asks, self.cluster, self._leavers.waits)
        self.cluster.preferring.difference_update(TopicPartition(name, n) for n in numbers)
        if verdict.draft.touches_legacy and self._legacy.is_being_written:
            self._asks.put_back(items)
            self._legacy.wait(name, numbers)
            return ()
        if topic.partitions and not topic.is_malformed:
            if topic.has_lost_id and topic.topic_id is not None:
                verdict.draft.give_id(topic.topic_id)
            elif self._settings.assigns_topic_ids and topic.topic_id is None:
                verdict.draft.give_id(self._dice.topic_id())
        return self._follow(verdict, name, numbers)

    def _delete(self, name: TopicName, numbers: set[PartitionId], items: list[Item]) -> Iterable[Packed]:
        """The step of a topic that somebody wants to be deleted; the rules have no say in it any more."""
        topic = self.cluster.topics.get(name)
        if topic is None or not topic.is_queued_for_deletion:
            self._asks.put_back(items)
        else:
            for item in items:
                answer = topic_wishes.consider_going(item, self.cluster)
                if answer is None:
                    self._outcomes.expect(item)
                    self._effects.append(Wake(AGAIN, self._now))
                else:
                    self._settle(item, answer)
            self.cluster.preferring.difference_update(TopicPartition(name, n) for n in numbers)
        step = self._deletions.next_step(name)
        self._effects.extend(step.effects)
        if not step.atoms:
            self._barriers.at_rest(name)
            return ()
        self._flights.busy[name] = TopicStep(numbers, [])
        return encoded(name, step.atoms, is_alone=self._retries.has_failed(name))

    def _create_topic(self, name: TopicName, items: list[Item]) -> Iterable[Packed]:
        conception = self._births.consider(name, items, self._flights.busy)
        for item, result in conception.settled:
            self._settle(item, result)
        if conception.postponed:
            self._asks.put_back(conception.postponed)
            self._agenda.add(name, is_urgent=True)
        if conception.atom is None:
            return ()
        packed = list(encoded(name, (conception.atom,), is_alone=self._retries.has_failed(name)))
        if self._is_oversized(packed, conception.accepted):
            return ()
        self._flights.busy[name] = TopicStep(set(), conception.accepted)
        return packed

    def _follow(self, verdict: Verdict, name: TopicName, numbers: set[PartitionId]) -> Iterable[Packed]:
        for item, result in verdict.settled:
            self._settle(item, result)
        if verdict.postponed:
            self._asks.put_back(verdict.postponed)
            self._agenda.add(name, is_urgent=True)
        self._effects.extend(Notice("forced reassignment", warning) for warning in verdict.warnings)
        self._effects.extend(self._legacy.strike(verdict.struck))
        self._effects.extend(self._move_znodes.refuse(verdict.unwished))
        self.cluster.move_znodes.wished.update(verdict.wished)
        self._note_leavers(verdict, name)
        topic = verdict.draft.topic
        if verdict.looks:
            self._effects.append(Read(tuple(dict.fromkeys(verdict.looks))))
        topic.config = None
        if verdict.draft.is_empty:
            if not verdict.looks:
                self._barriers.at_rest(name)
            return ()
        verdict.draft.parts_children = self._retries.is_waiting(name)
        packed = list(encoded(name, verdict.draft.atoms(), is_alone=self._retries.has_failed(name)))
        if self._is_oversized(packed, verdict.accepted):
            for at in verdict.wished:
                self.cluster.move_znodes.disregard(at)
            if verdict.accepted or verdict.wished:
                self._agenda.add(name, numbers)
            return ()
        if verdict.draft.touches_legacy:
            self._legacy.reserve(name)
        self._flights.busy[name] = TopicStep(numbers, verdict.accepted)
        return packed

    def _note_leavers(self, verdict: Verdict, name: TopicName) -> None:
        until = self._leavers.wait_for(verdict.letting_go, self._now)
        if until is not None:
            self._effects.append(Wake(PATIENCE, until))
        if verdict.gathered:
            self._leavers.put_off(name, verdict.gathered)
        if verdict.ends_moves and self._leavers.gather(name, len(self.cluster.moving.get(name, ()))):
            self._effects.append(Wake(f"{GATHERED}{name}", self._now + GATHER_S))

    def _is_oversized(self, packed: Sequence[Packed], accepted: Iterable[Item]) -> bool:
        """Whether this must not be written; what asked for it is refused."""
        message = self._large_znodes.refusal(packed)
        if message is None:
            warning = self._large_znodes.warning(packed)
            self._effects.extend([warning] if warning is not None else [])
            return False
        self._effects.append(Notice("oversized znode", message))
        for item in accepted:
            self._settle(item, oversized(item, message))
        return True

    def _commit(
        self,
        writes: tuple[Write, ...],
        why: tuple[str, ...],
        data: tuple[bytes, ...] | None = None,
        topics: tuple[TopicName, ...] = (),
    ) -> CommitId:
        self._last_commit += 1
        if data is None:
            data = tuple(b"" if isinstance(w, Delete) else catalog.encode(w.value) for w in writes)
        commit = Commit(CommitId(self._last_commit), writes, data, why)
        self._effects.append(commit)
        self._flights.depart(commit, topics)
        return commit.commit

    def _settle(self, item: Item, result: Result) -> None:
        if self.reports is not None and self._asks.is_open(item.ask):
            self.reports.note(item, result)
        answer = self._asks.settle(item.ask, item.index, result)
        if answer is not None:
            self._deadlines.answered(answer.ask)
        if answer is not None and (self.reports is None or not self.reports.hold(answer, self._now)):
            self._effects.append(answer)

    def _report(self) -> None:
        """Statuses of requests; who drains writes only those that somebody waits for."""
        if self.reports is None:
            return
        for plan in self.reports.plans(self._now, is_draining=self._is_draining):
            self.reports.sent(plan, self._commit(plan.writes, (plan.why,)))
        if not self._is_draining:
            self._effects.extend(self.reports.alarm(self._now))

    def _do_deferred(self) -> None:
        for deferred in self._barriers.take_due():
            match deferred:
                case PermitShutdown(ask, request):
                    self._effects.append(Answer(ask, controlled_shutdown.permit(request, self.cluster)))
                case Readmit(broker):
                    self.cluster.readmit(broker)
                    if self.cluster.changes.brokers:
                        self._effects.append(Wake(AGAIN, self._now))
