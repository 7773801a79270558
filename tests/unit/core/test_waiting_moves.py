"""What becomes of the entry of an accepted partition whose move has not begun?

The tests put such entries in by hand, or write the status that an earlier term would have left.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.core.messages.events import CallId
from controller.core.messages.requests import ListReassignments
from controller.core.progress.ledger import BY_REQUEST, Entry, OpenRequest, RequestLedger
from controller.core.progress.list_reassignments import asked, waiting_move
from controller.core.stage import toward
from controller.core.state.cluster import ClusterState
from controller.core.state.topics import TopicIdentity
from controller.core.transactions.sizes import RequestSizes
from tests.unit.core.builders import AT, Term, ids
from tests.unit.traps.play import Play, some
from zk_layout import catalog
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import PartitionId, RequestId, TopicId, TopicPartition, ZnodeVersion, Zxid
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.reassignment_status import ROOT, PartitionStatus, RequestStatus, TopicStatus, decode, encode
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress
from zk_layout.znodes.waiting_moves import WaitingMove, WaitingMoves, WaitingMovesAddress, part_of

CREATED = Zxid(2000)
CALL = CallId(1)
TARGET = ids("3,2")
HERE = Assignment(ids("1,2"))
ADDRESS = TopicAddress(AT.topic)
AN_ID, ANOTHER_ID = TopicId("a" * 22), TopicId("b" * 22)
STATUS = f"{ROOT}/1"


class Book:
    """A ledger beside the facts of one topic, `orders`."""

    def __init__(self, topic_id: TopicId | None = None) -> None:
        self.term = Term("1,2,3,4")
        self.state: ClusterState = self.term.state
        self.ledger = RequestLedger(self.term.cluster)
        self.zxid = CREATED
        self.says(HERE, topic_id=topic_id)

    def says(self, *assignments: Assignment, czxid: Zxid = CREATED, topic_id: TopicId | None = None) -> None:
        """The topic's znode lists these; the ledger sees the first."""
        self.zxid = Zxid(self.zxid + 1)
        value = Topic({PartitionId(n): a for n, a in enumerate(assignments)}, topic_id)
        self.term.fold(present(ADDRESS, value, Stat(czxid, self.zxid, ZnodeVersion(0))))
        self.see()

    def is_gone(self) -> None:
        """The topic's znode is absent."""
        self.zxid = Zxid(self.zxid + 1)
        self.term.fold(absent(ADDRESS, self.zxid))
        self.see()

    def see(self) -> None:
        """The ledger looks at the partition."""
        self.ledger.see(AT, self.state.partition(AT), 0)

    def request(self, *entries: Entry) -> OpenRequest:
        """A request is accepted for so many partitions; the queue has those that wait."""
        waiting = {PartitionId(n): e for n, e in enumerate(entries) if e.waits_in is not None}
        for identity in {e.waits_in: None for e in waiting.values()}:
            assert identity is not None
            moves = {n: WaitingMove(e.replicas, HERE.replicas, 1) for n, e in waiting.items() if e.waits_in == identity}
            self.queue(WaitingMoves(identity.czxid, moves, identity.topic_id))
        return self.registered(*entries)

    def queue(self, waiting: WaitingMoves) -> None:
        """The queue has these moves."""
        self.zxid = Zxid(self.zxid + 1)
        part = WaitingMovesAddress(AT.topic, part_of(AT.partition))
        self.term.fold(present(part, waiting, Stat(CREATED, self.zxid, ZnodeVersion(0))))

    def registered(self, *entries: Entry) -> OpenRequest:
        """All of a request is granted."""
        request = OpenRequest(
            BY_REQUEST, 5, {TopicPartition(AT.topic, PartitionId(n)): e for n, e in enumerate(entries)}
        )
        self.ledger.register(request, 0)
        self.ledger.go_on(0)
        return request

    def waiting(self, topic_id: TopicId | None = None) -> OpenRequest:
        """A request is accepted whose move has not begun."""
        return self.request(Entry(TARGET, waits_in=TopicIdentity(CREATED, topic_id)))


