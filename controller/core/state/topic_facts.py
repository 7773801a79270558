"""How do the facts about one topic become one view, whatever their order?

Facts about one topic come from several znodes, in any order. A fact that arrives before the topic's own znode is kept;
a fact older than the topic's creation belongs to an earlier topic of the same name and is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from types import MappingProxyType

from msgspec.structs import replace

from controller.core.state.changes import OpenChanges
from controller.core.state.first_reading import assign_first, first_states
from controller.core.state.placement import PlacementIndex
from controller.core.state.topic_names import look_of
from controller.core.state.topic_record import Record
from controller.core.state.topics import (
    BLANK,
    HIDDEN_MARK,
    NEVER,
    NO_EPOCH,
    UNASSIGNED,
    DeletionMark,
    Partition,
    TopicConfig,
    TopicView,
    since,
)
from zk_layout.codec import Malformed
from zk_layout.facts import Fact, is_newer
from zk_layout.ids import ABSENT, PartitionEpoch, PartitionId, TopicId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.configs import readable
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.replica_deletions import ReplicaDeletions
from zk_layout.znodes.topics import Assignment, Topic

MOST_TOMBSTONES = 10_000
UNREACHED = Zxid(2**63 - 1)


class Topics:
    """The topics as folded from facts, with the indexes that make a turn only as costly as its changes."""

    def __init__(self, changes: OpenChanges, placement: PlacementIndex) -> None:
        self.changes = changes
        self.views: dict[TopicName, TopicView] = {}
        self.names: dict[TopicId, TopicName] = {}
        self.marks: dict[TopicName, DeletionMark] = {}
        self.alike: dict[str, dict[TopicName, None]] = {}
        self._placement = placement
        self._deletes_topics = True
        self._records: dict[TopicName, Record] = {}
        self._tombstones: dict[TopicName, None] = {}

    def partition(self, topic: TopicName, number: PartitionId) -> Partition | None:
        """A partition listed by its topic's znode."""
        record = self._records.get(topic)
        held = record.partitions.get(number) if record is not None and record.view is not None else None
        return held if held is not None and held.assignment.replicas else None

    def config(self, name: TopicName) -> TopicConfig | None:
        """A topic's settings as last read; None if never. They may exist without the topic."""
        record = self._records.get(name)
        return None if record is None else record.config

    def is_known_missing(self, name: TopicName, since: Zxid) -> bool:
        """Whether the topic was absent at this zxid or later."""
        record = self._records.get(name)
        return record is not None and record.view is None and record.absent_as_of >= since

    def stray_deletions(self, name: TopicName) -> tuple[ZnodeVersion, Zxid] | None:
        """Version and sighting of deletions owed by a topic that does not exist, or was replaced by another of its
        name; None if there are none.
        """
        record = self._records.get(name)
        if record is None or record.owed_version == ABSENT:
            return None
        if record.view is not None and not _is_of_another(record.owed, record.owed_czxid, record.view):
            return None
        return record.owed_version, record.owed_as_of

    def set_deletes_topics(self, *, deletes_topics: bool) -> None:
        """As a term has it; where it is false (Kafka's `delete.topic.enable`) no topic is queued for deletion."""
        self._deletes_topics = deletes_topics
        for name in self.marks:
            record = self._records[name]
            if record.view is not None:
                self._queue(record, record.view)

    def let_go(self, most: int) -> bool:
        """Free up to `most` partitions at the end of a term; return whether some are left."""
        while self._records and most > 0:
            name, record = self._records.popitem()
            self.views.pop(name, None)
            most -= 1 + len(record.partitions)
        return bool(self._records)

    # ---- folding --------------------------------------------------------------------------------------------

    def apply_topic(self, name: TopicName, fact: Fact) -> bool:
        """Fold in the topic's own znode; return whether it is news."""
        record, stat = self._record(name), fact.stat
        view = record.view
        held_as_of = view.as_of if view is not None else record.absent_as_of
        if not is_newer(fact, held_as_of, is_held_present=view is not None):
            self._learn_late(record, fact)
            return False
        if stat is None:
            if view is not None:
                self._forget(record, view, fact.as_of)
            record.absent_as_of = fact.as_of
            if name in self.marks:
                self.changes.marks[name] = None
            if record.owed_version != ABSENT:
                self.changes.stray_deletions[name] = None
            self._bury(name, record)
            return True
        if view is not None and view.czxid != stat.czxid:
            self._forget(record, view, stat.czxid)
            view = None
        if view is None:
            view = self._meet(name, record, stat.czxid)
        else:
            self.changes.topics.setdefault(name, view)
        self._read(record, replace(view, as_of=fact.as_of, version=stat.version), fact.value, fact.as_of)
        if self.stray_deletions(name) is not None:
            self.changes.stray_deletions[name] = None
        return True

    def apply_state(self, name: TopicName, number: PartitionId, fact: Fact) -> bool:
        """Fold in a partition's state znode; return whether it is news."""
        record = self._record(name)
        view, stat = record.view, fact.stat
        if view is not None and fact.as_of < view.czxid:
            return False
        held = record.partitions.get(number, BLANK)
        has_znode, znode_as_of = held.has_znode, held.znode_as_of
        if stat is not None:  # its parents existed then, even if this znode has gone since
            if fact.as_of >= znode_as_of:
                has_znode, znode_as_of = True, fact.as_of
            if fact.as_of >= record.partitions_znode_as_of:
                self._note_partitions_znode(record, fact)
        if not is_newer(fact, held.as_of, is_held_present=held.state is not None or held.is_malformed):
            if (has_znode, znode_as_of) != (held.has_znode, held.znode_as_of):
                record.partitions[number] = replace(held, has_znode=has_znode, znode_as_of=znode_as_of)
            return False
        value = fact.value
        state = value if isinstance(value, PartitionState) else None
        epoch = NO_EPOCH if stat is None else PartitionEpoch(stat.version)
        is_malformed = isinstance(value, Malformed)
        after = Partition(held.assignment, state, epoch, fact.as_of, True, is_malformed, has_znode, znode_as_of)
        record.partitions[number] = after
        if view is not None:
            self.changes.touch(name, number, held)
        else:
            self._bury(name, record)
        return True

    def apply_first_states(self, name: TopicName, facts: Iterable[Fact]) -> Iterator[Fact]:
        """Fold in the states of one topic that are read for the first time; yield the others, as `first_states`."""
        record = self._records.get(name)
        if record is None or record.view is None:
            return iter(facts)
        return first_states(record, record.view, facts, self.changes, partial(self._note_partitions_znode, record))

    def refuse_state(self, name: TopicName, number: PartitionId) -> None:
        """Treat a state that ZooKeeper does not let us read as malformed; any later sighting of it is news."""
        record = self._record(name)
        held = record.partitions.get(number, BLANK)
        if record.view is None or held.is_state_known:
            return
        self.changes.touch(name, number, held)
        record.partitions[number] = replace(held, is_state_known=True, is_malformed=True)

    def unread(self, name: TopicName, number: PartitionId | None = None) -> None:
        """Forget what was read of a topic, or of a partition's state, before ZooKeeper refused it: it may have changed.

        What is refused now counts as if it had never been read.
        """
        record = self._records.get(name)
        if record is None:
            return
        if number is not None and number in record.partitions:
            held = record.partitions[number]
            record.partitions[number] = Partition(
                held.assignment,
                is_state_known=True,
                is_malformed=True,
                has_znode=held.has_znode,
                znode_as_of=held.znode_as_of,
            )
        elif number is None and record.view is not None:
            self._forget(record, record.view, UNREACHED)

    def unread_content(self, name: TopicName) -> None:
        """Forget what was read of a topic before its znode became malformed: it may have changed in between."""
        record = self._records[name]
        view = record.view
        if view is not None:
            self._forget(record, view, UNREACHED)
            blank = replace(self._meet(name, record, view.czxid), as_of=view.as_of, version=view.version)
            self._read(record, blank, None, view.as_of)

    def allow_topic(self, name: TopicName) -> None:
        """Touch partitions that never had a leader: they waited for the topic's znode to be readable."""
        record = self._record(name)
        if record.view is not None:
            for number, held in record.partitions.items():
                if held.state is None:
                    self.changes.touch(name, number, held)

    def apply_partition_znode(self, name: TopicName, number: PartitionId, fact: Fact) -> None:
        """Fold in the parent of a state znode."""
        record = self._record(name)
        held = record.partitions.get(number, BLANK)
        is_former = record.view is not None and fact.as_of < record.view.czxid
        if not is_former and is_newer(fact, held.znode_as_of, is_held_present=held.has_znode):
            record.partitions[number] = replace(held, has_znode=fact.is_present, znode_as_of=fact.as_of)

    def apply_partitions_znode(self, name: TopicName, fact: Fact) -> None:
        """Fold in the parent of all partitions' znodes."""
        record = self._record(name)
        if record.view is None or fact.as_of >= record.view.czxid:
            self._note_partitions_znode(record, fact)

    def _note_partitions_znode(self, record: Record, fact: Fact) -> None:
        """Note a sighting of it, or of a znode below it, which proves its presence."""
        if not is_newer(fact, record.partitions_znode_as_of, is_held_present=record.partitions_znode):
            return
        view = record.view
        record.partitions_znode, record.partitions_znode_as_of = fact.is_present, fact.as_of
        if view is not None and view.has_partitions_znode is not fact.is_present:
            self.changes.topics.setdefault(view.name, view)
            self._replace(record, replace(view, has_partitions_znode=fact.is_present))

    def apply_deletions(self, name: TopicName, fact: Fact) -> bool:
        """Fold in the replica deletions that brokers owe; return whether they are news."""
        record = self._record(name)
        if not is_newer(fact, record.owed_as_of, is_held_present=record.owed_version != ABSENT):
            return False
        record.owed_as_of = fact.as_of
        record.owed_version = fact.stat.version if fact.stat else ABSENT
        record.owed_czxid = fact.stat.czxid if fact.stat else NEVER
        record.owed = fact.value if isinstance(fact.value, ReplicaDeletions) else None
        if record.view is not None:
            self.changes.topics.setdefault(name, record.view)
            self._owe(record, record.view)
        if self.stray_deletions(name) is not None:
            self.changes.stray_deletions[name] = None
        return True

    def apply_mark(self, name: TopicName, fact: Fact) -> None:
        """Fold in the request to delete a topic."""
        record = self._record(name)
        if not is_newer(fact, record.mark_as_of, is_held_present=name in self.marks):
            return
        record.mark_as_of = fact.as_of
        former = self.marks.pop(name, None)
        if fact.stat is not None:
            self.marks[name] = DeletionMark(fact.stat.czxid, fact.stat.version)
        if self.marks.get(name) != former:  # the read after a refused write shows nothing new
            self.changes.marks[name] = None
            if record.view is not None:
                self._queue(record, record.view)
        self._bury(name, record)

    def refuse_mark(self, name: TopicName) -> None:
        """Note a deletion request that cannot be read, so that its time is unknown; an earlier reading stays valid."""
        if name in self.marks:
            return
        self.marks[name] = HIDDEN_MARK
        self.changes.marks[name] = None
        record = self._record(name)
        if record.view is not None:
            self._queue(record, record.view)

    def apply_config(self, name: TopicName, fact: Fact) -> bool:
        """Fold in the topic's settings, which are read on demand, not watched; return whether they are news.

        Marks them as read even if unchanged, since a reader waits for them.
        """
        record = self._record(name)
        held = record.config
        is_held_present = held is not None and held.version != ABSENT
        if fact.as_of < record.config_as_of or (
            fact.as_of == record.config_as_of and is_held_present and not fact.is_present
        ):
            return False
        is_news, record.config_as_of = fact.as_of > record.config_as_of, fact.as_of
        record.config = TopicConfig(readable(fact.value), fact.stat.version if fact.stat else ABSENT)
        self.changes.configs[name] = None
        return is_news

    def put_back(self, name: TopicName, number: PartitionId, assignment: Assignment) -> Partition:
        """Replace the replicas from the topic's znode by these, until they are written back."""
        record = self._records[name]
        held = record.partitions[number]
        record.partitions[number] = replace(held, assignment=assignment)
        is_moving = assignment.is_moving and not self.views[name].is_queued_for_deletion
        self._placement.assign(name, number, held.assignment, assignment, is_moving=is_moving)
        return record.partitions[number]

    # ---- inside ---------------------------------------------------------------------------------------------

    def _record(self, name: TopicName) -> Record:
        record = self._records.get(name)
        if record is None:
            record = self._records[name] = Record()
        return record

    def _bury(self, name: TopicName, record: Record) -> None:
        """Keep a bounded number of tombstones, so that a stale read cannot bring a deleted topic back."""
        if not record.is_tombstone or name in self.marks:
            return
        self._tombstones.pop(name, None)
        self._tombstones[name] = None
        while len(self._tombstones) > MOST_TOMBSTONES:
            oldest = next(iter(self._tombstones))
            del self._tombstones[oldest]
            buried = self._records.get(oldest)
            if buried is not None and buried.is_tombstone and oldest not in self.marks:
                del self._records[oldest]

    def _meet(self, name: TopicName, record: Record, czxid: Zxid) -> TopicView:
        """Begin the view of a new topic, with the earlier facts that belong to it."""
        self._tombstones.pop(name, None)
        look = look_of(name)
        if look is not None:
            self.alike.setdefault(look, {})[name] = None
        for number, held in list(record.partitions.items()):
            ours = since(czxid, held)
            if ours == BLANK:
                del record.partitions[number]
            else:
                record.partitions[number] = ours
                self.changes.touch(name, number, BLANK)
        if record.partitions_znode_as_of < czxid:
            record.partitions_znode = False
        record.id_as_of = record.read_as_of = NEVER
        view = TopicView(
            name,
            MappingProxyType(record.partitions),
            czxid=czxid,
            has_partitions_znode=record.partitions_znode,
        )
        self.changes.topics.setdefault(name, None)
        return view

    def _read(self, record: Record, view: TopicView, value: object, as_of: Zxid) -> None:
        """Take in the content of the topic's znode."""
        if not isinstance(value, Topic):
            view = replace(view, is_malformed=True)
        else:
            view = self._named(record, replace(view, is_malformed=False), value.topic_id, as_of)
        was_malformed = record.view is not None and record.view.is_malformed
        self._replace(record, view)
        self._queue(record, view)
        if isinstance(value, Topic):
            if was_malformed:  # what waited for this is due, even if the assignment is unchanged
                for number, held in record.partitions.items():
                    self.changes.touch(view.name, number, held)
            self._assign_all(record, view.name, value, as_of)
        assert record.view is not None
        self._owe(record, record.view)

    def _assign_all(self, record: Record, name: TopicName, value: Topic, as_of: Zxid) -> None:
        record.read_as_of = as_of
        if not record.partitions:
            assign_first(record, name, value, self.changes, self._placement)
            return
        held = record.partitions
        for number, assignment in value.partitions.items():
            if number not in held or held[number].assignment is not assignment:
                self._assign(record, name, number, assignment)
        for number in () if held.keys() <= value.partitions.keys() else tuple(held):
            if number not in value.partitions and held[number].assignment.replicas:
                self._assign(record, name, number, UNASSIGNED)

    def _replace(self, record: Record, view: TopicView) -> None:
        record.view = self.views[view.name] = view

    def _named(self, record: Record, view: TopicView, topic_id: TopicId | None, as_of: Zxid) -> TopicView:
        if topic_id is None:
            return replace(view, has_lost_id=view.topic_id is not None)
        record.id_as_of = as_of
        if view.topic_id == topic_id:
            return replace(view, has_lost_id=False) if view.has_lost_id else view
        if view.topic_id is not None:
            self.names.pop(view.topic_id, None)
        self.names[topic_id] = view.name
        # Brokers accept an id without a higher leader epoch (KAFKA-12835).
        for number, held in record.partitions.items():
            self.changes.touch(view.name, number, held)
        return replace(view, topic_id=topic_id, has_lost_id=False)

    def _learn_late(self, record: Record, fact: Fact) -> None:
        """Learn from an older sighting an id that was dropped since, or replicas that cannot be read now."""
        view, value = record.view, fact.value
        if view is None or fact.stat is None or fact.stat.czxid != view.czxid or not isinstance(value, Topic):
            return
        is_read = view.is_malformed and fact.as_of > record.read_as_of
        if is_read:
            named = self._named(record, view, value.topic_id, fact.as_of)
        elif value.topic_id is not None and fact.as_of > record.id_as_of:
            named = replace(self._named(record, view, value.topic_id, fact.as_of), has_lost_id=True)
        else:
            return
        self.changes.topics.setdefault(view.name, view)
        self._replace(record, named)
        if is_read:
            self._assign_all(record, view.name, value, fact.as_of)
        self._owe(record, named)

    def _assign(self, record: Record, name: TopicName, number: PartitionId, assignment: Assignment) -> None:
        held = record.partitions.get(number, BLANK)
        before = held.assignment
        if before == assignment:
            return
        self.changes.touch(name, number, held)
        record.partitions[number] = Partition(
            assignment,
            held.state,
            held.epoch,
            held.as_of,
            held.is_state_known,
            held.is_malformed,
            held.has_znode,
            held.znode_as_of,
        )
        is_queued = record.view is not None and record.view.is_queued_for_deletion
        self._placement.assign(name, number, before, assignment, is_moving=assignment.is_moving and not is_queued)

    def _queue(self, record: Record, view: TopicView) -> None:
        """Queue a topic for deletion if the mark is younger than the topic; an older mark meant an earlier topic.

        While that is unknown, no replica may lead: some logs may be gone already.
        """
        mark = self.marks.get(view.name)
        if mark is not None:
            self.changes.marks[view.name] = None
        is_meant = mark is not None and (mark.is_hidden or mark.czxid > view.czxid)
        is_queued = self._deletes_topics and is_meant
        if is_queued == view.is_queued_for_deletion:
            return
        self.changes.topics.setdefault(view.name, view)
        self._replace(record, replace(view, is_queued_for_deletion=is_queued))
        for number, held in record.partitions.items():
            self._placement.note_moving(
                view.name, number, held.assignment, is_moving=held.assignment.is_moving and not is_queued
            )
            self.changes.touch(view.name, number, held)

    def _owe(self, record: Record, view: TopicView) -> None:
        """Take in the replicas owed by this topic, and ignore those of an earlier one, judged by id or by zxid.

        The id takes precedence: in a copied tree the znodes are as old as the copy.
        """
        value = record.owed
        is_same_id = value is not None and value.topic_id is not None and value.topic_id == view.topic_id
        is_ours = is_same_id or (value is not None and value.topic_id is None and record.owed_as_of >= view.czxid)
        owed = dict(value.replicas) if value is not None and is_ours else {}
        if owed == view.deletions and record.owed_version == view.deletions_version:
            return
        self.changes.topics.setdefault(view.name, view)
        self._placement.owe(view.name, view.deletions, owed)
        self._replace(record, replace(view, deletions=MappingProxyType(owed), deletions_version=record.owed_version))

    def _forget(self, record: Record, view: TopicView, successor: Zxid) -> None:
        """Forget a topic; facts from `successor` on may already belong to the next one of its name."""
        name = view.name
        self._placement.forget(name, {number: held.assignment for number, held in record.partitions.items()})
        self._placement.owe(name, view.deletions, {})
        if view.topic_id is not None:
            self.names.pop(view.topic_id, None)
        look = look_of(name)
        if look is not None:
            self.alike[look].pop(name, None)
            if not self.alike[look]:
                del self.alike[look]
        self.changes.forget_topic(view)
        del self.views[name]
        record.view = None
        record.partitions = {
            n: since(successor, p)
            for n, p in record.partitions.items()
            if p.as_of >= successor or p.znode_as_of >= successor
        }
        if record.partitions_znode_as_of < successor:
            record.partitions_znode = False


def _is_of_another(owed: ReplicaDeletions | None, czxid: Zxid, topic: TopicView) -> bool:
    """Whether these deletions are certainly not this topic's: an old tool may have dropped an id, and a native
    controller may have given another since.
    """
    has_other_id = owed is not None and None not in (owed.topic_id, topic.topic_id) and owed.topic_id != topic.topic_id
    return has_other_id and czxid < topic.czxid
