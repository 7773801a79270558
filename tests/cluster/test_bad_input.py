"""Bad data in ZooKeeper or from clients causes one clear complaint, and the controller keeps leading.

Each test of the first part ends with a whole reassignment, by the same term, of real brokers.
"""

from __future__ import annotations

import itertools
import json
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from kazoo.client import KazooClient

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import AlterReassignments, ListReassignments, PartitionReassignment
from controller.lab.cluster import LocalCluster
from controller.lab.zookeeper import zookeeper_client
from controller.settings.limits import Limits
from controller.wire.frames import framed
from tests.cluster.replica import Replica, content, wait_until
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

MALFORMED = "malformed znode"
LEGACY = "/admin/reassign_partitions"
_topics = itertools.count(1)


class Term:
    """A daemon that leads a real cluster, with the tests' operations on it."""

    def __init__(self, replica: Replica, zookeeper: KazooClient) -> None:
        self.replica = replica
        self.zookeeper = zookeeper
        self.epoch = replica.leader()["controller_epoch"]
        self.offset = 0
        self.notices_before = self.disconnected_before = 0.0

    def begin(self) -> None:
        """A test begins."""
        self.offset = self.replica.log_size()
        self.notices_before = self.replica.measure("notices_total")
        self.disconnected_before = self.replica.measure("clients_disconnected_total")

    def notices(self, text: str, kind: str | None = None) -> list[str]:
        """The complaints with this text since the test began."""
        return [
            record["event"]
            for record in self.replica.complaints(self.offset)
            if text in json.dumps(record) and (kind is None or record.get("kind") == kind)
        ]

    def await_notice(self, text: str, kind: str) -> str:
        """Wait for the one complaint with this text, and for its count."""
        wait_until(lambda: self.notices(text, kind), f"a {kind!r} named {text!r}")
        assert self.replica.measure("notices_total") > self.notices_before
        (notice,) = self.notices(text, kind)
        return notice

    def await_closed(self, text: str) -> None:
        """The one complaint about a client, which names its address."""
        wait_until(lambda: self.notices(text), f"a complaint about {text!r}")
        assert self.replica.measure("clients_disconnected_total") == self.disconnected_before + 1
        (record,) = (r for r in self.replica.complaints(self.offset) if text in json.dumps(r))
        assert record["event"] == "client connection closed"
        assert record["client"].startswith("127.0.0.1:")

    def create_topic(self, *replicas: tuple[int, ...]) -> str:
        """A topic with these replicas, led by its first ones."""
        topic = f"topic-{next(_topics)}"
        partitions = {str(number): list(brokers) for number, brokers in enumerate(replicas)}
        self.zookeeper.create(
            f"/brokers/topics/{topic}",
            json.dumps({"version": 1, "partitions": partitions}).encode(),
        )
        wait_until(
            lambda: all(self.state(topic, number) for number in range(len(replicas))), f"{topic} had its leaders"
        )
        return topic

    def state(self, topic: str, number: int = 0) -> dict[str, object]:
        """The content of the state znode; empty where there is none."""
        return content(self.zookeeper, f"/brokers/topics/{topic}/partitions/{number}/state")

    def replicas(self, topic: str, number: int = 0) -> list[int]:
        """The replicas in the topic znode, including adding and removing ones."""
        found = json.loads(self.zookeeper.get(f"/brokers/topics/{topic}")[0])
        replicas: list[int] = found["partitions"][str(number)]
        return replicas

    def move(self, topic: str, *brokers: int, number: int = 0) -> tuple[ErrorCode, str | None]:
        """Request the move of one partition; return the API's answer."""
        at = TopicPartition(TopicName(topic), PartitionId(number))
        wanted = PartitionReassignment(at, tuple(map(BrokerId, brokers)))
        answer = self.replica.ask(AlterReassignments((wanted,)))
        assert answer.error is ErrorCode.NONE
        (result,) = answer.results
        return result.error, result.message

    def proves_itself(self) -> None:
        """Check that it leads by the same claim, and completes a move."""
        topic = self.create_topic((1, 2))
        assert self.move(topic, 3, 1) == (ErrorCode.NONE, None)
        wait_until(lambda: self.replicas(topic) == [3, 1], f"{topic} was moved")
        state = self.state(topic)
        assert state["leader"] in (3, 1)
        leader = self.replica.leader()
        assert (leader["is_leader"], leader["controller_epoch"]) == (True, self.epoch)
        assert self.replica.measure("terms_ended_total") == 0