def came_to(request: OpenRequest) -> dict[str, int]:
    """What a request counts, and that its end is noted exactly when nothing is left."""
    assert (request.finished_ms is None) == bool(request.unfinished)
    return request.counts


def test_an_entry_waits_until_its_move_begins_and_then_goes_as_any_other() -> None:
    book = Book()
    request = book.waiting()
    assert came_to(request) == {"waiting": 1}
    assert not book.ledger.is_idle

    request.has_news = False
    book.says(toward(HERE, TARGET))
    assert came_to(request) == {"in progress": 1}
    assert request.has_news
    assert book.ledger.waiting == {}

    book.says(Assignment(TARGET))
    assert came_to(request) == {"completed": 1}
    assert book.ledger.is_idle


def test_an_entry_that_left_the_queue_before_all_of_its_request_was_granted_waits_no_more() -> None:
    book = Book()

    request = book.registered(Entry(TARGET, waits_in=TopicIdentity(CREATED, None)))

    assert came_to(request) == {"superseded": 1}
    assert book.ledger.is_idle


def test_a_move_that_has_begun_waits_no_more_when_it_is_cancelled() -> None:
    book = Book()
    request = book.waiting()
    book.says(toward(HERE, TARGET))

    book.says(HERE)

    assert came_to(request) == {"cancelled": 1}


def test_an_entry_whose_partition_has_arrived_in_another_way_is_completed() -> None:
    book = Book()
    request = book.waiting()

    book.says(Assignment(TARGET))

    assert came_to(request) == {"completed": 1}


def test_another_leader_order_or_one_replica_more_does_not_end_the_wait() -> None:
    book = Book()
    request = book.waiting()

    book.says(Assignment(ids("2,1")))
    book.says(Assignment(ids("2,1,4")))

    assert came_to(request) == {"waiting": 1}


@pytest.mark.parametrize("waits_in", [None, TopicIdentity(CREATED)])
def test_a_later_request_for_another_target_supersedes_the_entry_whether_it_begins_or_waits(
    waits_in: TopicIdentity | None,
) -> None:
    book = Book()
    first = book.waiting()
    if waits_in is None:
        book.says(toward(HERE, ids("4,2")))

    second = book.request(Entry(ids("4,2"), waits_in=waits_in))

    assert came_to(first) == {"superseded": 1}
    assert came_to(second) == {"in progress" if waits_in is None else "waiting": 1}
    assert book.ledger.waiting_request(AT) is (None if waits_in is None else second)


def test_a_later_request_for_the_same_target_waits_beside_the_first() -> None:
    book = Book()
    first, second = book.waiting(), book.waiting()
    assert came_to(first) == came_to(second) == {"waiting": 1}

    book.says(toward(HERE, TARGET))

    assert came_to(first) == came_to(second) == {"in progress": 1}


def test_a_move_elsewhere_that_no_request_asked_for_supersedes_the_entry_and_gets_an_id_of_its_own() -> None:
    book = Book()
    request = book.waiting()

    book.says(toward(HERE, ids("4,2")))

    assert came_to(request) == {"superseded": 1}
    assert list(book.ledger.orphans) == [AT]


def test_an_entry_never_waits_behind_a_move() -> None:
    book = Book()
    book.says(toward(HERE, TARGET))
    running = book.request(Entry(TARGET))

    behind = book.request(Entry(ids("4,2"), waits_in=TopicIdentity(CREATED)))

    assert came_to(running) == {"in progress": 1}
    assert came_to(behind) == {"superseded": 1}


def test_a_cancellation_ends_the_wait_and_is_done_at_once() -> None:
    book = Book()
    request = book.waiting()
    book.queue(WaitingMoves(CREATED, {}, None))

    cancellation = book.request(Entry(HERE.replicas, is_cancel=True))

    assert came_to(request) == {"cancelled": 1}
    assert came_to(cancellation) == {"completed": 1}
    assert book.ledger.is_idle
    assert book.ledger.waiting == {}


