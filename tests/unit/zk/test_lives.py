"""Is a recreated znode distinguished from its predecessor, though its version is the same?

What real servers make of the transaction behind it: `tests/conformance/test_zookeeper_model.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.core.messages.effects import Commit, Create, Delete, Read, Write, operation
from controller.core.messages.events import CommitId, Committed, Conflicted, Event, Observed, Unknown
from controller.zk.lives import BLIND_ATTEMPTS, MARK, Births
from controller.zk.reader import Reader
from controller.zk.writer import Writer
from tests.simulation.zookeeper import MakeNode, Permission, RemoveNode
from tests.unit.zk.simulated import Ensemble, Process
from zk_layout.facts import Fact
from zk_layout.ids import BrokerId, PartitionId, TopicName, ZnodeVersion, Zxid
from zk_layout.watched import watched
from zk_layout.znodes.admin import LegacyReassignmentAddress
from zk_layout.znodes.reassignments import ROOT, Reassignment, ReassignmentAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

FENCE = V0 = ZnodeVersion(0)
ASKED = ReassignmentAddress(TopicName("orders"), PartitionId(0))
OTHER = ReassignmentAddress(TopicName("orders"), PartitionId(1))
LEGACY = LegacyReassignmentAddress()
ONE, TWO_ONE = b'{"version":1,"assignment":[1]}', b'{"version":1,"assignment":[2,1]}'
ANYTHING_ELSE = Create(TopicAddress(TopicName("orders")), Topic({PartitionId(0): Assignment((BrokerId(1),))}))


class Working:
    """A reader and a writer of one term, which keeps `/admin/reassignments`."""

    def __init__(self) -> None:
        self.ensemble = Ensemble()
        self.ensemble.zookeeper.make_path(ROOT)
        self.process = Process(self.ensemble)
        self.emitted: list[Event] = []
        self.reader = Reader(self.process.bridge, self.emitted.append, what=watched(follows_reassignments=True))
        self.process.do(self.reader.load())
        bridge, reader = self.process.bridge, self.reader
        self._writer = Writer(
            bridge, self.emitted.append, fence_version=FENCE, deleted=reader.forget, lives=reader.lives
        )
        self._commits = 0

    def write(self, *writes: Write) -> CommitId:
        """Send one transaction."""
        self._commits += 1
        self._writer.submit(Commit(CommitId(self._commits), tuple(map(operation, writes)), ("a decision",)))
        return CommitId(self._commits)

    def outcome(self, commit: CommitId) -> Committed | Conflicted:
        """The outcome of a transaction."""

        def found() -> list[Event]:
            return [e for e in self.emitted if isinstance(e, Committed | Conflicted) and e.commit == commit]

        (event,) = self.ensemble.until(found)
        assert isinstance(event, Committed | Conflicted)
        return event

    def written(self, *writes: Write) -> Committed | Conflicted:
        """Send one transaction, and wait for its outcome."""
        return self.outcome(self.write(*writes))

    def seen(self, path: str, data: bytes) -> Zxid:
        """The czxid of the znode with this data, once it has been read."""

        def found() -> Fact | None:
            node = self.ensemble.zookeeper.nodes.get(path)
            facts = [f for e in self.emitted if isinstance(e, Observed) for f in e.facts if f.address.path == path]
            is_so = facts and node is not None and node.data == data and facts[-1].as_of == node.mzxid
            return facts[-1] if is_so else None

        stat = self.ensemble.until(found).stat
        assert stat is not None
        return stat.czxid

    def asked(self) -> Zxid:
        """Another client asks for a move."""
        self.ensemble.write(MakeNode(ASKED.path, ONE))
        return self.seen(ASKED.path, ONE)


@pytest.fixture
def working() -> Iterator[Working]:
    working = Working()
    yield working
    working.reader.stop()
    working.process.end()


def test_a_request_that_was_replaced_by_another_is_not_deleted_in_its_place(working: Working) -> None:
    life = working.asked()
    working.ensemble.write(RemoveNode(ASKED.path))
    working.ensemble.write(MakeNode(ASKED.path, TWO_ONE))

    outcome = working.written(Delete(ASKED, V0, life), ANYTHING_ELSE)

    assert isinstance(outcome, Conflicted)
    assert outcome.address == ASKED
    assert working.ensemble.zookeeper.nodes[ASKED.path].data == TWO_ONE
    assert ANYTHING_ELSE.address.path not in working.ensemble.zookeeper.nodes
    life = working.seen(ASKED.path, TWO_ONE)
    assert isinstance(working.written(Delete(ASKED, V0, life), ANYTHING_ELSE), Committed)
    assert ASKED.path not in working.ensemble.zookeeper.nodes


def test_nothing_is_deleted_by_its_version_alone_because_the_connection_was_lost_while_it_was_counted(
    working: Working,
) -> None:
    life = working.asked()
    working.reader.lives._counted.clear()
    working.ensemble.write(RemoveNode(ASKED.path))
    working.ensemble.write(MakeNode(ASKED.path, TWO_ONE))

    assert isinstance(working.written(Delete(ASKED, V0, life)), Conflicted)
    assert working.ensemble.zookeeper.nodes[ASKED.path].data == TWO_ONE
    assert isinstance(working.written(Delete(ASKED, V0, working.seen(ASKED.path, TWO_ONE))), Committed)


def test_a_creation_of_ours_that_was_lost_with_its_connection_does_not_count_for_what_is_sent_over_the_next(
    working: Working,
) -> None:
    """The connection's thread knows of the loss, and the event loop does not yet."""
    life, connection = working.asked(), working.process.connection
    working.write(Create(OTHER, Reassignment((BrokerId(1),))))
    assert connection._line is not None
    connection._line._sent.clear()  # it never arrives
    connection._abandon_line()
    connection._lost()
    deletion = working.write(Delete(ASKED, V0, life), ANYTHING_ELSE)
    working.ensemble.write(RemoveNode(ASKED.path))
    working.ensemble.write(MakeNode(ASKED.path, TWO_ONE))

    assert isinstance(working.outcome(deletion), Conflicted)
    assert OTHER.path not in working.ensemble.zookeeper.nodes
    assert working.ensemble.zookeeper.nodes[ASKED.path].data == TWO_ONE
    assert isinstance(working.written(Delete(ASKED, V0, working.seen(ASKED.path, TWO_ONE))), Committed)


