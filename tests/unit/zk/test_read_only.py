"""Can a session that only reads send anything that could change a znode?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.zk import protocol
from controller.zk.protocol import Create, Exists, GetChildren, GetData, MultiRead, Request, SetData, SetWatches, Sync
from controller.zk.read_only import READING, ReadOnlyBridge, WouldWrite
from controller.zk.rights import GetAcl
from controller.zk.session import Session
from tests.unit.zk.simulated import EPOCH, Ensemble, Process
from zk_layout.ids import BrokerId, Zxid
from zk_layout.znodes.brokers import Endpoint, Registration

WRITING: tuple[Request, ...] = (
    Create("/new"),
    SetData(EPOCH, b"9", -1),
    protocol.transaction([protocol.Delete(EPOCH, -1)]),
    protocol.transaction([protocol.Check(EPOCH, 0)]),
    protocol.transaction([]),
)


class Reader:
    """A process with such a session, and what ZooKeeper holds."""

    def __init__(self) -> None:
        self.ensemble = Ensemble()
        self.process = Process(self.ensemble, new_bridge=ReadOnlyBridge)
        self.before = self.held()

    def held(self) -> dict[str, tuple[bytes, int]]:
        return {path: (node.data, node.version) for path, node in self.ensemble.zookeeper.nodes.items()}


@pytest.fixture
def reader() -> Iterator[Reader]:
    made = Reader()
    yield made
    made.process.end()


def test_it_reads_and_watches(reader: Reader) -> None:
    node, _ = reader.process.do(reader.process.bridge.get(EPOCH, watch=True))

    assert node is not None
    assert node.data == b"1"


@pytest.mark.parametrize("request_", WRITING, ids=lambda one: type(one).__name__)
def test_what_could_write_is_refused_where_it_is_made(reader: Reader, request_: Request) -> None:
    with pytest.raises(WouldWrite, match="this process only reads"):
        reader.process.do(reader.process.bridge.ask(request_))

    assert reader.held() == reader.before


@pytest.mark.parametrize("request_", WRITING, ids=lambda one: type(one).__name__)
def test_no_way_around_the_bridge_sends_it_either(reader: Reader, request_: Request) -> None:
    client = reader.process.bridge._client

    with pytest.raises(PermissionError):
        client._call(request_, None)
    assert isinstance(client.create_async("/new").exception, PermissionError)
    with pytest.raises(PermissionError):
        client.transaction().commit_async()

    assert reader.held() == reader.before


def test_a_claim_made_by_mistake_ends_in_an_error_and_leaves_everything_as_it_is(reader: Reader) -> None:
    session = Session(reader.process.bridge, lambda _: None, BrokerId(901))

    with pytest.raises(WouldWrite):
        reader.process.do(session.claim(Registration((Endpoint("PLAINTEXT", "c", 9092),)), replace=True))

    assert reader.held() == reader.before


def test_only_these_kinds_are_sent() -> None:
    """ZooKeeper's numbers: a kind that is added must be judged here, too."""
    reads = (Exists("/"), GetData("/"), GetChildren("/"), MultiRead(["/"]), SetWatches(Zxid(0)), Sync("/"), GetAcl("/"))

    assert {request.type for request in reads} == READING == {3, 4, 6, 8, 9, 22, 101}