def test_a_cancellation_leaves_it_to_the_facts_what_a_move_that_has_begun_came_to() -> None:
    book = Book()
    book.says(toward(HERE, TARGET))
    running = book.request(Entry(TARGET))

    cancellation = book.request(Entry(HERE.replicas, is_cancel=True))
    assert came_to(running) == {"in progress": 1}
    assert came_to(cancellation) == {"superseded": 1}


def test_an_entry_waits_on_while_its_topic_is_being_deleted_and_is_deleted_with_it() -> None:
    book = Book()
    request = book.waiting()
    book.zxid = Zxid(book.zxid + 1)
    mark = Stat(book.zxid, book.zxid, ZnodeVersion(0))

    book.term.fold(present(TopicDeletionAddress(AT.topic), None, mark))
    book.see()
    assert came_to(request) == {"waiting": 1}
    assert waiting_move(AT, book.term.cluster, book.ledger) is None

    book.is_gone()
    assert came_to(request) == {"deleted": 1}


def test_an_entry_waits_on_when_its_topic_grows() -> None:
    book = Book()
    request = book.waiting()

    book.says(HERE, HERE, HERE)

    assert came_to(request) == {"waiting": 1}


@pytest.mark.parametrize("is_seen_gone", [True, False])
@pytest.mark.parametrize("replicas", ["1,2", "3,2"])
def test_an_entry_does_not_pass_to_a_topic_that_is_created_again(replicas: str, *, is_seen_gone: bool) -> None:
    book = Book(AN_ID)
    request = book.waiting(AN_ID)
    if is_seen_gone:
        book.is_gone()

    book.says(Assignment(ids(replicas)), czxid=Zxid(3000), topic_id=ANOTHER_ID)

    assert came_to(request) == {"deleted": 1}


@pytest.mark.parametrize("replicas", ["1,2", "3,2"])
def test_what_was_granted_in_a_topic_is_recorded_and_ends_there_when_the_topic_is_created_again_before_the_answer(
    replicas: str,
) -> None:
    book = Book()
    book.ledger = RequestLedger(book.term.cluster, recorded_in=RequestSizes(1_048_575))
    book.says(toward(HERE, TARGET))
    book.ledger.claim(CALL, AT, HERE.replicas, is_cancel=False)
    book.says(Assignment(ids(replicas)), czxid=Zxid(3000))

    request = book.registered(*book.ledger.granted(CALL).values())

    assert came_to(request) == {"deleted": 1}
    assert request.recording is not None
    assert request.recording.parts[0][AT.topic].czxid == CREATED


LATER = ids("4,2")
WAITS_IN = TopicIdentity(CREATED, None)


@pytest.mark.parametrize(
    ("late", "late_comes_to"),
    [
        (Entry(TARGET), "cancelled"),
        (Entry(TARGET, waits_in=WAITS_IN), "superseded"),
        (Entry(HERE.replicas, True), "completed"),
    ],
)
def test_what_was_granted_before_a_move_that_waits_does_not_end_the_wait_when_its_request_has_its_answer_afterwards(
    late: Entry, late_comes_to: str
) -> None:
    book = Book()
    waiting = book.request(Entry(LATER, waits_in=WAITS_IN))

    request = book.registered(late)

    assert came_to(request) == {late_comes_to: 1}
    assert came_to(waiting) == {"waiting": 1}
    assert book.ledger.waiting == {AT.topic: {AT.partition: None}}


def test_what_was_granted_before_a_move_that_is_under_way_does_not_supersede_it() -> None:
    book = Book()
    book.says(toward(HERE, LATER))
    under_way = book.registered(Entry(LATER))

    late = book.registered(Entry(TARGET))

    assert (came_to(late), came_to(under_way)) == ({"superseded": 1}, {"in progress": 1})


