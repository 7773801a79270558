"""What does the log say of requests and their outcomes, and how much of it?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from controller.core.messages.effects import Answer, Record, Recorded
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked, CallId
from controller.core.messages.replies import (
    LeadersElected,
    PartitionResult,
    ReassignmentsAltered,
    ReassignmentsListed,
    Reply,
    ScramCredentialsAltered,
    TopicCreated,
    TopicsCreated,
    UserAltered,
)
from controller.core.messages.requests import (
    AlterReassignments,
    AlterScramCredentials,
    Caller,
    CreateTopics,
    ElectLeaders,
    ListReassignments,
    NewTopic,
    PartitionReassignment,
    Request,
    ScramUpsertion,
)
from controller.monitoring.audit_trail import MOST_A_SECOND, AuditTrail, request_line
from controller.runtime.pump import NO_TIME
from zk_layout.ids import BrokerId, PartitionId, RequestId, TopicName, TopicPartition

CALLER = Caller("OUTSIDE", "10.0.0.5", "admin-1", "User:ann")


class Timer:
    def cancel(self) -> None:
        pass


class Bell:
    """Rings on request."""

    def __init__(self) -> None:
        self.rings: list[Callable[[], None]] = []

    def __call__(self, _after_s: float, ring: Callable[[], None]) -> Timer:
        self.rings.append(ring)
        return Timer()


def at(number: int) -> TopicPartition:
    return TopicPartition(TopicName("orders"), PartitionId(number))


def moves(count: int) -> AlterReassignments:
    return AlterReassignments(tuple(PartitionReassignment(at(n), (BrokerId(1),)) for n in range(count)))


def asked(request: Request, call: int = 1, caller: Caller = CALLER) -> Asked:
    return Asked(CallId(call), request, caller)


@pytest.mark.parametrize(
    ("request_made", "reply", "line"),
    [
        (
            moves(2),
            ReassignmentsAltered((PartitionResult(at(0)), PartitionResult(at(1))), request_id=RequestId(7)),
            "AlterReassignments(orders-0, orders-1) by User:ann at 10.0.0.5 with client id 'admin-1': "
            "done, request id 7",
        ),
        (
            moves(100),
            ReassignmentsAltered(
                (
                    PartitionResult(at(0), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
                    *(PartitionResult(at(n)) for n in range(1, 100)),
                ),
                request_id=RequestId(8),
            ),
            "AlterReassignments(orders-0, orders-1, orders-2, orders-3, orders-4, 95 more) by User:ann at "
            "10.0.0.5 with client id 'admin-1': 99 done, request id 8, 1 not; "
            "orders-0: INVALID_REPLICA_ASSIGNMENT (no such broker)",
        ),
        (
            ElectLeaders(None),
            LeadersElected((), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            "ElectLeaders(all partitions) by User:ann at 10.0.0.5 with client id 'admin-1': "
            "CLUSTER_AUTHORIZATION_FAILED",
        ),
        (
            CreateTopics((NewTopic(TopicName("new")),), is_validation_only=True),
            TopicsCreated((TopicCreated(TopicName("new"), ErrorCode.TOPIC_ALREADY_EXISTS, "it is there"),)),
            "CreateTopics(new, validation only) by User:ann at 10.0.0.5 with client id 'admin-1': "
            "new: TOPIC_ALREADY_EXISTS (it is there)",
        ),
    ],
)
def test_a_request_is_one_line(request_made: Request, reply: Reply, line: str) -> None:
    assert request_line(asked(request_made), reply) == line


def test_no_secret_is_shown() -> None:
    request = AlterScramCredentials((ScramUpsertion("bob", 1, 4096, "salt=x,stored_key=y"),))

    line = request_line(asked(request), ScramCredentialsAltered((UserAltered("bob"),)))

    assert "AlterScramCredentials(bob)" in line
    assert "stored_key" not in line


def test_only_changes_of_the_cluster_are_logged_and_only_with_their_answer() -> None:
    trail, listing = AuditTrail(Bell()), ListReassignments(None)
    with capture_logs() as logs:
        trail.turned(0.0, [asked(moves(1)), asked(listing, 2)], [Answer(CallId(2), ReassignmentsListed())], NO_TIME, 0)
        assert logs == []
        trail.turned(1.0, [], [Answer(CallId(1), ReassignmentsAltered((PartitionResult(at(0)),)))], NO_TIME, 0)

    (line,) = logs
    assert (line["log_level"], line["record"]) == ("info", "request")
    assert line["event"].endswith(": done")


def test_what_is_not_answered_when_the_term_ends_is_logged_too() -> None:
    trail = AuditTrail(Bell())
    with capture_logs() as logs:
        trail.turned(0.0, [asked(moves(1))], [], NO_TIME, 0)
        trail.close()

    assert logs[0]["event"].endswith(": not answered before the end of the term")


def test_so_many_lines_a_second_and_then_their_number() -> None:
    bell = Bell()
    trail = AuditTrail(bell)
    with capture_logs() as logs:
        trail.record(Recorded(Record.ELECTION, ("a", "b", "c", "d", "e"), 1000))
        trail.record(Recorded(Record.ELECTION, ("f",), 1))
        trail.record(Recorded(Record.MOVE, ("g",), 1))
        (ring,) = bell.rings
        ring()
        trail.record(Recorded(Record.ELECTION, ("h",), 1))

    assert [line["event"] for line in logs] == [*"abcde", "g", "996 more elections within a second", "h"]
    assert len(bell.rings) == 2
    assert MOST_A_SECOND == 5


def test_the_end_of_a_term_sums_up() -> None:
    trail = AuditTrail(Bell())
    with capture_logs() as logs:
        trail.record(Recorded(Record.TOPIC, ("a",), 3))
        trail.close()

    assert [line["event"] for line in logs] == ["a", "2 more changes of topics within a second"]
