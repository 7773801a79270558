"""What shall one topic's znodes say after this step? All decisions of a turn about it, as writes."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from controller.core.cluster import Cluster, Partition, TopicView
from controller.core.effects import Create, Delete, Set, Write
from controller.core.rules.change import Case, Change
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicId, TopicPartition, ZnodeVersion
from zk_layout.znodes.admin import LegacyMove, LegacyReassignment, LegacyReassignmentAddress
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, PartitionState, StateAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletions, ReplicaDeletionsAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ABSENT = ZnodeVersion(-1)


class Atom(Struct, frozen=True):
    """Writes that belong together: all of them happen, or none."""

    writes: tuple[Write, ...]
    why: tuple[str, ...]


class Draft:
    """The step of one topic while it is being decided: the facts, and what was decided on top of them."""

    def __init__(self, topic: TopicView, cluster: Cluster) -> None:
        """Nothing decided yet."""
        self.topic = topic
        self._cluster = cluster
        self._assignments: dict[PartitionId, Assignment] = {}
        self._states: dict[PartitionId, PartitionState] = {}
        self._owed: dict[PartitionId, Replicas] = {}
        self._why: dict[PartitionId, list[str]] = {}
        self._struck: set[TopicPartition] = set()
        self._topic_id: TopicId | None = None
        self._added: dict[PartitionId, Replicas] = {}
        self._wishes: list[Atom] = []
        self._corrected: list[Write] = []
        self._created: list[Write] = []
        self.parts_children = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        others = self._corrected or self._created or self._struck
        znodes = self._assignments or self._states or self._owed or self._topic_id or self._added or self._wishes
        return not (others or znodes)

    @property
    def assigned(self) -> Iterable[PartitionId]:
        """The partitions whose replicas this step changes."""
        return self._assignments.keys()

    def assignment_of(self, number: PartitionId) -> Assignment | None:
        """The replicas of a partition after this step; None where there is no such partition."""
        held = self.topic.partitions.get(number)
        return self._assignments.get(number, held.assignment if held is not None else None)

    def touches(self, number: PartitionId) -> bool:
        """Whether anything has been decided about a partition."""
        return number in self._why

    @property
    def touches_legacy(self) -> bool:
        """Whether entries of the legacy znode leave with this step."""
        return bool(self._struck)

    def case(
        self,
        number: PartitionId,
        confirmed: frozenset[BrokerId],
        *,
        is_patience_over: bool,
        is_gathering: bool,
    ) -> Case | None:
        """One partition as the rules shall see it; None where its znodes are missing, unread or unreadable."""
        held = self.topic.partitions.get(number)
        if held is None or not held.assignment.replicas or not held.is_state_known or held.is_malformed:
            return None
        decided = self._states.get(number)
        is_told_here = decided is not None and (held.state is None or decided.leader_epoch != held.state.leader_epoch)
        return Case(
            TopicPartition(self.topic.name, number),
            self.topic,
            self._assignments.get(number, held.assignment),
            self._states.get(number, held.state),
            held.is_untold and not is_told_here,
            confirmed,
            is_patience_over,
            is_gathering,
            self._owed.get(number, self.topic.deletions.get(number, ())),
        )

    def take(self, number: PartitionId, change: Change) -> None:
        """Decide on top of what was decided before. Two raises of a leader epoch in one step count as one."""
        held = self.topic.partitions[number]
        if change.assignment is not None:
            self._assignments[number] = change.assignment
        if change.state is not None:
            state = change.state
            if held.state is not None and state.leader_epoch > held.state.leader_epoch + 1:
                state = PartitionState(
                    state.leader,
                    type(state.leader_epoch)(held.state.leader_epoch + 1),
                    state.controller_epoch,
                    state.isr,
                    state.leader_recovery_state,
                )
            self._states[number] = state
        if change.owed is not None:
            self._owed[number] = change.owed
            if change.owed == self.topic.deletions.get(number, ()):
                del self._owed[number]
        self._why.setdefault(number, []).append(change.why)

    def give_id(self, topic_id: TopicId) -> None:
        """Name a topic that has no id yet."""
        self._topic_id = topic_id

    @property
    def has_grown(self) -> bool:
        """Whether the topic gets partitions, or is to be deleted, with this step."""
        return bool(self._added or self._wishes)

    def grow(self, added: dict[PartitionId, Replicas]) -> None:
        """Give the topic new partitions; the next step finds their first leaders."""
        self._added = added

    def write(self, write: Write, why: str) -> None:
        """Write a znode that is none of the topic's own."""
        self._wishes.append(Atom((write,), (why,)))

    def keep_child(self, write: Write) -> None:
        """Let a child of `/admin/reassignments` say what this step decides, in the same transaction.

        Where that has to be cut, or is parted because ZooKeeper refuses it, children that are there are written before
        the topic: a successor then finds the same decision as a wish, or a child to create.
        """
        (self._created if isinstance(write, Create) else self._corrected).append(write)

    def strike(self, at: TopicPartition) -> None:
        """Take a partition's entry out of the legacy znode together with this step's writes."""
        self._struck.add(at)

    def strikes(self, at: TopicPartition) -> bool:
        """Whether a partition's entry in the legacy znode is overruled by this step."""
        return at in self._struck

    def atoms(self) -> list[Atom]:
        """The writes: first what concerns the whole topic with the states that go with it, then single states."""
        atoms = []
        together = sorted(self._assignments.keys() | self._owed.keys())
        znodes = [*self._topic_write(), *self._deletions_write(), *self._legacy_write()]
        created = []
        if not self.parts_children:
            znodes, created = [*self._corrected, *znodes], self._created
        if znodes or created:
            states = [w for n in together if n in self._states for w in self._state_writes(n)]
            why = tuple(w for n in together for w in self._why.get(n, ()))
            if self._topic_id is not None:
                why = (f"topic {self.topic.name} gets the id {self._topic_id}", *why)
            if self._added:
                count = min(self._added) + len(self._added)
                why = (f"asked to give topic {self.topic.name} {len(self._added)} more: {count} partitions", *why)
            atoms.append(Atom((*znodes, *states, *created), why or (self._shows,)))
        single = sorted(self._states.keys() - set(together))
        atoms.extend(Atom(tuple(self._state_writes(n)), tuple(self._why.get(n, ()))) for n in single)
        atoms.extend(self._wishes)
        apart = (*self._corrected, *self._created) if self.parts_children else ()
        return [*([Atom(apart, (self._shows,))] if apart else []), *self._with_parent(atoms)]

    @property
    def _shows(self) -> str:
        return f"/admin/reassignments shows the moves of topic {self.topic.name}"

    def _topic_write(self) -> Iterable[Write]:
        if not self._assignments and self._topic_id is None and not self._added:
            return
        listed = {
            n: self._assignments.get(n, held.assignment)
            for n, held in self.topic.partitions.items()
            if held.assignment.replicas
        }
        listed |= {n: Assignment(replicas) for n, replicas in self._added.items()}
        topic = Topic(listed, self._topic_id or self.topic.topic_id)
        yield Set(TopicAddress(self.topic.name), topic, self.topic.version)

    def _deletions_write(self) -> Iterable[Write]:
        if not self._owed:
            return
        owed = {n: r for n, r in sorted({**self.topic.deletions, **self._owed}.items()) if r}
        address, version = ReplicaDeletionsAddress(self.topic.name), self.topic.deletions_version
        value = ReplicaDeletions(owed, self._topic_id or self.topic.topic_id)
        if version == ABSENT:
            if owed:
                yield Create(address, value)
        elif owed:
            yield Set(address, value, version)
        else:
            yield Delete(address, version)

    def _legacy_write(self) -> Iterable[Write]:
        if self._struck:
            yield legacy_write(self._cluster, self._struck)

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
        if self.topic.has_partitions_znode or not any(self._is_new(n) for n in self._states):
            return atoms
        parent = Create(PartitionsAddress(self.topic.name), None)
        return [Atom((parent, *atoms[0].writes), atoms[0].why), *atoms[1:]]

    def _is_new(self, number: PartitionId) -> bool:
        held: Partition = self.topic.partitions[number]
        return held.state is None


def legacy_write(cluster: Cluster, struck: Iterable[TopicPartition]) -> Write:
    """The legacy znode without some entries; deleted where none is left."""
    gone = set(struck)
    rest = tuple(LegacyMove(at.topic, at.partition, t) for at, t in cluster.legacy.items() if at not in gone)
    if rest:
        return Set(LegacyReassignmentAddress(), LegacyReassignment(rest), cluster.legacy_version)
    return Delete(LegacyReassignmentAddress(), cluster.legacy_version)