def test_in_a_tree_that_was_copied_a_topic_is_known_by_its_id() -> None:
    book = Book(AN_ID)
    request = book.request(Entry(TARGET, waits_in=TopicIdentity(Zxid(7), AN_ID)))

    assert came_to(request) == {"waiting": 1}


def test_an_entry_is_forgotten_with_its_request() -> None:
    book = Book()
    request = book.waiting()

    book.ledger.forget(request)

    assert book.ledger.is_idle
    assert book.ledger.waiting == {}


def test_a_waiting_move_is_listed_with_the_replicas_of_now() -> None:
    book = Book()
    request = book.waiting()
    request.request = RequestId(9)

    (at,) = asked(ListReassignments(None), book.term.cluster, book.ledger.waiting)
    move = waiting_move(at, book.term.cluster, book.ledger)

    assert move is not None
    assert (move.topic_partition, move.replicas, move.adding, move.removing) == (AT, ids("1,2"), ids("3"), ids("1"))
    assert move.progress is not None
    assert (move.progress.request_id, move.progress.stage, move.progress.since_ms) == (9, "waiting", 5)


def test_of_requests_of_earlier_terms_that_do_not_wait_the_facts_tell_alone() -> None:
    book = Book()
    book.says(toward(HERE, TARGET))
    for number, target in ((1, TARGET), (2, ids("4,2"))):
        entry = PartitionStatus(AT.partition, target)
        status = RequestStatus(RequestId(number), BY_REQUEST, 5, 5, None, {}, (TopicStatus(AT.topic, (entry,)),))
        book.ledger.reopen(status, RequestId(number), 0)

    first, second = (book.ledger.open[RequestId(number)] for number in (1, 2))

    assert came_to(first) == {"in progress": 1}
    assert came_to(second) == {"superseded": 1}


# ---- across terms -------------------------------------------------------------------------------------------------


def written(topic: TopicStatus, number: int = 1) -> str:
    """A status as an earlier term left it."""
    status = RequestStatus(RequestId(number), BY_REQUEST, 5, 5, None, {"waiting": 1}, (topic,))
    return encode(status).decode()


def waiting_entry(play: Play, target: str = "3,2", **of_topic: Any) -> TopicStatus:
    """The entry of a partition that waits in the present topic."""
    identity = {"czxid": play.seen("/brokers/topics/orders").stat.czxid} | of_topic  # type: ignore[union-attr]
    return TopicStatus(AT.topic, (PartitionStatus(AT.partition, ids(target), is_waiting=True),), **identity)


def taken_over(*commands: str, is_queued: bool = False, **of_topic: Any) -> Play:
    """A controller is elected beside a status with a waiting entry; these have happened meanwhile."""
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2", "elect")
    entry = waiting_entry(play, **of_topic)
    if is_queued:
        play.do("set moves_at_once=0", queued(play))
    play.do(*commands, f"znode {ROOT} {{}}", f"znode {STATUS} {written(entry)}", "elect", "time +60s")
    return play


def queued(play: Play, target: str = "3,2") -> str:
    """The command by which the partition waits in the queue, in which nothing may begin."""
    stat = play.seen("/brokers/topics/orders").stat
    assert stat is not None
    moves = {AT.partition: WaitingMove(ids(target), ids("1,2"), 1)}
    address = WaitingMovesAddress(AT.topic, part_of(AT.partition))
    return f"znode {address.path} {catalog.encode(WaitingMoves(stat.czxid, moves)).decode()}"


def counts(play: Play, path: str = STATUS) -> dict[str, int]:
    """What a status znode counts."""
    return decode((play.data(path) or "").encode()).counts


def test_a_successor_goes_on_with_an_entry_that_waits() -> None:
    play = taken_over(is_queued=True)

    status = decode((play.data(STATUS) or "").encode())
    assert status.counts == {"waiting": 1}
    assert status.topics == (waiting_entry(play),)
    assert play.do("ask list") == [
        "answer orders-0 replicas=[1, 2] adding=[3] removing=[1]",
        "request 1, waiting since 5: its turn: moves are limited",
    ]
    assert play.do("ask list orders-0") == play.do("ask list")
    assert some(play.do("ask status 1"), "request 1", "1 waiting")


