"""The broker model behaves like real brokers: the same tests run on it and on Kafka 3.9.1, 2.8.2 and 2.4.1."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

import pytest

from controller.core.messages.commands import (
    LeaderAndIsr,
    LiveBroker,
    PartitionView,
    ReplicaStop,
    StopReplica,
    UpdateMetadata,
)
from controller.core.messages.errors import ErrorCode
from controller.lab.broker_model import KAFKA_3_9
from controller.lab.errors import LabError
from tests.conformance.broker_backends import (
    AS_IT_IS,
    BROKER,
    CONTROLLER,
    HANDED_OVER,
    LEFT_OUT,
    Backend,
    FakeLeader,
    Modelled,
    real_broker,
)
from tests.equipment.broker_versions import KAFKA_2_4, KAFKA_2_8
from zk_layout.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
    Replicas,
    TopicId,
    TopicName,
    TopicPartition,
)
from zk_layout.znodes.brokers import Endpoint
from zk_layout.znodes.partition_state import PartitionState

EPOCH = 10
OTHER = BrokerId(2)  # is announced as live, but is not
BOTH = (BROKER, OTHER)
IDS = {
    "3.9": (TopicId("AAAAAAAAQACAAAAAAAAAAQ"), TopicId("AAAAAAAAQACAAAAAAAAAAg")),
    "2.8": (TopicId("AAAAAAAAQACAAAAAAAAAAQ"), TopicId("AAAAAAAAQACAAAAAAAAAAg")),
    "2.4": (None, None),
}
TRAITS = {"3.9": KAFKA_3_9, "2.8": KAFKA_2_8, "2.4": KAFKA_2_4}
VERSIONS = {"3.9": "3.9.1", "2.8": "2.8.2", "2.4": "2.4.1"}
_names = count(1)


@pytest.fixture(scope="module", params=[f"{kind}-{release}" for release in TRAITS for kind in ("model", "real")])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    kind, release = request.param.split("-")
    if kind == "model":
        backend: Backend = Modelled(TRAITS[release])
        _introduce(backend)
        yield backend
        return
    server = request.getfixturevalue("zookeeper_server")
    try:
        with real_broker(server, VERSIONS[release], release, tmp_path_factory.mktemp(f"broker-{release}-")) as real:
            _introduce(real)
            yield real
    except LabError as error:
        pytest.skip(str(error))


@pytest.fixture
def release(request: pytest.FixtureRequest) -> str:
    """The tested release; its behaviour may differ."""
    parameter: str = request.node.callspec.params["broker"]
    return parameter.rpartition("-")[2]


@pytest.fixture
def at(broker: Backend) -> Iterator[TopicPartition]:
    """A separate partition for each test."""
    partition = TopicPartition(TopicName(f"topic{next(_names)}"), PartitionId(0))
    yield partition
    broker.grant(partition)


@pytest.fixture
def unsettled(broker: Backend) -> Iterator[Backend]:
    """A broker that no other test gets as this one leaves it."""
    yield broker
    broker.start_again()
    _introduce(broker)


def _live(backend: Backend, *more: FakeLeader) -> tuple[LiveBroker, ...]:
    nowhere = Endpoint("PLAINTEXT", "127.0.0.1", 9)
    return (
        LiveBroker(BROKER, (nowhere,)),
        LiveBroker(OTHER, (nowhere,)),
        LiveBroker(CONTROLLER, (backend.controller_endpoint,)),
        *(LiveBroker(leader.broker, (leader.endpoint,)) for leader in more),
    )


def _introduce(backend: Backend, *more: FakeLeader) -> None:
    """Announce the live brokers and the controller."""
    answer = backend.tell(UpdateMetadata((), _live(backend, *more)), EPOCH, backend.broker_epoch)
    assert answer == (ErrorCode.NONE, {})


def view(
    at: TopicPartition,
    leader_epoch: int = 0,
    *,
    leader: BrokerId = BROKER,
    isr: Replicas = (BROKER,),
    replicas: Replicas = (BROKER,),
    partition_epoch: int = 0,
    topic_id: TopicId | None = None,
) -> PartitionView:
    return PartitionView(
        at.topic,
        topic_id,
        at.partition,
        ControllerEpoch(EPOCH),
        leader,
        LeaderEpoch(leader_epoch),
        isr,
        PartitionEpoch(partition_epoch),
        0,
        replicas,
    )


def lead(backend: Backend, partition: PartitionView) -> ErrorCode:
    """Send a LeaderAndIsr; return the broker's answer for its partition."""
    command = LeaderAndIsr((), (partition,), _live(backend)[:1])
    error, errors = backend.tell(command, EPOCH, backend.broker_epoch)
    assert error is ErrorCode.NONE
    return errors.get(TopicPartition(partition.topic, partition.partition), ErrorCode.NONE)