@pytest.fixture(scope="module")
def _term(cluster_3_9: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Term]:
    directory = tmp_path_factory.mktemp("bad-input")
    limits = {"socket_request_max_bytes": 1_000_000, "max_connections": 150, "log_level": "debug"}
    connect = cluster_3_9.zookeeper_connect
    with Replica(connect, directory, 901, **limits) as replica, zookeeper_client(connect) as zookeeper:
        replica.await_phase("active")
        yield Term(replica, zookeeper)


@pytest.fixture
def term(_term: Term) -> Iterator[Term]:
    _term.begin()
    yield _term
    _term.proves_itself()


@contextmanager
def znode(term: Term, path: str, data: bytes, **options: bool) -> Iterator[str]:
    """Create a znode for the time of a test; return its path."""
    created = term.zookeeper.create(path, data, makepath=True, **options)
    try:
        yield created
    finally:
        if term.zookeeper.exists(created):
            term.zookeeper.delete(created, recursive=True)


# ---- znodes ---------------------------------------------------------------------------------------------------------

ID = "AAAAAAAAQACAAAAAAAAAAQ"
BAD_TOPICS = {
    "not JSON": b'{"version":2,"partitions":{"0":[1,',
    "not text": b"\xff\xfe\x00",
    "empty": b"",
    "a list": b"[]",
    "without partitions": b'{"version":2}',
    "replicas that are no numbers": b'{"version":2,"partitions":{"0":["a"]}}',
    "a replica beyond 32 bits": b'{"version":2,"partitions":{"0":[4294967296]}}',
    "a negative replica": b'{"version":2,"partitions":{"0":[-1]}}',
    "a partition beyond 32 bits": b'{"version":2,"partitions":{"4294967296":[1]}}',
    "a short topic id": b'{"version":3,"topic_id":"abc","partitions":{"0":[1]}}',
    "nested without end": b"[" * 10_000,
}


@pytest.mark.parametrize("data", BAD_TOPICS.values(), ids=BAD_TOPICS)
def test_a_topic_that_cannot_be_read(term: Term, data: bytes) -> None:
    with znode(term, f"/brokers/topics/bad-{next(_topics)}", data) as path:
        assert path in term.await_notice(f"{path}:", MALFORMED)
        error, message = term.move(path.rpartition("/")[2], 1)
        assert error is ErrorCode.UNKNOWN_SERVER_ERROR
        assert message == f"{path} is malformed; repair it first"


def test_a_topic_that_is_broken_while_it_is_used_and_mended_again(term: Term) -> None:
    topic = term.create_topic((1, 2))
    path = f"/brokers/topics/{topic}"
    good, _ = term.zookeeper.get(path)

    term.zookeeper.set(path, good[:-5])
    term.await_notice(path, MALFORMED)
    assert term.move(topic, 2, 3)[0] is not ErrorCode.NONE
    term.zookeeper.set(path, good)

    wait_until(lambda: term.move(topic, 2, 3)[0] is ErrorCode.NONE, "the mended topic could be moved")
    wait_until(lambda: term.replicas(topic) == [2, 3], "it was moved")


BAD_STATES = {
    "half-written": b'{"controller_epoch":1,"leader":1,"version":1,"leader_ep',
    "a leader beyond 32 bits": b'{"controller_epoch":1,"leader":4294967296,"version":1,"leader_epoch":0,"isr":[1]}',
    "an epoch that cannot be raised": (
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":2147483647,"isr":[1]}'
    ),
    "a negative ISR": b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[-5]}',
}