def test_a_creation_of_ours_that_is_refused_does_not_count_for_what_is_decided_after_it(working: Working) -> None:
    life = working.asked()
    working.ensemble.write(MakeNode(OTHER.path, ONE))
    working.seen(OTHER.path, ONE)
    assert isinstance(working.written(Delete(ASKED, V0, life)), Committed)
    life = working.asked()

    creation = working.write(Create(OTHER, Reassignment((BrokerId(1),))))
    deletion = working.write(Delete(ASKED, V0, life), ANYTHING_ELSE)
    working.ensemble.write(RemoveNode(ASKED.path), MakeNode(ASKED.path, TWO_ONE))

    assert isinstance(working.outcome(creation), Conflicted)
    assert isinstance(working.outcome(deletion), Conflicted)
    assert working.ensemble.zookeeper.nodes[ASKED.path].data == TWO_ONE
    assert isinstance(working.written(Delete(ASKED, V0, working.seen(ASKED.path, TWO_ONE))), Committed)


def test_what_depends_on_a_life_waits_for_creations_in_its_folder_and_later_ones_wait_behind_it(
    working: Working,
) -> None:
    life = working.asked()
    first, third = (ReassignmentAddress(TopicName("orders"), PartitionId(n)) for n in (1, 2))
    creation = working.write(Create(first, Reassignment((BrokerId(1),))))
    deletion = working.write(Delete(ASKED, V0, life))
    behind = working.write(Create(third, Reassignment((BrokerId(1),))))
    elsewhere = working.write(ANYTHING_ELSE)

    outcomes = [working.outcome(commit) for commit in (creation, elsewhere, deletion, behind)]

    zxids = [outcome.zxid for outcome in outcomes if isinstance(outcome, Committed)]
    assert len(zxids) == 4
    assert zxids == sorted(zxids)


def test_what_waits_when_the_session_ends_is_not_sent_in_the_next(working: Working) -> None:
    life, session = working.asked(), working.process.bridge.session
    connection = working.process.connection
    working.write(Create(OTHER, Reassignment((BrokerId(1),))))
    first = working.write(Delete(ASKED, V0, life))
    second = working.write(Delete(ASKED, V0, life))
    assert connection._line is not None
    connection._line._sent.clear()
    connection._abandon_line()
    connection._lost()

    working.ensemble.zookeeper.close_session(session)

    working.ensemble.until(lambda: working.process.bridge.session not in (0, session))
    assert isinstance(working.written(ANYTHING_ELSE), Committed)
    assert {Unknown(first), Unknown(second)} <= {*working.emitted}
    assert ASKED.path in working.ensemble.zookeeper.nodes