def stop(backend: Backend, at: TopicPartition, leader_epoch: int, *, is_deletion: bool = True) -> ErrorCode:
    """Send a StopReplica; return the broker's answer for its partition."""
    stops = (ReplicaStop(at.topic, at.partition, LeaderEpoch(leader_epoch), is_deletion),)
    error, errors = backend.tell(StopReplica(stops), EPOCH, backend.broker_epoch)
    assert error is ErrorCode.NONE
    return errors.get(at, ErrorCode.NONE)


def is_hosted(backend: Backend, at: TopicPartition, *, expected: bool) -> bool:
    """Whether the log exists; a deletion on disk may take a moment."""
    deadline = time.monotonic() + 5
    while backend.hosts(at) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    return backend.hosts(at)


def test_a_new_partition_gets_a_log(broker: Backend, at: TopicPartition) -> None:
    assert lead(broker, view(at)) is ErrorCode.NONE

    assert is_hosted(broker, at, expected=True)


def test_a_follower_gets_a_log_too(broker: Backend, at: TopicPartition) -> None:
    assert lead(broker, view(at, leader=OTHER, isr=(OTHER,), replicas=BOTH)) is ErrorCode.NONE

    assert is_hosted(broker, at, expected=True)


@pytest.mark.parametrize(("leader_epoch", "is_accepted"), [(4, False), (5, False), (6, True)])
def test_a_known_partition_wants_a_higher_leader_epoch(
    broker: Backend, at: TopicPartition, leader_epoch: int, is_accepted: bool
) -> None:
    lead(broker, view(at, 5))

    error = lead(broker, view(at, leader_epoch))

    assert error is (ErrorCode.NONE if is_accepted else ErrorCode.STALE_CONTROLLER_EPOCH)


def test_a_broker_hosts_only_what_names_it_as_a_replica(broker: Backend, at: TopicPartition) -> None:
    error = lead(broker, view(at, leader=OTHER, isr=(OTHER,), replicas=(OTHER,)))

    assert error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not broker.hosts(at)


def test_an_older_controller_is_refused(broker: Backend, at: TopicPartition) -> None:
    commands = (
        LeaderAndIsr((), (view(at),), ()),
        UpdateMetadata((), _live(broker)),
        StopReplica((ReplicaStop(at.topic, at.partition, LeaderEpoch(0), is_deletion=True),)),
    )
    for command in commands:
        error, _ = broker.tell(command, EPOCH - 1, broker.broker_epoch)
        assert error is ErrorCode.STALE_CONTROLLER_EPOCH
    assert not broker.hosts(at)


def test_a_command_to_an_earlier_life_is_refused(broker: Backend, at: TopicPartition) -> None:
    commands = (
        LeaderAndIsr((), (view(at),), ()),
        UpdateMetadata((), _live(broker)),
        StopReplica((ReplicaStop(at.topic, at.partition, LeaderEpoch(0), is_deletion=True),)),
    )
    for command in commands:
        error, _ = broker.tell(command, EPOCH, broker.broker_epoch - 1)
        assert error is ErrorCode.STALE_BROKER_EPOCH


def test_the_broker_epoch_can_be_left_unchecked(broker: Backend) -> None:
    assert broker.tell(UpdateMetadata((), _live(broker)), EPOCH, -1) == (ErrorCode.NONE, {})


def test_a_command_to_a_later_life_is_accepted_but_by_2_4(broker: Backend, release: str) -> None:
    error, _ = broker.tell(UpdateMetadata((), _live(broker)), EPOCH, broker.broker_epoch + 1)

    assert error is (ErrorCode.UNKNOWN_SERVER_ERROR if release == "2.4" else ErrorCode.NONE)


def test_deleting_a_replica_removes_its_log(broker: Backend, at: TopicPartition) -> None:
    lead(broker, view(at, 5))

    assert stop(broker, at, 6) is ErrorCode.NONE

    assert not is_hosted(broker, at, expected=False)


def test_stopping_a_replica_keeps_its_log(broker: Backend, at: TopicPartition) -> None:
    lead(broker, view(at, 5))

    assert stop(broker, at, 6, is_deletion=False) is ErrorCode.NONE

    assert broker.hosts(at)


def test_a_replica_that_was_only_stopped_can_be_deleted_later(broker: Backend, at: TopicPartition) -> None:
    lead(broker, view(at, 5))
    stop(broker, at, 6, is_deletion=False)

    assert stop(broker, at, 6) is ErrorCode.NONE

    assert not is_hosted(broker, at, expected=False)


def test_deleting_what_is_not_there_is_no_error(broker: Backend, at: TopicPartition) -> None:
    assert stop(broker, at, 0) is ErrorCode.NONE


