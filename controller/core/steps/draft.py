"""What should one topic's znodes say after this step? All decisions of a turn about it, as writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from controller.core.announcing.announcements import Making
from controller.core.messages.effects import Create, Delete, Record, Set, Write
from controller.core.stage import strays, without, without_strays
from controller.core.state.brokers import NO_BROKERS
from controller.core.state.topics import TopicView
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, listed, raised
from controller.core.steps.invariants import NOTHING, Held, gate
from controller.core.transactions.proposal import Atom
from zk_layout.ids import ABSENT, NO_LEADER, LeaderEpoch, PartitionId, Replicas, TopicId, TopicPartition, ZnodeVersion
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, PartitionState, StateAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletions, ReplicaDeletionsAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress


class Draft:
    """One topic's step in preparation: the facts, and the decisions on top of them.

    Other znodes that must change with the topic's are written `before` it, along with it, or, like states, `after` it:
    the order matters if a transaction has to be cut. `notes` are reasons for what is written along; `shows` is the
    reason if nothing else is written.
    """

    def __init__(self, topic: TopicView, cluster: Cluster) -> None:
        self.topic = topic
        self.before: list[Write] = []
        self.along: list[Write] = []
        self.after: list[Write] = []
        self.apart: list[Atom] = []
        self.notes: list[str] = []
        self.shows = ""
        self._cluster = cluster
        self._assignments: dict[PartitionId, Assignment] = {}
        self._states: dict[PartitionId, PartitionState] = {}
        self._owed: dict[PartitionId, Replicas] = {}
        self._why: dict[PartitionId, list[str]] = {}
        self._former: dict[PartitionId, PartitionState | None] = {}
        self._unclean: dict[PartitionId, None] = {}
        self._topic_id: TopicId | None = None
        self._overwritten = {} if topic.is_malformed else cluster.overwritten.get(topic.name, {})
        self._added: dict[PartitionId, Replicas] = {}
        self._requests: list[Atom] = []

    @property
    def assigned(self) -> Iterable[PartitionId]:
        """The partitions whose replicas this step changes."""
        return self._assignments.keys()

    def assignment_of(self, number: PartitionId) -> Assignment | None:
        """The replicas of a partition after this step; None if there is no such partition."""
        held = self.topic.partitions.get(number)
        return self._assignments.get(number, held.assignment if held is not None else None)

    def why(self, number: PartitionId) -> Sequence[str]:
        """The reasons for the decisions about a partition."""
        return self._why[number]

    def touches(self, number: PartitionId) -> bool:
        """Whether anything has been decided about a partition."""
        return number in self._why

    def case(self, number: PartitionId) -> Case | None:
        """One partition as the rules see it; None if its znodes are missing, unread or unreadable."""
        held, cluster = self.topic.partitions.get(number), self._cluster
        if held is None or not held.assignment.replicas or not held.is_state_known or held.is_malformed:
            return None
        written, state = self._assignments.get(number, held.assignment), self._states.get(number, held.state)
        assignment, state, gone = without_strays(written, state)
        at = TopicPartition(self.topic.name, number)
        decided = self._states.get(number)
        is_announced_here = decided is not None and (
            held.state is None or decided.leader_epoch != held.state.leader_epoch
        )
        return Case(
            at,
            self.topic,
            assignment,
            state,
            at in cluster.unannounced and not is_announced_here,
            cluster.confirmed.get(at, NO_BROKERS),
            at in cluster.out_of_patience,
            at.topic in cluster.gathering,
            self._owed.get(number, self.topic.deletions.get(number, ())),
            cluster.fresh_config(at),
            assignment.replicas[len(written.replicas) :],
            gone,
        )

    def take(self, number: PartitionId, change: Change) -> None:
        """Decide on top of earlier decisions. Two raises of a leader epoch in one step count as one.

        Removes strays from the ISR even if the change writes no state: one may be among the new replicas.

        Raises:
            Violated: it breaks an invariant.
        """
        held = self.topic.partitions[number]
        former, state = held.state, change.state
        if state is not None:
            if former is not None and state.leader_epoch > former.leader_epoch + 1:
                state = replace(state, leader_epoch=LeaderEpoch(former.leader_epoch + 1))
        elif former is not None and self._had_strays(number) and number not in self._states:
            state = raised(without(former, strays(held.assignment, former)), self._cluster.controller_epoch)
        assignment = change.assignment or self._assignments.get(number, held.assignment)
        after = Held(assignment, state or self._states.get(number, former))
        gate(self.topic.name, number, Held(held.assignment, former), after, change.why)
        if change.assignment is not None:
            self._assignments[number] = change.assignment
        self._former.setdefault(number, former)
        if state is not None:
            earlier = self._states.get(number, former)
            if earlier is not None and state.leader not in (NO_LEADER, earlier.leader, *earlier.isr):
                self._unclean[number] = None
            self._states[number] = state
        if change.owed is not None:
            self._owed[number] = change.owed
            if change.owed == self.topic.deletions.get(number, ()):
                del self._owed[number]
        self._why.setdefault(number, []).append(change.why)

    def records(self) -> Iterable[tuple[Record, Sequence[str]]]:
        """The audit records of this step, once it is written: elections, moves, and changes of topics.

        Omits first leaders, which belong to the topic, and smaller ISRs, which belong to a broker.
        """
        if self._added:
            yield Record.TOPIC, (self._growth(),)
        for atom in self._requests:
            yield Record.TOPIC, atom.why[:1]
        for number, why in self._why.items():
            former, state = self._former[number], self._states.get(number)
            if number in self._assignments:
                yield Record.MOVE, why
            elif former is not None and state is not None and state.leader != former.leader:
                yield Record.ELECTION, why

    def unclean_elections(self) -> int:
        """How many partitions get a leader that was not in sync: records may be lost."""
        return len(self._unclean)

    def give_id(self, topic_id: TopicId) -> None:
        """Give an id to a topic without one."""
        self._topic_id = topic_id

    def restore_id(self) -> bool:
        """Give the topic the id back that a tool has dropped; return whether one had."""
        if self.topic.has_lost_id:
            self._topic_id = self.topic.topic_id
        return self.topic.has_lost_id

    @property
    def is_about_the_whole(self) -> bool:
        """Whether this step adds partitions to the topic, or requests its deletion."""
        return bool(self._added or self._requests)

    def grow(self, added: dict[PartitionId, Replicas]) -> None:
        """Add partitions to the topic; the next step elects their first leaders.

        Raises:
            Violated: one cannot have these replicas.
        """
        for number, replicas in added.items():
            gate(self.topic.name, number, NOTHING, Held(Assignment(replicas)), "asked for a new partition")
        self._added = added

    def request(self, write: Write, why: str) -> None:
        """Record a request about the topic as a whole in a znode outside the topic."""
        self._requests.append(Atom((write,), (why,)))

    def made(self) -> Iterable[tuple[PartitionId, Making]]:
        """The replicas that this step creates: those of partitions without a znode, and those that moves add.

        Excludes replicas that may have a log: one whose deletion is owed, one in sync, listed or not, and those of a
        partition that has lost its state.
        """
        for number in self._why:
            held, assignment = self.topic.partitions[number], self._assignments.get(number)
            if held.state is None and number in self._states:
                replicas = () if held.has_znode else (assignment or held.assignment).replicas
                yield number, Making(self._states[number], frozenset(replicas))
            elif assignment is not None:
                in_sync = () if held.state is None else held.state.isr
                there = (*held.assignment.replicas, *in_sync, *self.topic.deletions.get(number, ()))
                yield number, Making(assignment, frozenset(r for r in assignment.adding if r not in there))

    def atoms(self) -> tuple[Atom, ...]:
        """The writes: first the topic's own znodes with the states that belong to them, then single states.

        Writes that go `apart`, because ZooKeeper keeps refusing them, are included only if there is nothing else.
        """
        if self._writes_nothing():
            return tuple(self.apart)
        atoms = []
        together = sorted(self._assignments.keys() | self._owed.keys())
        owed, is_first = self._owed_in_order()
        znodes = (*self._topic_write(), *self._deletions_write(owed), *self.along)
        if znodes or self.before or self.after:
            first = [n for n in together if n in self._states and (self._had_strays(n) or self._only_drops(n))]
            last = [n for n in together if n in self._states and n not in first]
            before, states = ([w for n in some for w in self._state_writes(n)] for some in (first, last))
            why = (*self._reasons(together), *self.notes) or (self.shows,)
            first_of_all = (ReplicaDeletionsAddress(self.topic.name),) if is_first else ()
            atoms.append(Atom(znodes, why, (*self.before, *before), (*states, *self.after), first_of_all))
        single = sorted(self._states.keys() - set(together))
        atoms.extend(Atom(tuple(self._state_writes(n)), tuple(self._why.get(n, ()))) for n in single)
        return (*self._with_parent(atoms), *self._requests) or tuple(self.apart)

    def _writes_nothing(self) -> bool:
        of_topic = self._assignments or self._owed or self._added or self._overwritten or self._topic_id is not None
        return not (of_topic or self._states or self._requests or self.before or self.along or self.after)

    def _reasons(self, together: Iterable[PartitionId]) -> tuple[str, ...]:
        name = self.topic.name
        why = tuple(w for n in together for w in self._why.get(n, ()))
        if self._topic_id is not None:
            why = (f"topic {name} gets the id {self._topic_id}", *why)
        if self._added:
            why = (self._growth(), *why)
        kept = [TopicPartition(name, n) for n in sorted(self._overwritten) if n not in self._assignments]
        replicas = (listed(self.topic.partitions[at.partition].assignment.replicas) for at in kept)
        return (*(f"{at} keeps the replicas {its}" for at, its in zip(kept, replicas, strict=True)), *why)

    def _growth(self) -> str:
        more = len(self._added)
        return f"asked to give topic {self.topic.name} {more} more: {min(self._added) + more} partitions"

    def _topic_write(self) -> Iterable[Write]:
        if not (self._assignments or self._topic_id is not None or self._added or self._overwritten):
            return
        assignments = {
            n: self._assignments.get(n, held.assignment)
            for n, held in self.topic.partitions.items()
            if held.assignment.replicas
        }
        assignments |= {n: Assignment(replicas) for n, replicas in self._added.items()}
        topic = Topic(assignments, self._topic_id or self.topic.topic_id)
        yield Set(TopicAddress(self.topic.name), topic, self.topic.version)

    def _owed_in_order(self) -> tuple[dict[PartitionId, Replicas], bool]:
        """The deletions that are owed after this step, and whether they are written before the topic if both do not
        fit into one transaction: what leaves the topic must be owed by then.

        What is assigned again must not be forgotten before the topic lists it: if anything else becomes owed, it stays
        owed until the next step.
        """
        held = self.topic.deletions
        is_more = any(r not in held.get(n, ()) for n, owed in self._owed.items() for r in owed)
        again = {
            n: tuple(r for r in held.get(n, ()) if n in self._assignments and r in self._assignments[n].replicas)
            for n in (self._owed if is_more else ())
        }
        return {n: (*owed, *again.get(n, ())) for n, owed in self._owed.items()}, is_more

    def _deletions_write(self, changed: dict[PartitionId, Replicas]) -> Iterable[Write]:
        if not changed:
            return
        owed = {n: r for n, r in sorted({**self.topic.deletions, **changed}.items()) if r}
        address, version = ReplicaDeletionsAddress(self.topic.name), self.topic.deletions_version
        value = ReplicaDeletions(owed, self._topic_id or self.topic.topic_id)
        if version == ABSENT:
            if owed:
                yield Create(address, value)
        elif owed:
            yield Set(address, value, version)
        else:
            yield Delete(address, version)

    def _had_strays(self, number: PartitionId) -> bool:
        """Whether strays must leave the ISR before the topic's znode may list one of them."""
        held = self.topic.partitions[number]
        return held.state is not None and bool(strays(held.assignment, held.state))

    def _only_drops(self, number: PartitionId) -> bool:
        """Whether replicas leave and none is added.

        Where the transaction has to be cut, the state is written before the topic: its version shows whether a leader
        has changed the ISR meanwhile, and with that, whether the replicas that stay are still in sync.
        """
        assignment = self._assignments.get(number)
        if assignment is None or assignment.adding:
            return False
        return any(r not in assignment.replicas for r in self.topic.partitions[number].assignment.replicas)

    def _state_writes(self, number: PartitionId) -> Iterable[Write]:
        held, state = self.topic.partitions[number], self._states[number]
        address = StateAddress(self.topic.name, number)
        if held.state is not None:
            yield Set(address, state, ZnodeVersion(held.epoch))
            return
        if not held.has_znode:
            yield Create(PartitionAddress(self.topic.name, number), None)
        yield Create(address, state)

    def _with_parent(self, atoms: list[Atom]) -> list[Atom]:
        is_any_new = any(self.topic.partitions[number].state is None for number in self._states)
        if self.topic.has_partitions_znode or not is_any_new:
            return atoms
        return [Atom((Create(PartitionsAddress(self.topic.name), None),), ()), *atoms]