def test_where_nothing_can_be_counted_versions_have_to_do(working: Working) -> None:
    life, lives = working.asked(), working.reader.lives
    lives.counted = lambda *_: None  # type: ignore[method-assign]
    lives._counted.clear()

    outcomes = [working.written(Delete(ASKED, V0, life)) for _ in range(BLIND_ATTEMPTS + 1)]

    assert [type(outcome) for outcome in outcomes] == [*[Conflicted] * BLIND_ATTEMPTS, Committed]


def test_what_is_known_to_be_another_is_not_even_sent(working: Working) -> None:
    former = working.asked()
    working.ensemble.write(RemoveNode(ASKED.path), MakeNode(ASKED.path, TWO_ONE))
    working.seen(ASKED.path, TWO_ONE)

    assert working.written(Delete(ASKED, V0, former)) == Conflicted(
        CommitId(1), ASKED, f"not sent: {ASKED.path} was created again"
    )


def test_a_legacy_request_that_was_replaced_by_another_is_not_deleted_in_its_place(working: Working) -> None:
    """The children of its parent are not listed."""
    working.ensemble.write(MakeNode(LEGACY.path, b"1"))
    life = working.seen(LEGACY.path, b"1")
    working.ensemble.write(RemoveNode(LEGACY.path), MakeNode(LEGACY.path, b"2"))

    assert isinstance(working.written(Delete(LEGACY, V0, life)), Conflicted)
    working.reader.read(Read((LEGACY,)))
    assert isinstance(working.written(Delete(LEGACY, V0, working.seen(LEGACY.path, b"2"))), Committed)


def test_what_we_create_ourselves_stands_in_the_way_of_nothing(working: Working) -> None:
    life = working.asked()

    made = working.write(Create(OTHER, Reassignment((BrokerId(1),))))
    gone = working.write(Delete(ASKED, V0, life))

    assert isinstance(created := working.outcome(made), Committed)
    assert isinstance(working.outcome(gone), Committed)
    assert isinstance(working.written(Delete(OTHER, V0, created.zxid)), Committed)
    assert working.ensemble.zookeeper.nodes[ROOT].children == {}


def test_what_another_client_creates_costs_one_more_attempt(working: Working) -> None:
    life = working.asked()
    working.ensemble.write(MakeNode(OTHER.path, ONE))

    assert isinstance(working.written(Delete(ASKED, V0, life)), Conflicted)
    working.reader.read(Read((ASKED,)))
    working.seen(OTHER.path, ONE)
    assert isinstance(working.written(Delete(ASKED, V0, life)), Committed)


@pytest.mark.parametrize("created", [OTHER.path, "/admin/anything"], ids=["watched", "watched by no session"])
def test_an_immediate_retry_finds_counted_what_another_client_created(working: Working, created: str) -> None:
    address = ASKED if created == OTHER.path else LEGACY
    working.ensemble.write(MakeNode(address.path, b"1"))
    life = working.seen(address.path, b"1")
    working.ensemble.write(MakeNode(created))

    assert isinstance(working.written(Delete(address, V0, life)), Conflicted)
    assert isinstance(working.written(Delete(address, V0, life)), Committed)


def test_where_nothing_may_be_created_versions_have_to_do(working: Working) -> None:
    life = working.asked()
    working.ensemble.zookeeper.acls[ROOT] = Permission.ALL & ~Permission.CREATE

    assert isinstance(working.written(Delete(ASKED, V0, life)), Conflicted)
    assert isinstance(working.written(Delete(ASKED, V0, life)), Committed)


def test_births_count_what_was_created_however_much_of_it_is_gone(working: Working) -> None:
    for _ in range(3):
        working.ensemble.write(MakeNode(f"{ROOT}/{MARK}"))
        working.ensemble.write(RemoveNode(f"{ROOT}/{MARK}"))
    working.ensemble.write(MakeNode(OTHER.path, ONE))

    assert working.process.do(working.process.bridge.ask(Births(ROOT))).value == 4