def test_an_older_leader_epoch_stops_nothing_but_on_2_4(broker: Backend, at: TopicPartition, release: str) -> None:
    lead(broker, view(at, 5))

    error = stop(broker, at, 4)

    if release == "2.4":
        assert error is ErrorCode.NONE  # its StopReplica carries no epoch
        assert not is_hosted(broker, at, expected=False)
    else:
        assert error is ErrorCode.FENCED_LEADER_EPOCH
        assert broker.hosts(at)


def test_the_known_leader_epoch_is_enough_to_stop_but_from_2_6_to_3_4(
    broker: Backend, at: TopicPartition, release: str
) -> None:
    lead(broker, view(at, 5))
    is_refused = release == "2.8"  # KAFKA-13972

    assert stop(broker, at, 5) is (ErrorCode.FENCED_LEADER_EPOCH if is_refused else ErrorCode.NONE)

    assert is_hosted(broker, at, expected=is_refused) is is_refused


@pytest.mark.parametrize("sentinel", [-1, -2])
def test_a_stop_without_a_leader_epoch_is_always_obeyed(broker: Backend, at: TopicPartition, sentinel: int) -> None:
    lead(broker, view(at, 5))

    assert stop(broker, at, sentinel) is ErrorCode.NONE

    assert not is_hosted(broker, at, expected=False)


def test_a_deleted_replica_can_come_back_with_any_leader_epoch(broker: Backend, at: TopicPartition) -> None:
    lead(broker, view(at, 5))
    stop(broker, at, 6)

    assert lead(broker, view(at, 5)) is ErrorCode.NONE

    assert is_hosted(broker, at, expected=True)


def test_another_topic_id_is_refused_where_ids_are_known(broker: Backend, at: TopicPartition, release: str) -> None:
    one, other = IDS[release]
    if one is None:
        pytest.skip("2.4 knows no topic ids")
    lead(broker, view(at, 5, topic_id=one))
    lead(broker, view(at, 6, topic_id=one))  # 2.8 notes it with the second command

    # The broker's answer names the topic by its id, so the refused partition identifies it.
    command = LeaderAndIsr((view(at, 7, topic_id=other),), (), _live(broker)[:1])
    _, errors = broker.tell(command, EPOCH, broker.broker_epoch)

    assert list(errors.values()) == [ErrorCode.INCONSISTENT_TOPIC_ID]


def test_a_topic_id_may_be_left_out(broker: Backend, at: TopicPartition, release: str) -> None:
    one, _ = IDS[release]
    lead(broker, view(at, 5, topic_id=one))

    command = LeaderAndIsr((view(at, 6, topic_id=None),), (), _live(broker)[:1])

    assert broker.tell(command, EPOCH, broker.broker_epoch) == (ErrorCode.NONE, {})


def test_a_leader_wants_a_follower_out_of_the_isr_that_never_fetches(broker: Backend, at: TopicPartition) -> None:
    state = PartitionState(BROKER, LeaderEpoch(0), ControllerEpoch(EPOCH), BOTH)
    broker.put_state(at, state)
    lead(broker, view(at, isr=BOTH, replicas=BOTH))

    assert broker.wanted_isr(at) == (BROKER,)


@pytest.mark.parametrize(("answer", "asks_from"), [(AS_IT_IS, "2.8"), (ErrorCode.FENCED_LEADER_EPOCH, "3.9")], ids=str)
def test_in_a_new_leader_epoch_a_leader_asks_again_unless_it_takes_a_late_refusal_for_that_of_what_it_asks_now(
    broker: Backend, at: TopicPartition, release: str, answer: ErrorCode | str, asks_from: str
) -> None:
    if release == "2.4":
        pytest.skip("2.4 writes the state znode itself")
    lead(broker, view(at, isr=BOTH, replicas=BOTH))

    asks = release >= asks_from or isinstance(broker, Modelled)

    asked = broker.times_asked_later(at, view(at, 1, isr=BOTH, replicas=BOTH, partition_epoch=1), answer, int(asks))

    assert (asked > 0) == asks


@pytest.mark.parametrize(
    ("answer", "asks_again_from"),
    [
        (ErrorCode.INVALID_UPDATE_VERSION, None),
        (ErrorCode.FENCED_LEADER_EPOCH, None),
        (ErrorCode.INVALID_REQUEST, None),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, "3.9"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "3.9"),
        (AS_IT_IS, "2.8"),
        (HANDED_OVER, None),
        (LEFT_OUT, "2.8"),
    ],
    ids=str,
)
def test_after_most_refusals_a_leader_waits_for_a_new_leader_epoch(
    broker: Backend, at: TopicPartition, release: str, answer: ErrorCode | str, asks_again_from: str | None
) -> None:
    if release == "2.4":
        pytest.skip("2.4 writes the state znode itself")
    asks_again = asks_again_from is not None and release >= asks_again_from
    lead(broker, view(at, isr=BOTH, replicas=BOTH))

    asked = broker.times_asked(at, answer, 1 + asks_again)

    assert asked > 1 if asks_again else asked == 1
    lead(broker, view(at, 1, isr=BOTH, replicas=BOTH, partition_epoch=1))
    assert broker.times_asked(at, answer, asked + 1) > asked or isinstance(broker, Modelled)


