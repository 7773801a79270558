"""Does `/admin/reassignments` start the moves that people write, no others, and show every move?"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

from controller.core.messages.requests import AlterReassignments, Request
from tests.simulation.broken import Broken
from tests.simulation.refusals import Concern
from tests.simulation.zookeeper import MakeNode, Operation, RemoveNode, SetData
from zk_layout import catalog
from zk_layout.ids import BrokerId, PartitionId, Replicas, SessionId, TopicName, TopicPartition
from zk_layout.znodes.admin import LegacyReassignment, LegacyReassignmentAddress
from zk_layout.znodes.reassignments import ROOT, Reassignment, ReassignmentAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

if TYPE_CHECKING:
    from tests.simulation.world import World

ODD_NAMES = ("notes", "topic1-007", "topic1-", "-1", "topic1-99999999999")
# A request other than a child's counts that long, also if it waited for a process paused again and again (seed 1062).
REMEMBERED_S = 60.0
# The longest time of a transaction in flight: the request behind it may have changed meanwhile.
IN_FLIGHT_S = 10.0
# A request waits that long at most until its throttle is in force.
HELD_S = 20.0
# The longest time that an unhindered move may take to end.
CANCELLED_AFTER_S = 15.0
NEVER = float("-inf")


class _Child(Struct, frozen=True):
    replicas: Replicas | None
    is_ours: bool
    is_ahead: bool = False


class ReassignmentFolder:
    """People who write children, and the effects of the controllers that keep the folder.

    Shape:
        `keepers` are the controllers with the setting on: none, all, or in a few worlds all but one.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.random, drawn = world.random, Random(f"{world.seed}/folder")
        own_ids = list(world.controllers)
        self.keepers: list[BrokerId] = own_ids if drawn.random() < 0.4 else []
        if self.keepers and drawn.random() < 0.2:
            self.keepers = drawn.sample(own_ids, len(own_ids) - 1)
        self.is_kept_by_all = self.keepers == own_ids
        self.followed = self.cancelled = self.refused = 0
        self._children: dict[TopicPartition, _Child] = {}
        # When something was asked for, and until when the request may wait before it is taken in.
        self._asked_at: dict[TopicPartition, dict[Replicas | None, list[tuple[float, float]]]] = {}
        self._last_other_wish: dict[TopicPartition, float] = {}
        self._wanted_at: dict[tuple[TopicPartition, Replicas], float] = {}  # replicas in ascending order
        self._pending: dict[TopicPartition, tuple[Replicas, float]] = {}
        self._deleted: dict[TopicPartition, float] = {}
        self._withdrawn: dict[tuple[TopicPartition, Replicas], float] = {}

    # people

    def act(self) -> None:
        """Create, change or delete a child; now and then write nonsense."""
        if not any(topic.partitions for topic in self.world.checker.topics.values()):
            return
        chance = self.random.random()
        if chance < 0.05:
            self.write(MakeNode(f"{ROOT}/{self.random.choice(ODD_NAMES)}", b"1"))
        elif chance < 0.45 or not self._children:
            self._create()
        elif chance < 0.75:
            at = self.random.choice(list(self._children))
            self.write(SetData(_path(at), self._data(at)))
        else:
            self.write(RemoveNode(_path(self.random.choice(list(self._children)))))

    def ask_for(self, at: TopicPartition) -> None:
        """Request a move of just this partition."""
        if self.keepers and at.topic in self.world.checker.topics:
            self.write(MakeNode(_path(at), self._data(at)))

    def two_wishes(self, at: TopicPartition) -> tuple[bytes, bytes]:
        """Request a move, and another target a moment later."""
        return self._data(at), self._data(at)

    def _create(self) -> None:
        name = self.random.choice([name for name, topic in self.world.checker.topics.items() if topic.partitions])
        at = TopicPartition(name, self.random.choice(list(self.world.checker.topics[name].partitions)))
        if self.random.random() < 0.05:
            at = TopicPartition(TopicName("nowhere-1"), PartitionId(0))
        if self.random.random() < 0.1:
            self.write(MakeNode(_path(at)))
            self.world.clock.after(0.5, lambda: self.write(SetData(_path(at), self._data(at))))
        else:
            self.write(MakeNode(_path(at), self._data(at)))

    def _data(self, at: TopicPartition) -> bytes:
        chance = self.random.random()
        topic = self.world.checker.topics.get(at.topic)
        held = topic.partitions.get(at.partition) if topic is not None else None
        if chance < 0.05:
            return b'{"version":1,"assignment":'
        if chance < 0.10:
            return catalog.encode(Reassignment(self.random.choice(((), (BrokerId(1), BrokerId(1)), (BrokerId(77),)))))
        if chance < 0.35 and held is not None:
            return catalog.encode(Reassignment(held.original))
        brokers = list(self.world.brokers)
        some = self.random.sample(brokers, self.random.randint(1, min(3, len(brokers))))
        return catalog.encode(Reassignment(tuple(some)))

    def write(self, operation: Operation) -> None:
        """Write a child by hand."""
        what = getattr(operation, "data", b"").decode()
        self.world.say("client", f"{type(operation).__name__} {operation.path} {what}")
        self.world.write(operation)

    # what happens

    def asked(self, request: Request) -> None:
        """A request has arrived."""
        if isinstance(request, AlterReassignments):
            for wanted in request.reassignments:
                self.wanted(wanted.topic_partition, wanted.replicas, is_held=request.throttle is not None)

    def wanted(self, at: TopicPartition, replicas: Replicas | None, *, is_held: bool = False) -> None:
        """Note a wish for these replicas, or for the end of a move; one that `is_held` may follow later ones."""
        now = self.world.clock.now
        self._asked_at.setdefault(at, {}).setdefault(replicas, []).append((now, now + HELD_S if is_held else now))
        self._last_other_wish[at] = now
        self._note_wish(at, replicas)

    def _last_asked(self, at: TopicPartition, replicas: Replicas | None) -> float:
        return max((until for _, until in self._asked_at.get(at, {}).get(replicas, ())), default=NEVER)

    def _followed(self, at: TopicPartition, replicas: Replicas | None, since: float) -> None:
        """A request was followed: those before it are overruled, even if a controller finds them again.

        The earliest of equal requests, as far as can be known: a later one may still come after other requests.
        """
        asked = self._asked_at.get(at, {})
        followed = min((one for one in asked.get(replicas, ()) if one[1] >= since), default=None)
        if followed is not None:
            later = [one for one in asked[replicas] if one > followed] or [followed]
            kept = {r: [one for one in some if one[1] >= followed[0]] for r, some in asked.items()}
            self._asked_at[at] = {**{r: some for r, some in kept.items() if some}, replicas: later}

    def was_wanted(self, at: TopicPartition, replicas: Replicas) -> bool:
        """Whether these replicas were recently requested, in any order, even if overruled since."""
        since = self.world.clock.now - self.world.ensemble.most_s - REMEMBERED_S
        return self._wanted_at.get((at, tuple(sorted(replicas))), NEVER) >= since

    def _note_wish(self, at: TopicPartition, replicas: Replicas | None) -> None:
        if replicas is not None:
            self._wanted_at[at, tuple(sorted(replicas))] = self.world.clock.now

    def noticed(self, text: str) -> None:
        """A controller gives its reason to refuse a child."""
        for at in list(self._pending):
            if f"{_path(at)} " in text:
                self.refused += 1
                del self._pending[at]

    def wrote(self, touched: dict[str, SessionId]) -> str | None:
        """The errors in a transaction's changes of the moves."""
        if not self.keepers:
            return None
        for path, session in touched.items():
            address = catalog.address_of(path)
            if isinstance(address, LegacyReassignmentAddress) and session == self.world.tools:
                self._legacy_written(path)
            if isinstance(address, TopicAddress):
                wrong = self._topic_written(address.topic, path, is_by_hand=session == self.world.tools)
                if wrong is not None:
                    return wrong
        for path, session in touched.items():
            address = catalog.address_of(path)
            if isinstance(address, ReassignmentAddress):
                at = TopicPartition(address.topic, address.partition)
                is_alone = TopicAddress(at.topic).path not in touched
                self._child_written(at, path, is_ours=session != self.world.tools, is_alone=is_alone)
        return None

    def _legacy_written(self, path: str) -> None:
        node = self.world.zookeeper.nodes.get(path)
        value = catalog.decode(LegacyReassignmentAddress(), node.data) if node is not None else None
        for move in value.moves if isinstance(value, LegacyReassignment) else ():
            self.wanted(move.topic_partition, move.replicas)

    def _child_written(self, at: TopicPartition, path: str, *, is_ours: bool, is_alone: bool) -> None:
        node, before = self.world.zookeeper.nodes.get(path), self._children.get(at)
        if before is not None and not before.is_ours and not is_ours and before.replicas is not None:
            self._withdrawn[at, before.replicas] = self.world.clock.now
        if node is None:
            self._children.pop(at, None)
            if not is_ours:
                self._deleted[at] = self.world.clock.now
                self._pending.pop(at, None)
                if before is not None and before.is_ours:
                    self._await_cancel(at)
            return
        value = catalog.decode(ReassignmentAddress(at.topic, at.partition), node.data)
        replicas = value.assignment if isinstance(value, Reassignment) else None
        if is_ours and before is None and self.random.random() < 0.1:
            self.world.clock.after(self.random.uniform(0.0, 0.02), lambda: self.write(RemoveNode(path)))
        is_asked_for = (
            self._last_asked(at, replicas) >= self.world.clock.now - self.world.ensemble.most_s - REMEMBERED_S
        )
        is_asked_for |= replicas in self._legacy_entries(at)  # which wait for as long as they cannot be followed
        # If the rest of the decision is refused, the remaining entry says what the client wanted.
        is_ahead = is_ours and is_alone and is_asked_for and self._target(at) != replicas
        self._children[at] = _Child(replicas, is_ours, is_ahead)
        if not is_ours:
            self._note_wish(at, replicas)
            self._pending.pop(at, None)
            if replicas is not None and at.topic in self.world.checker.topics:
                self._pending[at] = (replicas, self.world.clock.now)

    def _await_cancel(self, at: TopicPartition) -> None:
        """Deleting a move's child requests its end, which any controller that leads for long enough must carry out."""
        epoch, target, deleted = self.world.checker.current_epoch(), self._target(at), self.world.clock.now

        def look() -> None:
            still = self._target(at)
            has_changed = self._last_other_wish.get(at, NEVER) > deleted - IN_FLIGHT_S or at in self._children
            leader = self.world.leading()
            if leader is None or leader.epoch != epoch or self.world.checker.current_epoch() != epoch:
                return
            shown_for = self.world.clock.now - self.world.ensemble.shown_in_time_since(leader.session)
            rules_on = self.world.is_peaceful and shown_for >= CANCELLED_AFTER_S
            is_excused = self.world.refusals.excuses(at, Concern.MOVING)
            is_due = still == target and not has_changed and rules_on and not is_excused
            if still is not None and is_due and self._can_cancel(at):
                raise Broken(f"{_path(at)} was deleted, and its move to {list(still)} goes on")

        if self.is_kept_by_all and target is not None:
            self.world.clock.after(CANCELLED_AFTER_S, look)

    def _target(self, at: TopicPartition) -> Replicas | None:
        """The target of a move in progress, unless its topic is to be deleted."""
        topic = self.world.checker.topics.get(at.topic)
        held = topic.partitions.get(at.partition) if topic is not None else None
        return (
            held.target if held is not None and held.is_moving and at.topic not in self.world.checker.unwanted else None
        )

    def _can_cancel(self, at: TopicPartition) -> bool:
        state = self.world.checker.states.get(at)
        original = self.world.checker.topics[at.topic].partitions[at.partition].original
        live = [b for b, broker in self.world.brokers.items() if broker.is_up and not broker.is_offline(at)]
        return state is not None and any(r in live and r in state.isr for r in original)

    def _topic_written(self, name: TopicName, path: str, *, is_by_hand: bool) -> str | None:
        node, before = self.world.zookeeper.nodes.get(path), self.world.checker.topics.get(name)
        after = catalog.decode(TopicAddress(name), node.data) if node is not None else None
        if not isinstance(after, Topic) or before is None:
            self._pending = {at: pending for at, pending in self._pending.items() if at.topic != name}
            return None
        for number, assignment in after.partitions.items():
            at, former = TopicPartition(name, number), before.partitions.get(number)
            pending = self._pending.get(at)
            if pending is not None and pending[0] == assignment.target:
                self.followed += 1
                del self._pending[at]
            if former is not None and not is_by_hand and not self._is_wanted(at, former, assignment):
                return f"no request moves {at} from {former} to {assignment}"
        return None

    def _is_wanted(self, at: TopicPartition, before: Assignment, after: Assignment) -> bool:
        """Whether a move was requested, or its end before it was done."""
        if after.target == before.target or not (before.is_moving or after.is_moving):
            return True
        if self.world.limits.waits_for(at) == after.target:
            return True
        if at in self.world.checker.edited or any(r in self.world.controllers for r in before.replicas):
            return True  # a replica placed on a controller's own id goes elsewhere
        child = self._children.get(at)
        # A child of ours that was hidden while its move ended could not be removed, and looks to a successor like a
        # client's.
        is_request = child is not None and (
            not child.is_ours or child.is_ahead or self.world.refusals.hid_lately(_path(at))
        )
        if child is not None and is_request and child.replicas == after.target:
            return True
        seen_at = self.world.clock.now - self.world.ensemble.most_s
        if self._withdrawn.get((at, after.target), NEVER) > seen_at - IN_FLIGHT_S:
            return True
        # What is asked of a partition that may not be read waits until it may.
        since = NEVER if self.world.checker.was_unreadable_lately(at) else seen_at - REMEMBERED_S
        if after.target in self._legacy_entries(at):
            return True  # it waited for its turn, or wins again after a take-over
        if after.is_moving:
            self._followed(at, after.target, since)
            return self._last_asked(at, after.target) >= since
        is_deleted = self._deleted.get(at, NEVER) >= (since if child is None else seen_at - IN_FLIGHT_S)
        self.cancelled += is_deleted
        return is_deleted or any(self._last_asked(at, replicas) >= since for replicas in (None, after.target))

    def _legacy_entries(self, at: TopicPartition) -> list[Replicas]:
        node = self.world.zookeeper.nodes.get(LegacyReassignmentAddress().path)
        value = catalog.decode(LegacyReassignmentAddress(), node.data) if node is not None else None
        moves = value.moves if isinstance(value, LegacyReassignment) else ()
        return [move.replicas for move in moves if move.topic_partition == at]

    # the end

    def outcome(self, leader: BrokerId) -> str | None:
        """The errors in the final folder, and in the outcomes of people's requests."""
        if leader not in self.keepers:
            return None
        moving = {
            TopicPartition(name, number): assignment.target
            for name, topic in self.world.checker.topics.items()
            for number, assignment in topic.partitions.items()
            if assignment.is_moving and name not in self.world.checker.unwanted
        }
        shown = {at: child.replicas for at, child in self._children.items()}
        excused = {at for at in (*moving, *shown, *self._pending) if self.world.refusals.excuses(at, Concern.MOVING)}
        awaited = {at for at in shown if not self.world.zookeeper.nodes[_path(at)].data}
        may_wait = self.world.limits.may_wait
        waiting = {at for at, r in shown.items() if at not in moving and r is not None and may_wait(at, r)}
        left = awaited | excused | waiting
        if {at: r for at, r in shown.items() if at not in left} != {
            at: r for at, r in moving.items() if at not in left
        }:
            return f"{ROOT} shows {shown}, but what moves is {moving}"
        for at, (replicas, since) in self._pending.items():
            if at.topic in self.world.checker.unwanted or at in excused or not self.is_kept_by_all:
                continue
            topic = self.world.checker.topics.get(at.topic)
            held = topic.partitions.get(at.partition) if topic is not None else None
            names_a_controller = not self.world.controllers.keys().isdisjoint(replicas)  # a broker takes its place
            is_there = held is None or held.target == replicas or names_a_controller
            is_there |= may_wait(at, replicas)
            if not is_there and self._last_other_wish.get(at, NEVER) < since - REMEMBERED_S:
                return f"{_path(at)} was to move its partition to {list(replicas)} and was forgotten; it is at {held}"
        return None


def _path(at: TopicPartition) -> str:
    return ReassignmentAddress(at.topic, at.partition).path