def test_a_successor_ends_the_wait_of_an_entry_that_left_the_queue_before_its_status_said_so() -> None:
    play = taken_over()

    assert counts(play) == {"superseded": 1}
    assert play.do("ask list") == ["answer nothing moves"]


def test_a_successor_ends_such_a_wait_also_where_the_topic_can_be_read_only_later() -> None:
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2", "elect")
    status, topic = written(waiting_entry(play)), "/brokers/topics/orders"
    play.theatre.zookeeper.hidden.add(topic)
    play.do(f"znode {ROOT} {{}}", f"znode {STATUS} {status}", "elect", "time +60s")
    assert counts(play) == {"waiting": 1}

    play.theatre.zookeeper.hidden.clear()
    play.do("time +120s")

    assert counts(play) == {"superseded": 1}


def test_the_wait_of_two_requests_for_one_partition_ends_once_for_each() -> None:
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2", "elect")
    both, topic = [written(waiting_entry(play), number) for number in (1, 2)], "/brokers/topics/orders"
    play.theatre.zookeeper.hidden.add(topic)
    play.do(f"znode {ROOT} {{}}", *(f"znode {ROOT}/{n} {status}" for n, status in enumerate(both, 1)))
    play.do("elect", "time +60s")

    play.theatre.zookeeper.hidden.clear()
    play.do("time +120s")

    assert [counts(play, f"{ROOT}/{n}") for n in (1, 2)] == [{"superseded": 1}] * 2


def test_a_successor_sees_that_a_move_has_begun_meanwhile_and_where_it_ends() -> None:
    play = taken_over("ask reassign orders-0 to=3,2", f"remove {STATUS}")
    assert counts(play) == {"in progress": 1}

    play.do("isr orders-0 1,2,3", "time +60s")

    assert counts(play) == {"completed": 1}


def test_a_successor_sees_that_a_topic_was_created_again_meanwhile() -> None:
    play = taken_over(czxid=Zxid(1))

    assert counts(play) == {"deleted": 1}
    assert play.do("ask list") == ["answer nothing moves"]


def test_of_two_entries_left_waiting_for_one_partition_the_later_counts() -> None:
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2", "elect")
    first, second = written(waiting_entry(play)), written(waiting_entry(play, "4,2"), 2)
    play.do("set moves_at_once=0", queued(play, "4,2"))
    play.do(f"znode {ROOT} {{}}", f"znode {STATUS} {first}", f"znode {ROOT}/2 {second}", "elect", "time +60s")

    assert counts(play) == {"superseded": 1}
    assert counts(play, f"{ROOT}/2") == {"waiting": 1}


@pytest.mark.parametrize("field", ["is_waiting", "czxid"])
def test_an_entry_that_does_not_say_in_which_topic_it_waits_does_not_wait(field: str) -> None:
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2", "elect")
    status = msgspec.json.decode(written(waiting_entry(play)))
    (topic,) = status["topics"]
    topic.pop(field, None)
    topic["partitions"][0].pop(field, None)
    text = msgspec.json.encode(status).decode()

    play.do(f"znode {ROOT} {{}}", f"znode {STATUS} {text}", "elect", "time +60s")

    assert counts(play) == {"cancelled": 1}


def test_a_status_without_a_waiting_entry_is_written_as_before() -> None:
    play = Play("brokers 1,2,3,4", "topic orders 0=1,2", "elect", "ask reassign orders-0 to=3,2")

    (topic,) = msgspec.json.decode(play.data(STATUS) or "")["topics"]

    assert topic.keys() == {"topic", "partitions"}
    assert topic["partitions"][0].keys() == {"partition", "replicas", "progress"}
