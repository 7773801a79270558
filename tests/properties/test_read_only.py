"""Nothing that decides changes what it looks at: rules and admission get a view, and can only read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.brokers import controlled_shutdown
from controller.core.elections import elect_leaders, first_leader, leader_election, preferred_leader
from controller.core.isr import alter_partition
from controller.core.messages.requests import (
    AllocateProducerIds,
    AlterPartition,
    ControlledShutdown,
    Election,
    Growth,
    IsrProposal,
    ListReassignments,
    Mode,
    NewTopic,
    PartitionReassignment,
    TopicReference,
)
from controller.core.progress import list_reassignments
from controller.core.reassignment import alter_reassignments, legacy_entry, own_replica, redirection, rule
from controller.core.seeded_random import SeededRandom
from controller.core.settings import TopicDefaults
from controller.core.single_znodes import producer_ids
from controller.core.steps.change import Case
from controller.core.topics import create_partitions, create_topics, delete_topics, deletion_writes
from tests.properties.clusters import BROKERS, Situation, situations, some_replicas
from tests.properties.histories import NAMES, NUMBERS, histories, memory_of, picture
from tests.unit.core.builders import OWN, Term
from zk_layout.facts import Fact
from zk_layout.ids import BrokerEpoch, PartitionEpoch, PartitionId, Replicas, TopicName, TopicPartition
from zk_layout.znodes.configs import Config
from zk_layout.znodes.topics import Assignment

NAME = TopicName("new.topic")


@st.composite
def terms(draw: st.DrawFn) -> Term:
    """Any history, and anything that brokers and clients can have said."""
    term = Term(",".join(map(str, BROKERS[3:])))
    facts: list[Fact] = draw(histories())
    term.fold(*facts)
    partitions = st.sampled_from([TopicPartition(t, n) for t in NAMES for n in NUMBERS])
    some = st.lists(partitions, unique=True).map(dict.fromkeys)
    memory, brokers = term.memory, st.sampled_from(BROKERS)
    memory.brokers.shutting_down.update(dict.fromkeys(draw(st.lists(brokers, max_size=2))))
    memory.elections.preferring.update(draw(some))
    memory.brokers.unannounced.update(draw(some))
    memory.brokers.offline_replicas.update(draw(st.dictionaries(partitions, st.frozensets(brokers, min_size=1))))
    memory.brokers.logs_deleted.update(draw(st.dictionaries(partitions, st.frozensets(brokers, min_size=1))))
    memory.brokers.caught_up.update(draw(st.dictionaries(partitions, st.frozensets(brokers, min_size=1))))
    memory.legacy.entries.update(draw(st.dictionaries(partitions, some_replicas())))
    return term


def decide(term: Term, case: Case, target: Replicas) -> Iterator[object]:
    """Whatever a rule or an admission function has to say about one partition."""
    cluster, at = term.cluster, case.at
    for next_step in (
        first_leader.next_step,
        leader_election.next_step,
        preferred_leader.next_step,
        own_replica.next_step,
        rule.next_step,
    ):
        yield next_step(case, cluster)
    yield leader_election.elect_any(case, cluster)
    yield legacy_entry.next_step(case, cluster, target)
    for mode in Mode:
        yield rule.begin(case, cluster, target, mode)
        yield rule.cancel(case, cluster, mode)
        yield redirection.redirect(case, cluster, Assignment(target), "a test", mode)
        for wanted in (PartitionReassignment(at, target), PartitionReassignment(at, None)):
            yield alter_reassignments.consider(wanted, case, cluster, mode)
    for is_unclean in (False, True):
        yield elect_leaders.consider(Election(is_unclean), case, cluster)
    if case.state is not None:
        held = cluster.partition(at)
        epoch = held.epoch if held is not None else PartitionEpoch(0)
        proposal = IsrProposal(TopicReference(at.topic), at.partition, case.state.leader_epoch, epoch, target)
        request = AlterPartition(case.state.leader, BrokerEpoch(1), (proposal,))
        yield alter_partition.refuse_sender(request, cluster)
        yield alter_partition.consider(request, proposal, at, cluster)


def decide_more(term: Term, target: Replicas) -> Iterator[object]:
    """Whatever is decided about topics, brokers and all the rest."""
    cluster, random = term.cluster, SeededRandom(b"0")
    for name in (*NAMES, NAME):
        new = NewTopic(name, assignments=((NUMBERS[0], target),)) if target else NewTopic(name)
        yield create_topics.consider(new, NAMES, TopicDefaults(3, 2), cluster, random)
        yield delete_topics.find(TopicReference(name), cluster)
        topic, mark = cluster.topics.get(name), cluster.deletion_marks.get(name)
        if topic is not None:
            yield create_partitions.consider(Growth(name, 5), topic, cluster)
            yield list(deletion_writes.below(topic))
        if mark is not None:
            yield deletion_writes.dropped(name, mark, topic, cluster)
            if topic is not None:
                yield list(deletion_writes.end(topic, mark, cluster))
    listed = list_reassignments.asked(ListReassignments(None), cluster, {})
    yield [list_reassignments.move(at, cluster, None) for at in listed]
    by_topic: dict[TopicName, dict[PartitionId, None]] = {}
    for at in cluster.preferring:
        by_topic.setdefault(at.topic, {})[at.partition] = None
    yield list(preferred_leader.unbalanced(cluster, by_topic, 10))
    for broker in (*BROKERS, OWN):
        shutdown = ControlledShutdown(broker, BrokerEpoch(broker))
        yield controlled_shutdown.refuse(shutdown, cluster)
        for name, numbers in cluster.hosted.get(broker, {}).items():
            yield list(controlled_shutdown.endangered(broker, name, numbers, cluster, 1))
            yield list(controlled_shutdown.still_led(broker, name, numbers, cluster))
        yield producer_ids.refuse(AllocateProducerIds(broker, BrokerEpoch(broker)), cluster)
        yield producer_ids.next_block(broker, term.state.producer_ids)


@given(terms(), some_replicas(0), st.booleans())
def test_whatever_is_decided_leaves_state_and_memory_as_they_are(
    term: Term, target: Replicas, has_config: bool
) -> None:
    before, said = picture(term.state), memory_of(term.memory)

    decided = list(decide_more(term, target))
    for name, topic in term.cluster.topics.items():
        for number, held in topic.partitions.items():
            if held.assignment.replicas:
                at = TopicPartition(name, number)
                config = Config({"unclean.leader.election.enable": "true"}) if has_config else None
                decided += decide(term, Case(at, topic, held.assignment, held.state, config=config), target)

    assert decided
    assert picture(term.state) == before
    assert memory_of(term.memory) == said


@given(situations(), some_replicas(0))
def test_so_it_is_with_one_partition_in_every_stage_of_a_move(situation: Situation, target: Replicas) -> None:
    term = situation.term()
    before, said = picture(term.state), memory_of(term.memory)

    list(decide(term, situation.case(term.cluster), target))

    assert picture(term.state) == before
    assert memory_of(term.memory) == said


@given(situations())
def test_what_the_view_shows_cannot_be_set(situation: Situation) -> None:
    cluster = situation.cluster()
    for name, topic in cluster.topics.items():
        _cannot_be_set(topic, "is_queued_for_deletion")
        _cannot_be_changed(topic.partitions)
        _cannot_be_changed(topic.deletions)
        for number, held in topic.partitions.items():
            _cannot_be_set(held, "assignment")
            _cannot_be_set(held, "state")
            if held.state is not None:
                _cannot_be_set(held.state, "leader")
            _cannot_be_set(situation.case(cluster), "state")
            assert cluster.partition(TopicPartition(name, number)) is held
    for broker in cluster.brokers.values():
        _cannot_be_set(broker, "epoch")


def _cannot_be_set(value: object, field: str) -> None:
    assert hasattr(value, field)
    with pytest.raises(AttributeError):
        setattr(value, field, None)


def _cannot_be_changed(mapping: Mapping[object, object]) -> None:
    with pytest.raises(TypeError):
        mapping[None] = None  # type: ignore[index]  # that is what is forbidden
