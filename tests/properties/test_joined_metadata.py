"""A broker knows the same after commands that were joined as after each of them alone."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.brokers.joining import COMMANDS_JOINED, PARTITIONS_JOINED, Joining
from controller.core.announcing.views import DELETED
from controller.core.messages.commands import Command, LeaderAndIsr, LiveBroker, PartitionView, UpdateMetadata
from controller.core.messages.effects import Tell
from controller.lab.broker_model import BrokerModel
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
    TopicId,
    TopicName,
)
from zk_layout.znodes.brokers import Endpoint

BROKER = BrokerId(1)
BROKERS = tuple(
    tuple(LiveBroker(BrokerId(b), (Endpoint("INSIDE", "h", b),)) for b in range(1, most)) for most in (2, 3)
)


def view(topic: str, topic_id: str | None, partition: int, leader: int, epoch: int) -> PartitionView:
    """A partition that this broker hosts."""
    return PartitionView(
        TopicName(topic),
        None if topic_id is None else TopicId(topic_id),
        PartitionId(partition),
        ControllerEpoch(1),
        BrokerId(leader),
        LeaderEpoch(epoch),
        (BROKER,),
        PartitionEpoch(epoch),
        0,
        (BROKER,),
    )


views = st.builds(
    view,
    st.sampled_from(["orders", "orders", "sales"]),
    st.sampled_from([None, "A" * 22, "A" * 22, "B" * 22]),
    st.integers(0, 2),
    st.sampled_from([1, 1, 1, 2, DELETED]),
    st.integers(0, 9),
)
metadata = st.builds(
    UpdateMetadata,
    st.lists(views, max_size=3, unique_by=lambda seen: (seen.topic, seen.partition)).map(tuple),
    st.sampled_from([BROKERS[0], BROKERS[0], BROKERS[0], BROKERS[1]]),
)
others = st.builds(LeaderAndIsr, st.tuples(views), st.just(()), st.just(()))
tells = st.builds(
    Tell,
    st.just(BROKER),
    st.just(BrokerEpoch(1)),
    st.sampled_from([ControllerEpoch(1)] * 5 + [ControllerEpoch(2)]),
    st.one_of(metadata, metadata, metadata, metadata, others),
)


def hear(model: BrokerModel, tell: Tell) -> None:
    """A broker receives a command."""
    model.receive(tell.command, BrokerId(9), tell.controller_epoch, BrokerEpoch(-1))


@given(st.lists(tells, min_size=1, max_size=8))
def test_joined_metadata_come_to_the_same(every: list[Tell]) -> None:
    joining, queue = Joining(), deque(every)
    one_by_one, joined = BrokerModel(BROKER), BrokerModel(BROKER)
    while queue:
        sent, told = joining.first(queue)
        assert told == tuple(queue)[: len(told)]
        for one in told:
            hear(one_by_one, queue.popleft())
            assert one.controller_epoch == sent.controller_epoch
        hear(joined, sent)

        assert joined.cache == one_by_one.cache
        assert joined.alive == one_by_one.alive
        assert joined.replicas.keys() == one_by_one.replicas.keys()
        if len(told) > 1:
            seen = [seen for one in told if isinstance(one.command, UpdateMetadata) for seen in one.command.partitions]
            assert all(isinstance(one.command, UpdateMetadata) for one in told)
            assert all(view.leader != DELETED for view in seen), "a broker must hear of each life of a topic"
            assert len({(view.topic, view.topic_id) for view in seen}) == len({view.topic for view in seen})


def metadata_of(*partitions: int, brokers: tuple[LiveBroker, ...] = BROKERS[0]) -> Tell:
    """A command with some partitions of one topic."""
    command = UpdateMetadata(tuple(view("orders", "A" * 22, number, 1, 1) for number in partitions), brokers)
    return Tell(BROKER, BrokerEpoch(1), ControllerEpoch(1), command)


def joined_partitions(command: Command) -> list[int]:
    """The partitions that it names."""
    assert isinstance(command, UpdateMetadata)
    return [seen.partition for seen in command.partitions]


def test_whatever_has_queued_up_is_joined() -> None:
    queue = [metadata_of(1), metadata_of(2, 1), metadata_of(3)]

    sent, told = Joining().first(queue)

    assert joined_partitions(sent.command) == [1, 2, 3]
    assert told == tuple(queue)


def test_what_is_joined_alike_for_two_brokers_is_one_value() -> None:
    queue, joining = [metadata_of(1), metadata_of(2)], Joining()

    (first, _), (second, _), (longer, _) = (joining.first(some) for some in (queue, queue, [*queue, metadata_of(3)]))

    assert first.command is second.command
    assert joined_partitions(longer.command) == [1, 2, 3]


def test_so_many_commands_and_partitions_are_joined_and_no_more() -> None:
    joining = Joining()

    _, told = joining.first([metadata_of(1)] * (COMMANDS_JOINED + 1))
    assert len(told) == COMMANDS_JOINED

    half = metadata_of(*range(PARTITIONS_JOINED // 2))
    _, told = joining.first([half, half, metadata_of(1)])
    assert len(told) == 2

    _, told = joining.first([metadata_of(*range(PARTITIONS_JOINED + 1)), metadata_of(1)])
    assert len(told) == 1


def test_other_brokers_are_told_apart() -> None:
    _, told = Joining().first([metadata_of(1), metadata_of(2, brokers=BROKERS[1])])

    assert len(told) == 1


@pytest.mark.parametrize(
    "after",
    [
        view("orders", "A" * 22, 2, DELETED, 1),
        view("orders", "B" * 22, 2, 1, 1),
        view("orders", None, 2, 1, 1),
    ],
)
def test_two_lives_of_a_topic_are_told_apart(after: PartitionView) -> None:
    other = Tell(BROKER, BrokerEpoch(1), ControllerEpoch(1), UpdateMetadata((after,), BROKERS[0]))

    for queue in ([metadata_of(1), other], [other, metadata_of(1)]):
        sent, told = Joining().first(queue)
        assert (sent, told) == (queue[0], (queue[0],))


def test_only_the_last_joined_commands_are_remembered() -> None:
    joining, queue = Joining(), [metadata_of(1), metadata_of(2)]
    first, _ = joining.first(queue)
    for _ in range(16):
        joining.first([metadata_of(1), metadata_of(2)])

    again, _ = joining.first(queue)

    assert again.command == first.command
    assert again.command is not first.command
