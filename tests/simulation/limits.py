"""Are limits of moves kept, and does every move that waits begin once, unless it is taken back?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

from controller.core.messages.requests import AlterReassignments, Request
from controller.core.reassignment.places import INTO, OUT, RACK, THE_CLUSTER, Place, Places, places_of
from controller.core.settings import MOVE_ORDERS
from tests.simulation.broken import hold
from tests.simulation.decided import is_put_right
from tests.simulation.disks import Disks
from tests.simulation.gates import Gates
from tests.simulation.paces import Paces
from tests.simulation.reassignment_folder import IN_FLIGHT_S, NEVER, REMEMBERED_S
from tests.simulation.refusals import Concern
from tests.simulation.size_questions import SizeQuestions
from zk_layout import catalog
from zk_layout.ids import NO_LEADER, BrokerId, Replicas, SessionId, TopicName, TopicPartition
from zk_layout.znodes.admin import LegacyReassignment, LegacyReassignmentAddress
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.reassignments import ReassignmentAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress
from zk_layout.znodes.waiting_moves import ROOT, WaitingMove, WaitingMoves, WaitingMovesAddress, part_of

if TYPE_CHECKING:
    from tests.simulation.world import World

ONE_WORLD_IN = 5
BY_ZNODE = "by a znode"


def is_limited(seed: int) -> bool:
    """Whether moves are limited in a seed's world."""
    return seed % ONE_WORLD_IN == 3


class _Entry(Struct, frozen=True):
    """A move that waits, since when, and since when with the time after which it gives up."""

    move: WaitingMove
    since: float
    patient_since: float