@pytest.mark.parametrize("data", BAD_STATES.values(), ids=BAD_STATES)
def test_a_partition_state_that_cannot_be_read(term: Term, data: bytes) -> None:
    topic = term.create_topic((1, 2))
    path = f"/brokers/topics/{topic}/partitions/0/state"
    good, _ = term.zookeeper.get(path)

    term.zookeeper.set(path, data)
    term.move(topic, 2, 3)  # its write meets another version than expected, so it is read again

    assert path in term.await_notice(path, MALFORMED)
    assert term.zookeeper.get(path)[0] == data
    term.zookeeper.set(path, good)


def test_a_registration_that_cannot_be_read(term: Term) -> None:
    bad = b'{"endpoints":["PLAINTEXT://nowhere:99999"],"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"}}'
    with znode(term, "/brokers/ids/77", bad, ephemeral=True) as path:
        assert "99999" in term.await_notice(path, MALFORMED)
        wait_until(lambda: term.replica.measure("live_brokers") == 3, "the other brokers were counted")


@pytest.mark.parametrize("name", ["007", "seven", "4294967296"])
def test_a_registration_under_a_name_that_is_no_id(term: Term, name: str) -> None:
    with znode(term, f"/brokers/ids/{name}", b"{}", ephemeral=True) as path:
        assert path in term.await_notice(path, "unknown znode")


def test_a_topic_with_a_name_that_no_broker_could_take(term: Term) -> None:
    with znode(term, f"/brokers/topics/{'t' * 40_000}", b'{"version":1,"partitions":{"0":[1]}}') as path:
        shown = path[:80]  # a log line does not hold all of it
        assert shown in term.await_notice(shown, "unknown znode")


def test_a_registration_whose_host_no_broker_could_be_told(term: Term) -> None:
    bad = json.dumps({"version": 1, "host": "h" * 40_000, "port": 1}).encode()
    with znode(term, "/brokers/ids/78", bad, ephemeral=True) as path:
        term.await_notice(path, MALFORMED)


@pytest.mark.parametrize("data", [b'{"version":1,"partitions":[{"topic":"orders","partit', b"", b"[1,2"])
def test_a_half_written_legacy_reassignment_is_left_alone_until_it_is_mended(term: Term, data: bytes) -> None:
    topic = term.create_topic((1, 2))

    with znode(term, LEGACY, data):
        term.await_notice(LEGACY, MALFORMED)
        assert term.zookeeper.get(LEGACY)[0] == data
        entry = {"topic": topic, "partition": 0, "replicas": [2, 3]}
        term.zookeeper.set(LEGACY, json.dumps({"version": 1, "partitions": [entry]}).encode())
        wait_until(lambda: not term.zookeeper.exists(LEGACY), "the mended znode was done and removed")

    assert term.replicas(topic) == [2, 3]


def test_each_bad_entry_of_a_legacy_reassignment_is_named_and_the_good_one_is_done(term: Term) -> None:
    topic = term.create_topic((1, 2), (1, 2), (1, 2), (1, 2))
    entries = [
        {"topic": topic, "partition": 0, "replicas": [2, 3]},
        {"topic": topic, "partition": 1, "replicas": [2, 2]},
        {"topic": topic, "partition": 2, "replicas": [2, term.replica.broker_id]},
        {"topic": topic, "partition": 3, "replicas": []},
        {"topic": topic, "partition": 9, "replicas": [1]},
        {"topic": "nobodys-topic", "partition": 0, "replicas": [1]},
        {"topic": topic, "partition": 3, "replicas": [-1]},
        {"topic": topic},
    ]
    with znode(term, LEGACY, json.dumps({"version": 1, "partitions": entries}).encode()):
        wait_until(lambda: not term.zookeeper.exists(LEGACY), "all entries were done or refused")

    wait_until(lambda: term.replicas(topic) == [2, 3], "the good one was done")
    assert [term.replicas(topic, number) for number in (1, 2, 3)] == [[1, 2]] * 3
    for refused in (f"{topic}-1", f"{topic}-2", f"{topic}-3", f"{topic}-9", "nobodys-topic-0", "entry 6", "entry 7"):
        assert len(term.notices(f"{refused}")) == 1, refused


