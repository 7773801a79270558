"""Which znodes are removed with a deleted topic, what is put right until then, and which requests are dropped?

Source: Kafka's TopicDeletionManager.completeDeleteTopic, and KafkaController.processTopicDeletion and
restorePartitionReplicaAssignment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.core.messages.effects import Delete, Write
from controller.core.state.topics import DeletionMark, TopicView
from controller.core.state.view import Cluster
from controller.core.steps.draft import Draft
from controller.core.transactions.proposal import Atom
from zk_layout.catalog import Address
from zk_layout.ids import ABSENT, TopicName, ZnodeVersion
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.configs import TopicConfigAddress
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, StateAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletionsAddress
from zk_layout.znodes.topics import TopicAddress
from zk_layout.znodes.waiting_moves import WaitingMovesAddress

UNTOUCHED = ZnodeVersion(0)  # no one writes data into znodes that carry none

Found = Iterable[tuple[Address, ZnodeVersion]]


def dropped(name: TopicName, mark: DeletionMark, topic: TopicView | None, cluster: Cluster) -> Atom | None:
    """The removal of a request that is not executed, and why; None if the topic has to be looked up first.

    A mark older than its topic was meant for a former topic of the same name: the present one was created afterwards,
    and no one has asked to delete it.
    """
    if topic is None and not cluster.is_known_missing(name, mark.czxid):
        return None
    if cluster.deletes_topics is False:
        reason = "delete.topic.enable is false"
    elif topic is None:
        reason = "the topic does not exist"
    else:
        reason = "the request is older than this topic"
    write = Delete(TopicDeletionAddress(name), mark.version, None if mark.is_hidden else mark.czxid)
    return Atom((write,), (f"topic {name} is not deleted: {reason}",))


def forgotten(name: TopicName, cluster: Cluster) -> Atom | None:
    """The removal of owed deletions of a topic that is gone; None if the topic has to be looked up first."""
    found = cluster.stray_deletions(name)
    if found is None:
        return None
    version, as_of = found
    reason = "it was another topic of that name"
    if name not in cluster.topics:
        if not cluster.is_known_missing(name, as_of):
            return None
        reason = "the topic does not exist"
    why = f"what topic {name} owed is forgotten: {reason}"
    return Atom((Delete(ReplicaDeletionsAddress(name), version),), (why,))


def put_right(topic: TopicView, cluster: Cluster) -> tuple[Atom, ...]:
    """Write the topic's znode again if another process has overwritten its replicas or dropped its id.

    A successor knows only by them which replicas are left to delete: the listed ones, and those owed under this id.
    """
    if topic.is_malformed or not topic.partitions:
        return ()
    draft = Draft(topic, cluster)
    draft.restore_id()
    return draft.atoms()


def below(topic: TopicView) -> Iterator[Write]:
    """Delete the znodes below the topic's, as known from facts, children before parents."""
    for number, held in sorted(topic.partitions.items()):
        if held.state is not None or held.is_malformed:
            yield Delete(StateAddress(topic.name, number), ZnodeVersion(held.epoch))
        if held.has_znode:
            yield Delete(PartitionAddress(topic.name, number), UNTOUCHED)
    if topic.has_partitions_znode:
        yield Delete(PartitionsAddress(topic.name), UNTOUCHED)


def surveyed(found: Found) -> Iterator[Write]:
    """Delete the znodes below the topic's, as listed by a survey."""
    return (Delete(address, version) for address, version in found)


def end(topic: TopicView, mark: DeletionMark, cluster: Cluster) -> Iterator[Write]:
    """The last atom: the topic, its settings, its owed deletions, its waiting moves, and the request to delete it."""
    config_version = cluster.config_version(topic.name)
    yield Delete(TopicAddress(topic.name), topic.version)
    if config_version not in (None, ABSENT):
        yield Delete(TopicConfigAddress(topic.name), config_version)
    if topic.deletions_version != ABSENT:
        yield Delete(ReplicaDeletionsAddress(topic.name), topic.deletions_version)
    for number, part in sorted(cluster.waiting_parts(topic.name).items()):
        yield Delete(WaitingMovesAddress(topic.name, number), part.version)
    yield Delete(TopicDeletionAddress(topic.name), mark.version)