@pytest.fixture
def leader(broker: Backend) -> Iterator[FakeLeader]:
    """A leader that only listens, unknown to the broker at first."""
    leader = FakeLeader(BrokerId(1000 + next(_names)))
    yield leader
    leader.close()
    _introduce(broker)


def test_a_follower_turns_to_a_leader_that_is_said_to_live(
    broker: Backend, at: TopicPartition, leader: FakeLeader
) -> None:
    _introduce(broker, leader)

    lead(broker, view(at, leader=leader.broker, isr=(leader.broker,), replicas=(BROKER, leader.broker)))

    assert broker.fetches_from(at, leader)


def test_a_leader_that_is_not_said_to_live_is_followed_only_when_told_again(
    broker: Backend, at: TopicPartition, leader: FakeLeader
) -> None:
    def follow(leader_epoch: int) -> ErrorCode:
        replicas = (BROKER, leader.broker)
        return lead(broker, view(at, leader_epoch, leader=leader.broker, isr=replicas[1:], replicas=replicas))

    assert follow(5) is ErrorCode.NONE
    assert not broker.fetches_from(at, leader)

    _introduce(broker, leader)
    assert not broker.fetches_from(at, leader)

    # It has not adopted that leader epoch, so the same one is accepted; an older one, too.
    assert follow(4) is ErrorCode.NONE
    assert broker.fetches_from(at, leader)
    assert follow(4) is ErrorCode.STALE_CONTROLLER_EPOCH


def test_a_topic_id_can_come_with_the_known_leader_epoch(broker: Backend, at: TopicPartition, release: str) -> None:
    one, other = IDS[release]
    if one is None:
        pytest.skip("2.4 knows no topic ids")
    lead(broker, view(at, 5))

    def refused(leader_epoch: int, topic_id: TopicId | None) -> list[ErrorCode]:
        command = LeaderAndIsr((view(at, leader_epoch, topic_id=topic_id),), (), _live(broker)[:1])
        return list(broker.tell(command, EPOCH, broker.broker_epoch)[1].values())

    assert refused(5, one) == ([ErrorCode.STALE_CONTROLLER_EPOCH] if release == "2.8" else [])  # noted nevertheless
    assert refused(6, other) == [ErrorCode.INCONSISTENT_TOPIC_ID]


def test_who_has_no_zookeeper_makes_no_log_and_from_3_3_on_refuses_that_leader_epoch_for_ever(
    unsettled: Backend, at: TopicPartition, release: str
) -> None:
    """From 2.7 to 3.0 it takes the replica for offline, whatever the leader epoch, until it is started again."""
    topic_id, _ = IDS[release]

    def follow(leader_epoch: int) -> LeaderAndIsr:
        new = view(at, leader_epoch, leader=OTHER, isr=(OTHER,), replicas=BOTH, topic_id=topic_id)
        return LeaderAndIsr((), (new,), _live(unsettled)[:2])

    unsettled.lose_session(follow(5), EPOCH)
    _introduce(unsettled)
    assert not unsettled.hosts(at)

    if release == "2.8":
        for leader_epoch in (5, 6):
            _, errors = unsettled.tell(follow(leader_epoch), EPOCH, unsettled.broker_epoch)
            assert list(errors.values()) == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert not is_hosted(unsettled, at, expected=False)
        return

    again, _ = unsettled.tell(follow(5), EPOCH, unsettled.broker_epoch)
    is_made = release < "3.3"
    assert (again is ErrorCode.NONE, is_hosted(unsettled, at, expected=is_made)) == (is_made, is_made)

    assert unsettled.tell(follow(6), EPOCH, unsettled.broker_epoch) == (ErrorCode.NONE, {})
    assert is_hosted(unsettled, at, expected=True)


def test_who_has_no_zookeeper_makes_no_log_to_lead_and_takes_the_same_leader_epoch_later(
    unsettled: Backend, at: TopicPartition, release: str
) -> None:
    """A leader notes its epoch only once it has its log: it accepts the command that a follower ignores."""
    if release == "2.8":
        pytest.skip("from 2.7 to 3.0 the replica is offline then, led or followed")
    first = LeaderAndIsr((), (view(at, 5, topic_id=IDS[release][0]),), _live(unsettled)[:1])

    unsettled.lose_session(first, EPOCH)
    _introduce(unsettled)
    assert not unsettled.hosts(at)

    assert unsettled.tell(first, EPOCH, unsettled.broker_epoch) == (ErrorCode.NONE, {})
    assert is_hosted(unsettled, at, expected=True)