def test_a_legacy_reassignment_to_a_broker_that_nobody_knows_waits_until_it_is_cancelled(term: Term) -> None:
    topic = term.create_topic((1, 2))
    entry = {"topic": topic, "partition": 0, "replicas": [2, 66]}

    with znode(term, LEGACY, json.dumps({"version": 1, "partitions": [entry]}).encode()):
        wait_until(lambda: term.replicas(topic) == [2, 66, 1], "the move began")
        assert term.zookeeper.exists(LEGACY)
        cancel = PartitionReassignment(TopicPartition(TopicName(topic), PartitionId(0)), None)
        answer = term.replica.ask(AlterReassignments((cancel,)))
        wait_until(lambda: not term.zookeeper.exists(LEGACY), "its entry left with it")

    assert [result.error for result in answer.results] == [ErrorCode.NONE]
    assert sorted(term.replicas(topic)) == [1, 2]


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/isr_change_notification/isr_change_", b'{"version":1,"partitions":[{"top'),
        ("/isr_change_notification/isr_change_", b""),
        ("/log_dir_event_notification/log_dir_event_", b'{"version":1,"broker":"one","event":1}'),
    ],
)
def test_a_notification_that_cannot_be_read_is_removed(term: Term, path: str, data: bytes) -> None:
    with znode(term, path, data, sequence=True) as created:
        assert created in term.await_notice(created, MALFORMED)
        wait_until(lambda: not term.zookeeper.exists(created), f"{created} was removed")


def test_a_notification_about_what_does_not_exist_is_removed_without_a_word(term: Term) -> None:
    data = b'{"version":1,"partitions":[{"topic":"nobodys-topic","partition":4}]}'
    with znode(term, "/isr_change_notification/isr_change_", data, sequence=True) as created:
        wait_until(lambda: not term.zookeeper.exists(created), f"{created} was removed")
    assert not term.notices(created)


def test_a_topics_configuration_that_cannot_be_read_permits_nothing(term: Term) -> None:
    """It is read when a partition has no leader: here its only replica is on a dead broker."""
    topic = f"topic-{next(_topics)}"
    state = {"controller_epoch": 1, "leader": -1, "version": 1, "leader_epoch": 3, "isr": [66]}
    with znode(term, f"/config/topics/{topic}", b'{"version":1,"config":["unclean"]') as path:
        transaction = term.zookeeper.transaction()
        base = f"/brokers/topics/{topic}"
        transaction.create(base, b'{"version":1,"partitions":{"0":[66,1]}}')
        transaction.create(f"{base}/partitions", b"")
        transaction.create(f"{base}/partitions/0", b"")
        transaction.create(f"{base}/partitions/0/state", json.dumps(state).encode())
        transaction.commit()
        term.await_notice(path, MALFORMED)
        assert term.state(topic) == state
        term.zookeeper.delete(base, recursive=True)


def test_owed_deletions_that_cannot_be_read(term: Term) -> None:
    topic = term.create_topic((1, 2))
    with znode(term, f"/kafka_zk_controller/replica_deletions/{topic}", b'{"version":1,"replicas":{"0":[-1]}}') as path:
        term.await_notice(path, MALFORMED)


def test_an_assignment_with_a_replica_twice_breaks_nothing(term: Term) -> None:
    with znode(term, f"/brokers/topics/topic-{next(_topics)}", b'{"version":1,"partitions":{"0":[1,1]}}'):
        term.proves_itself()


# ---- the API --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("brokers", "says"),
    [((1, 1), "Duplicate"), ((2, 66), "66"), ((-1, 2), "-1"), ((), "mpty"), ((901,), "901")],
)
def test_replicas_that_make_no_sense_are_refused_with_the_reason(
    term: Term, brokers: tuple[int, ...], says: str
) -> None:
    topic = term.create_topic((1, 2))

    error, message = term.move(topic, *brokers)

    assert error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert says in str(message)
    assert term.replicas(topic) == [1, 2]