class Limits:
    """The limits of one world, the moves in flight, and those that wait."""

    def __init__(self, world: World) -> None:
        self.world = world
        random = Random(f"{world.seed}/limits")
        self.are_set = is_limited(world.seed)
        self.at_once = random.choice((None, 1, 1, 2, 4)) if self.are_set else None
        self.into = random.choice((None, 1, 1, 2)) if self.are_set else None
        self.out = random.choice((None, 1, 2)) if self.are_set else None
        self.order = tuple(random.sample(MOVE_ORDERS, random.choice((0, 0, 1, 1, 2, 3))))
        self.gates = Gates(world, may_be_set=self.are_set)
        self.paces = Paces(world, may_be_set=self.are_set)
        self.disks = Disks(world, may_be_set=self.are_set)
        self.size_questions = SizeQuestions(world)
        has_limits = (self.at_once, self.into, self.out) != (None, None, None)
        self.are_set = has_limits or self.gates.are_set or self.paces.are_set or self.disks.are_waited_for
        self.begun = 0  # that had waited
        self._waiting: dict[TopicPartition, _Entry] = {}
        # What moves in flight did before they were redirected, which takes effect at once: what was decided before the
        # redirection may be written with it, or after it.
        self._redirected: dict[TopicPartition, tuple[Assignment, float]] = {}
        # When moves began that put something right, which begin without asking: what was decided before they were
        # accepted counts without them.
        self._put_right: dict[TopicPartition, float] = {}
        # Who leads a partition, and since when: an election takes room in a broker's `out` without asking.
        self._led: dict[TopicPartition, tuple[BrokerId, float]] = {}
        # When a partition was last asked to go where; None is to cancel, and a znode counts wherever it says.
        self._wished_at: dict[TopicPartition, dict[Replicas | str | None, float]] = {}

    def limit(self, place: Place) -> int | None:
        """How many moves may take room at a place."""
        return {INTO: self.into, OUT: self.out, RACK: self.paces.into_rack}.get(place.kind, self.at_once)

    def asked(self, request: Request) -> None:
        """A request has arrived."""
        for wanted in request.reassignments if isinstance(request, AlterReassignments) else ():
            self._wish(wanted.topic_partition, wanted.replicas)

    def _wish(self, at: TopicPartition, what: Replicas | str | None) -> None:
        self._wished_at.setdefault(at, {})[what] = self.world.clock.now

    def was_wished(self, at: TopicPartition) -> bool:
        """Whether anyone has ever asked for a move of a partition."""
        return at in self._wished_at

    def waits_for(self, at: TopicPartition) -> Replicas | None:
        """The target that a partition waits for, or waited for until this transaction."""
        entry = self._waiting.get(at)
        return None if entry is None else entry.move.to

    # ---- what is written ------------------------------------------------------------------------------------

    def wrote(self, touched: dict[str, SessionId], former: dict[TopicName, Topic | None]) -> None:
        """Judge a transaction; `former` are the topics that it changes, as they were before."""
        if not self.are_set:
            return
        self._note_leaders(touched)
        changed: list[tuple[TopicPartition, Assignment, Assignment]] = []
        for name, before in former.items():
            is_ours = self.world.checker.is_ours(touched[TopicAddress(name).path])
            after = self.world.checker.topics.get(name)
            if before is not None and after is not None and is_ours:
                pairs = ((TopicPartition(name, n), held, after.partitions[n]) for n, held in before.partitions.items())
                changed += [pair for pair in pairs if pair[1] != pair[2]]
        for at, held, to in changed:
            if held.adding and to.adding:
                self._redirected[at] = held, self.world.clock.now
            if self._is_excused(at, held):
                self._put_right[at] = self.world.clock.now
        for pair in changed:
            self._changed(*pair)
        self._note_wishes(touched)
        self._note_waiting(touched, former)

    def _note_leaders(self, touched: dict[str, SessionId]) -> None:
        for address in map(catalog.address_of, touched):
            if isinstance(address, StateAddress):
                at = TopicPartition(address.topic, address.partition)
                state = self.world.checker.states.get(at)
                leader = NO_LEADER if state is None else state.leader
                if leader != self._led.get(at, (NO_LEADER, NEVER))[0]:
                    self._led[at] = leader, self.world.clock.now

    def _changed(self, at: TopicPartition, before: Assignment, after: Assignment) -> None:
        entry = self._waiting.get(at)
        is_begun = entry is not None and after.target == entry.move.to != before.target
        self.begun += is_begun
        if is_begun and self._entry(at) is not None and not self.world.checker.may_be_cut:
            hold(f"{at} moves to {list(after.target)}, and still waits to do so")
        if after.adding and not before.adding and not self._is_excused(at, before):
            self._has_room(at, after)

    def _is_excused(self, at: TopicPartition, before: Assignment) -> bool:
        """Replicas on ids of controllers, and unlisted ones, are put right at once."""
        state = self.world.checker.states.get(at)
        return is_put_right(before, state, self.world.controllers) or self._is_unsure(at)

    def _is_unsure(self, at: TopicPartition) -> bool:
        """Whether a controller may count a move differently from what ZooKeeper shows."""
        checker = self.world.checker
        return (
            at in checker.edited
            or at.topic in checker.asked_for
            or at in checker.spoiled
            or checker.was_unreadable_lately(at)
            or self.world.refusals.hides(at)
        )

    def _has_room(self, at: TopicPartition, after: Assignment) -> None:
        taken = self._taken()
        for place in self._sure_places(at, after):
            limit = self.limit(place)
            if limit is not None and taken[place] > limit:
                hold(f"{at} begins to move to {list(after.target)}: {taken[place]} moves at {place}, limit {limit}")

    def _taken(self) -> Counter[Place]:
        taken, now = Counter[Place](), self.world.clock.now
        for at, assignment in self._moving():
            former, when = self._redirected.get(at, (assignment, NEVER))
            counted = self._sure_places(at, assignment)
            if now - when < IN_FLIGHT_S:
                counted = tuple(place for place in counted if place in self._sure_places(at, former))
            if not self._is_unsure(at) and now - self._put_right.get(at, NEVER) >= IN_FLIGHT_S:
                taken.update(counted)
        return taken

    def _moving(self) -> Iterator[tuple[TopicPartition, Assignment]]:
        for name, topic in self.world.checker.topics.items():
            for number, assignment in topic.partitions.items():
                if assignment.adding:
                    yield TopicPartition(name, number), assignment

    def _sure_places(self, at: TopicPartition, assignment: Assignment) -> Places:
        """Where a move takes room, whatever a controller has not heard of yet: a replica that was ever in sync, and is
        not now, may still count as in sync; and a leader may just have been elected.
        """
        joined = self.world.checker.caught_up.get(at, {})
        state = self.world.checker.states.get(at)
        into = tuple(Place(INTO, r) for r in assignment.adding if r not in joined)
        leader, since = self._led.get(at, (NO_LEADER, NEVER))
        is_led = state is not None and leader != NO_LEADER and self.world.clock.now - since >= IN_FLIGHT_S
        out = (Place(OUT, leader),) if into and is_led else ()
        racks = self.paces.sure_racks()
        rack = dict.fromkeys(Place(RACK, name=racks[place.broker]) for place in into if place.broker in racks)
        return (THE_CLUSTER, *into, *rack, *out)

    # ---- what waits -----------------------------------------------------------------------------------------

    def legacy_entries(self) -> dict[TopicPartition, Replicas]:
        """The entries of the legacy znode."""
        value = self.world.checker.read(LegacyReassignmentAddress().path)
        moves = value.moves if isinstance(value, LegacyReassignment) else ()
        return {move.topic_partition: move.replicas for move in moves}

    @property
    def waiting(self) -> set[TopicPartition]:
        """The partitions that wait, as recorded."""
        return {*self._waiting}

    def _entry(self, at: TopicPartition) -> WaitingMove | None:
        value = self.world.checker.read(WaitingMovesAddress(at.topic, part_of(at.partition)).path)
        topic = self.world.zookeeper.nodes.get(TopicAddress(at.topic).path)
        if not isinstance(value, WaitingMoves) or topic is None or value.czxid != topic.czxid:
            return None
        return value.moves.get(at.partition)

    def _note_wishes(self, touched: dict[str, SessionId]) -> None:
        for path in touched:
            address = catalog.address_of(path)
            if isinstance(address, ReassignmentAddress):
                self._wish(TopicPartition(address.topic, address.partition), BY_ZNODE)
            elif isinstance(address, LegacyReassignmentAddress):
                for at in self.legacy_entries():
                    self._wish(at, BY_ZNODE)

    def _note_waiting(self, touched: dict[str, SessionId], former: dict[TopicName, Topic | None]) -> None:
        for path in touched:
            address = catalog.address_of(path)
            if isinstance(address, WaitingMovesAddress):
                value = self.world.checker.read(path)
                moves = value.moves if isinstance(value, WaitingMoves) else {}
                concerned = {at.partition for at in self._waiting if at.topic == address.topic} | moves.keys()
                for number in sorted(n for n in concerned if part_of(n) == address.part):
                    self._note(TopicPartition(address.topic, number))
        for name in former:
            if name not in self.world.checker.topics:
                for at in [at for at in self._waiting if at.topic == name]:
                    del self._waiting[at]

    def _note(self, at: TopicPartition) -> None:
        entry, held = self._entry(at), self._waiting.get(at)
        if entry is not None:
            now = self.world.clock.now
            if held is None or held.move.to != entry.to:
                self._waiting[at] = _Entry(entry, now, now)
            elif (held.move.since_ms, held.move.give_up_ms) != (entry.since_ms, entry.give_up_ms):
                self._waiting[at] = _Entry(entry, held.since, now)
            return
        self._waiting.pop(at, None)
        if held is not None and not self._may_leave(at, held):
            hold(f"{at} no longer waits to move to {list(held.move.to)}, and nobody wanted that")

    def _may_leave(self, at: TopicPartition, held: _Entry) -> bool:
        topic = self.world.checker.topics.get(at.topic)
        assignment = None if topic is None else topic.partitions.get(at.partition)
        if assignment is None or at.topic in self.world.checker.asked_for or at in self.world.checker.edited:
            return True
        if assignment.target == held.move.to or {*assignment.target} != {*held.move.former}:
            return True
        if self.paces.may_give_up(held.move, self.world.clock.now - held.patient_since):
            return True
        # What arrived before it may be carried out after it: its topic may have been in quarantine.
        since = held.since - self.world.ensemble.most_s - REMEMBERED_S
        wishes = self._wished_at.get(at, {}).items()
        return any(when >= since for what, when in wishes if what != held.move.to)

    # ---- the end --------------------------------------------------------------------------------------------

    def may_wait(self, at: TopicPartition, target: Replicas) -> bool:
        """Whether a move may still wait at the end."""
        if not self.are_set:
            return False
        taken: Counter[Place] = Counter()
        racks = self.paces.every_rack()
        for moving, assignment in self._moving():
            if moving.topic not in self.world.checker.unwanted:
                taken.update(places_of(assignment, self.world.checker.states.get(moving), racks))
        topic, state = self.world.checker.topics.get(at.topic), self.world.checker.states.get(at)
        held = None if topic is None else topic.partitions.get(at.partition)
        if topic is None or held is None or at.topic in self.world.checker.unwanted:
            return True
        original = held.original
        added = tuple(r for r in target if r not in original)
        if any(r not in self.world.brokers or not self.world.brokers[r].is_registered for r in added):
            return True
        if self.paces.wait_for_znodes and any(a.is_moving for n, a in topic.partitions.items() if n != at.partition):
            return True
        places = places_of(Assignment((*target, *original), added), state, racks)
        is_full = any((limit := self.limit(p)) is not None and taken[p] >= limit for p in places)
        if self.disks.may_wait(at, target) or (self.gates.are_set and self.gates.may_wait(at, target)):
            return True
        return is_full or self.world.refusals.excuses(at, Concern.MOVING)

    def outcome(self) -> str | None:
        """The errors in what still waits at the end."""
        for at, entry in self._waiting.items():
            waited_s = self.world.clock.now - entry.patient_since
            is_excused = self.world.refusals.excuses(at, Concern.MOVING)
            if (
                self.paces.must_have_given_up(entry.move, waited_s)
                and not is_excused
                and at.topic not in self.world.checker.unwanted
            ):
                return f"{at} has waited for {waited_s} s, and has not given up: {entry.move}"
            if not self.may_wait(at, entry.move.to):
                return f"{at} still waits to move to {list(entry.move.to)}, though there is room: {entry.move}"
        names = {name.rpartition("-")[0] for name in self.world.zookeeper.nodes[ROOT].children}
        gone = sorted(name for name in names if name not in self.world.checker.topics)
        return f"left over in {ROOT} of topics that are gone: {gone}" if gone else None