@pytest.mark.parametrize("topic", ["nobodys-topic", "", "..", "a/b", "x" * 30_000])
def test_unknown_topics_are_refused(term: Term, topic: str) -> None:
    assert term.move(topic, 1)[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = (TopicPartition(TopicName(topic), PartitionId(0)),)
    assert term.replica.ask(ListReassignments(asked)).moves == ()


def test_an_unknown_partition_is_refused(term: Term) -> None:
    topic = term.create_topic((1, 2))
    assert term.move(topic, 1, number=2**31 - 1)[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert term.move(topic, 1, number=-1)[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ---- frames ---------------------------------------------------------------------------------------------------------


def frame(api_key: int, version: int, body: bytes = b"") -> bytes:
    message = struct.pack(">hhih", api_key, version, 7, 3) + b"odd" + body
    return framed(message)


TRUNCATED = struct.pack(">i", 12) + struct.pack(">hhih", 45, 0, 7, 3) + b"od"
BAD_FRAMES: dict[str, tuple[bytes, str]] = {
    "a size of 2 GB": (struct.pack(">i", 2**31 - 1) + b"x" * 100, "announces 2147483647 bytes"),
    "a negative size": (struct.pack(">i", -1), "announces -1 bytes"),
    "a size just above the limit": (struct.pack(">ih", 1_000_001, 45), "announces 1000001 bytes"),
    "an HTTP request": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "announces 1195725856 bytes"),
    "a TLS handshake": (bytes.fromhex("1603010200010001fc0303") + bytes(500), "announces 369295618 bytes"),
    "an unknown API key": (frame(999, 0), "999"),
    "a negative API key": (frame(-5, 0), "-5"),
    "an unsupported version": (frame(45, 77), "version 77"),
    "a frame that ends within its header": (TRUNCATED, "client_id"),
    "a frame that ends within its body": (frame(45, 0, b"\0\0\0"), "AlterPartitionReassignments"),
    "a list of two billion": (frame(45, 0, b"\0\0\0\0\0" + b"\xff\xff\xff\xff\x07"), "AlterPartitionReassignments"),
    "an empty frame": (struct.pack(">i", 0), ""),
}


@pytest.mark.parametrize(("message", "says"), BAD_FRAMES.values(), ids=BAD_FRAMES)
def test_a_client_that_sends_nonsense_is_hung_up_on(term: Term, message: bytes, says: str) -> None:
    with term.replica.connect() as connection:
        connection.sendall(message)
        assert is_hung_up_on(connection)

    address = f"127.0.0.1:{connection_port(term)}"
    assert says in json.dumps(term.replica.complaints(term.offset))
    term.await_closed(address)


def connection_port(term: Term) -> int:
    wait_until(lambda: term.replica.complaints(term.offset), "a complaint")
    (record,) = term.replica.complaints(term.offset)
    return int(record["client"].rpartition(":")[2])


def is_hung_up_on(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_client_that_hangs_within_a_request_disturbs_nobody(term: Term) -> None:
    with term.replica.connect() as hanging:
        hanging.sendall(struct.pack(">i", 100) + b"\0\x2d")
        term.proves_itself()
        assert not term.replica.complaints(term.offset)


def test_a_client_that_never_reads_its_answers_disturbs_nobody(term: Term) -> None:
    request = frame(46, 0, b"\0" * 7)
    with term.replica.connect() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        deaf.sendall(request * 2_000)
        term.proves_itself()


def test_a_client_that_leaves_before_its_answer_disturbs_nobody(term: Term) -> None:
    for _ in range(50):
        with term.replica.connect() as leaving:
            leaving.sendall(frame(46, 0, b"\0" * 7))
    assert not term.replica.complaints(term.offset)


def test_idle_connections_up_to_the_limit_disturb_nobody_and_make_room_for_newcomers(term: Term) -> None:
    """Brokers and clients share the only listener: a new connection may be a broker's, and may exceed the limit until
    it is known.
    """

    def made_room() -> float:
        return term.replica.measure("clients_disconnected_total", reason="made room for another")

    before, most = made_room(), 150 + Limits().most_newcomers
    with ExitStack() as stack:
        for _ in range(most + 20):
            stack.enter_context(term.replica.connect())
        wait_until(lambda: made_room() >= before + 20, "the longest idle made room")
        assert term.replica.measure("connections") == most
        assert term.replica.leader()["is_leader"]
    wait_until(lambda: term.replica.measure("connections") < 50, "they were gone")
