"""What each action asks of a cluster, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from controller.reassign import executing
from controller.reassign.answer import Answer
from controller.reassign.cancelling import Cancellation, cancel
from controller.reassign.cluster import NOTHING_ADDED, Added, Configured, Directories, Kind, Mode, Move, Node
from controller.reassign.executing import Execution, execute
from controller.reassign.generating import Proposal, generate
from controller.reassign.listing import show_moves
from controller.reassign.plans import Replica
from controller.reassign.refusals import DONE, FAILED, Refused, Unusable
from controller.reassign.selecting import Selection
from controller.reassign.verifying import verify
from tests.unit.reassign.simulated import Hours, SimulatedCluster, at, plan_file, status
from zk_layout.ids import RequestId
from zk_layout.znodes.reassignment_status import MoveProgress

OURS = "kafka-zk-controller 0.1"


def fresh(*, product: str | None = None) -> SimulatedCluster:
    return SimulatedCluster({"a-0": (1, 2), "a-1": (2, 3), "b-c-0": (3, 1)}, product=product)


def executed(cluster: SimulatedCluster, path: Path, **asked: Any) -> dict[str, Any]:
    answer = Answer(is_json=True)
    execute(cluster, Execution(path, **asked), answer, Hours().clock)
    return answer.document


def test_the_way_back_is_said_before_anything_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = fresh()
    cluster.refusing[at("a-0")] = "no"

    with pytest.raises(Refused, match="Error reassigning partition"):
        execute(
            cluster,
            Execution(plan_file(tmp_path, {"a-0": (3, 2), "a-1": (1, 3)})),
            Answer(is_json=False),
            Hours().clock,
        )

    said = capsys.readouterr().out.splitlines()
    assert json.loads(said[2])["partitions"][0]["replicas"] == [1, 2]
    assert said[-1] == "Successfully started partition reassignment for a-1"


def test_each_partition_is_answered_for_itself(tmp_path: Path) -> None:
    cluster, answer = fresh(), Answer(is_json=True)
    cluster.refusing[at("a-0")] = "no"

    with pytest.raises(Refused, match="a-0: no"):
        execute(cluster, Execution(plan_file(tmp_path, {"a-0": (3, 2), "a-1": (1, 3)})), answer, Hours().clock)

    assert answer.document["refused"] == {"a-0": "no"}
    assert answer.document["started"] == [{"topic": "a", "partition": 1}]


def test_everything_unknown_is_named_at_once_and_nothing_begins(tmp_path: Path) -> None:
    cluster = fresh()
    del cluster.live[1]

    with pytest.raises(Refused) as refused:
        executed(cluster, plan_file(tmp_path, {"a-0": (1, 77), "a-9": (2,), "x-0": (2,)}))

    assert str(refused.value).splitlines() == [
        "Unknown broker ids 1,77; alive are 2,3,4",
        "broker 1: hosting replicas, but not alive; start it first",
        "Topic x not found.",
        "Unable to find partition: a-9",
    ]
    assert cluster.modes == []


def test_a_second_plan_needs_additional_and_then_supersedes(tmp_path: Path) -> None:
    cluster, path = fresh(), plan_file(tmp_path, {"a-0": (3, 2)})
    executed(cluster, path)

    with pytest.raises(Refused, match="Use --additional to override"):
        executed(cluster, path)
    executed(cluster, plan_file(tmp_path, {"a-0": (4, 2)}), additional=True)

    assert cluster.moves[at("a-0")] == Move((4, 2, 1), (4,), (1,))


def test_our_controller_gets_the_throttle_with_the_request_and_no_settings_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = fresh()
    cluster.product = "kafka-zk-controller 0.1"

    execute(
        cluster,
        Execution(plan_file(tmp_path, {"a-0": (3, 2)}), throttle=5000),
        Answer(is_json=False),
        Hours().clock,
    )

    assert cluster.added == [Added(throttle=5000)]
    assert cluster.configs == {}
    said = capsys.readouterr()
    assert "It holds for receiving replicas only; the controller ends it with their moves" in said.out
    assert said.err == ""


def test_kafkas_controller_gets_none_and_what_its_throttle_costs_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = fresh()

    execute(
        cluster,
        Execution(plan_file(tmp_path, {"a-0": (3, 2)}), throttle=5000),
        Answer(is_json=False),
        Hours().clock,
    )

    assert cluster.added == [NOTHING_ADDED]
    assert "leader.replication.throttled.rate" in cluster.configs[Configured(Kind.BROKER, "1")]
    said = capsys.readouterr()
    assert "they also slow down replicas of these partitions that return after a failure" in said.err
    assert "You must run --verify periodically" in said.err


def test_only_our_controller_gets_a_reason_and_a_time_to_give_up_and_otherwise_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, kafkas = fresh(), fresh()
    ours.product = "kafka-zk-controller 0.1"

    for cluster in (ours, kafkas):
        asked = Execution(plan_file(tmp_path, {"a-0": (3, 2)}), reason="disks", give_up_ms=0)
        execute(cluster, asked, Answer(is_json=False), Hours().clock)

    assert (ours.added, kafkas.added) == ([Added(reason="disks", give_up_ms=0)], [NOTHING_ADDED])
    assert capsys.readouterr().err.splitlines() == [executing.NO_REASON_KEPT, executing.NOTHING_WAITS]


def test_only_our_controller_gets_the_weights_of_a_file_and_otherwise_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, kafkas = fresh(), fresh()
    ours.product = "kafka-zk-controller 0.1"
    path = tmp_path / "weighted.json"
    path.write_text(
        '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[3,2],"weight":-5},'
        '{"topic":"a","partition":1,"replicas":[4,3]}]}'
    )

    for cluster in (ours, kafkas):
        execute(cluster, Execution(path), Answer(is_json=False), Hours().clock)

    assert (ours.added, kafkas.added) == ([Added(weights={at("a-0"): -5})], [NOTHING_ADDED])
    assert capsys.readouterr().err.splitlines() == [executing.NO_WEIGHTS]


def test_throttles_name_the_sources_and_destinations_of_old_and_new_moves(tmp_path: Path) -> None:
    cluster = fresh()
    executed(cluster, plan_file(tmp_path, {"a-1": (4, 3)}))

    executed(cluster, plan_file(tmp_path, {"a-0": (3, 2)}), additional=True, throttle=5000)

    assert cluster.configs[Configured(Kind.TOPIC, "a")] == {
        "leader.replication.throttled.replicas": "0:1,0:2,1:2,1:3",
        "follower.replication.throttled.replicas": "0:3,1:4",
    }
    rates = {"leader.replication.throttled.rate": "5000", "follower.replication.throttled.rate": "5000"}
    assert {of.name: settings for of, settings in cluster.configs.items() if of.kind is Kind.BROKER} == dict.fromkeys(
        "1234", rates
    )


def test_a_directory_is_asked_for_until_the_replica_is_there(tmp_path: Path) -> None:
    cluster, hours = fresh(), Hours()
    cluster.waiting_for_replica[Replica(3, "a", 0)] = 4
    path = plan_file(tmp_path, {"a-0": (3, 2)}, a_0=("/disk2", "any"))

    execute(cluster, Execution(path, log_dirs_throttle=9), Answer(is_json=True), hours.clock)

    assert hours.seconds == pytest.approx(0.4)
    assert cluster.configs == {
        Configured(Kind.BROKER, "3"): {"replica.alter.log.dirs.io.max.bytes.per.second": "9"},
    }


@pytest.mark.parametrize(
    ("directory", "times", "reason"),
    [
        ("/disk2", 10_000, "Timed out before log directory move could be started for: a-0-3"),
        ("/lost", 0, "Failed to alter dir for a-0-3: not found in the broker config"),
    ],
)
def test_a_directory_that_cannot_be_had_is_said(tmp_path: Path, directory: str, times: int, reason: str) -> None:
    cluster = fresh()
    cluster.waiting_for_replica[Replica(3, "a", 0)] = times

    with pytest.raises(Refused, match=reason):
        executed(cluster, plan_file(tmp_path, {"a-0": (3, 2)}, a_0=(directory, "any")), timeout_ms=2000)


def test_verify_tells_what_is_done_and_removes_throttles_only_when_nothing_moves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = fresh()
    path = plan_file(tmp_path, {"a-0": (3, 2), "a-1": (2, 3), "a-7": (1,)})
    cluster.alter({at("a-0"): (3, 2)})
    throttled = {Configured(Kind.BROKER, "1"): {"leader.replication.throttled.rate": "5"}}
    cluster.configure(throttled)

    verify(cluster, path, preserve_throttles=False, answer=Answer(is_json=False))
    assert capsys.readouterr().out.splitlines() == [
        "Status of partition reassignment:",
        "Reassignment of partition a-0 is still in progress.",
        "Reassignment of partition a-1 is completed.",
        "There is no active reassignment of partition a-7, but replica set is  rather than 1.",
        "",
    ]
    assert cluster.configs == throttled

    cluster.arrive(at("a-0"))
    verify(cluster, path, preserve_throttles=True, answer=Answer(is_json=False))
    assert cluster.configs == throttled
    verify(cluster, path, preserve_throttles=False, answer=Answer(is_json=False))
    assert cluster.configs[Configured(Kind.BROKER, "1")] == {}
    assert "Clearing broker-level throttles on brokers 1,2,3,4" in capsys.readouterr().out


def test_a_dead_broker_keeps_its_throttle_and_that_is_a_failure(tmp_path: Path) -> None:
    cluster, answer = fresh(), Answer(is_json=True)
    path = plan_file(tmp_path, {"a-0": (1, 2)})
    del cluster.live[2]

    verify(cluster, path, preserve_throttles=False, answer=answer)

    assert answer.exit_code == FAILED
    assert "broker 2 were not removed: not alive" in answer.document["warnings"][0]
    assert answer.document["cleared_throttles"]["brokers"] == [1, 3, 4]


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (Directories("/disk1", "/disk2"), "Reassignment of replica a-0-2 is still in progress."),
        (Directories("/disk1", "/disk3"), "is being moved to log dir /disk3 instead of /disk2."),
        (Directories("/disk2"), "Reassignment of replica a-0-2 completed successfully."),
        (Directories("/disk1"), "is not being moved from log dir /disk1 to /disk2."),
        (Directories(), "There is likely an offline log directory on the broker."),
    ],
)
def test_verify_tells_where_a_replica_is_among_directories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], found: Directories, sentence: str
) -> None:
    cluster = fresh()
    cluster.directory_of[Replica(2, "a", 0)] = found

    path = plan_file(tmp_path, {"a-0": (1, 2)}, a_0=("any", "/disk2"))
    verify(cluster, path, preserve_throttles=False, answer=Answer(is_json=False))

    assert sentence in capsys.readouterr().out


def test_cancel_stops_what_of_the_file_moves_also_where_replicas_are_only_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = fresh()
    path = plan_file(tmp_path, {"a-0": (1, 2, 3), "a-1": (2, 3)}, a_0=("any", "/disk2", "any"))
    cluster.alter({at("a-0"): (1, 2, 3), at("b-c-0"): (2, 3)})
    cluster.directory_of[Replica(2, "a", 0)] = Directories("/disk1", "/disk2")

    cancel(cluster, Cancellation(Selection(path)), Answer(is_json=False), Hours().clock)

    assert list(cluster.moves) == [at("b-c-0")]
    said = capsys.readouterr().out
    assert "Successfully cancelled partition reassignment for: a-0\n" in said
    assert "Successfully started moving log directory to /disk1 for replica a-0 with broker 2" in said


@pytest.mark.parametrize(
    ("selection", "left"),
    [
        (Selection(topics=("a",)), ["b-c-0"]),
        (Selection(topics=("a",), partitions=(1,)), ["a-0", "b-c-0"]),
        (Selection(topics=("a", "b-c")), []),
        (Selection(), []),
    ],
)
def test_one_partition_a_topic_or_everything_can_be_cancelled(selection: Selection, left: list[str]) -> None:
    cluster, answer = fresh(), Answer(is_json=True)
    cluster.alter({at("a-0"): (3, 2), at("a-1"): (4, 3), at("b-c-0"): (2, 3)})
    cluster.configure({Configured(Kind.BROKER, "1"): {"leader.replication.throttled.rate": "5"}})

    cancel(cluster, Cancellation(selection), answer, Hours().clock)

    assert [str(p) for p in cluster.moves] == left
    assert len(answer.document["cancelled"]) == 3 - len(left)
    assert bool(cluster.configs[Configured(Kind.BROKER, "1")]) == bool(left)


@pytest.mark.parametrize("mode", list(Mode))
def test_what_only_our_controller_can_is_refused_elsewhere_and_nothing_is_asked(mode: Mode) -> None:
    theirs, ours = fresh(), fresh(product=OURS)
    for cluster in (theirs, ours):
        cluster.alter({at("a-0"): (3, 2)})

    with pytest.raises(Refused, match="needs kafka-zk-controller"):
        cancel(theirs, Cancellation(Selection(), mode), Answer(is_json=True), Hours().clock)
    cancel(ours, Cancellation(Selection(), mode), Answer(is_json=True), Hours().clock)

    assert at("a-0") in theirs.moves
    assert ours.modes[-1] is mode


def test_moves_are_listed_in_order_all_or_some(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = fresh()
    cluster.alter({at("b-c-0"): (3,), at("a-1"): (4, 3)})

    show_moves(cluster, Selection(), None, Answer(is_json=False))
    show_moves(cluster, Selection(topics=("a",), partitions=(0,)), None, Answer(is_json=False))

    assert capsys.readouterr().out.splitlines() == [
        "Current partition reassignments:",
        "a-1: replicas: 4,3,2. adding: 4. removing: 2.",
        "b-c-0: replicas: 3,1. removing: 1.",
        "No partition reassignments found.",
    ]


@pytest.mark.parametrize(
    ("selection", "reason"),
    [
        (Selection(topics=("x",)), "Topic x not found."),
        (Selection(topics=("a",), partitions=(0, 9)), "Unable to find partition: a-9"),
        (Selection(partitions=(0,)), "needs exactly one --topic"),
        (Selection(topics=("a", "b-c"), partitions=(0,)), "needs exactly one --topic"),
    ],
)
def test_a_selection_of_what_is_not_there_is_refused(selection: Selection, reason: str) -> None:
    with pytest.raises((Refused, Unusable), match=reason):
        show_moves(fresh(), selection, None, Answer(is_json=True))


def test_a_request_is_shown_by_our_controller_only() -> None:
    ours, answer = fresh(product=OURS), Answer(is_json=True)
    ours.request = status(7)

    show_moves(ours, Selection(), 7, answer)
    assert answer.document["request"]["counts"] == {"completed": 1}

    ours.request = None
    with pytest.raises(Refused, match="Request 7 is not known"):
        show_moves(ours, Selection(), 7, Answer(is_json=True))
    with pytest.raises(Refused, match="needs kafka-zk-controller"):
        show_moves(fresh(), Selection(), 7, Answer(is_json=True))


def test_of_a_request_only_its_own_moves_are_shown() -> None:
    ours, answer = fresh(product=OURS), Answer(is_json=True)
    ours.alter({at("b-c-0"): (3,), at("a-1"): (4, 3)})
    ours.progress = {
        at("b-c-0"): MoveProgress(RequestId(7), "catching up", 0),
        at("a-1"): MoveProgress(RequestId(8), "catching up", 0),
    }
    ours.request = status(7)

    show_moves(ours, Selection(), 7, answer)

    assert [f"{m['topic']}-{m['partition']}" for m in answer.document["reassignments"]] == ["b-c-0"]


def test_no_replica_is_proposed_or_placed_on_a_controller(tmp_path: Path) -> None:
    cluster = fresh(product=OURS)
    cluster.live[901] = Node("localhost", 9901, is_controller=True)
    (tmp_path / "plan.json").write_text('{"partitions":[{"topic":"a","partition":0,"replicas":[901,2,9]}]}')

    with pytest.raises(Refused) as proposal:
        proposed(cluster, tmp_path, "1,901,9")
    with pytest.raises(Refused) as execution:
        execute(cluster, Execution(tmp_path / "plan.json"), Answer(is_json=True), Hours().clock)

    reasons = [
        "Unknown broker id 9; alive are 1,2,3,4",
        "901 is a controller, which hosts no replicas: remove it",
    ]
    assert str(proposal.value).splitlines() == reasons
    assert str(execution.value).splitlines() == reasons


def proposed(cluster: SimulatedCluster, directory: Path, brokers: str, *, is_rack_aware: bool = True) -> dict[str, Any]:
    path = directory / "topics.json"
    path.write_text('{"version":1,"topics":[{"topic":"a"},{"topic":"b-c"}]}')
    answer = Answer(is_json=True)
    generate(cluster, Proposal(path, brokers, is_rack_aware), answer, Random(1))
    return answer.document


def test_a_proposal_keeps_the_number_of_replicas_and_uses_the_brokers_named(tmp_path: Path) -> None:
    document = proposed(fresh(), tmp_path, "2,3,4")

    assert [p["replicas"] for p in document["current"]["partitions"]] == [[1, 2], [2, 3], [3, 1]]
    assert all(len(set(p["replicas"])) == 2 for p in document["proposed"]["partitions"])
    assert {b for p in document["proposed"]["partitions"] for b in p["replicas"]} <= {2, 3, 4}


def test_replicas_of_a_proposal_are_in_different_racks(tmp_path: Path) -> None:
    cluster = fresh()
    cluster.live = {b: Node("h", 1, rack) for b, rack in ((1, "x"), (2, "x"), (3, "y"), (4, "y"))}

    document = proposed(cluster, tmp_path, "1,2,3,4")

    for partition in document["proposed"]["partitions"]:
        assert {cluster.live[b].rack for b in partition["replicas"]} == {"x", "y"}


def test_racks_known_of_some_brokers_only_must_be_left_out_explicitly(tmp_path: Path) -> None:
    cluster = fresh()
    cluster.live[1] = Node("h", 1, "x")

    with pytest.raises(Refused, match="Add --disable-rack-aware"):
        proposed(cluster, tmp_path, "1,2")
    assert proposed(cluster, tmp_path, "1,2", is_rack_aware=False)


@pytest.mark.parametrize(("brokers", "reason"), [("1,9", "Unknown broker id 9"), ("1", "larger than available")])
def test_a_proposal_that_cannot_be_is_refused(tmp_path: Path, brokers: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        proposed(fresh(), tmp_path, brokers)


def test_an_answer_in_json_is_one_document_whatever_happened(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(is_json=True)
    answer.say("not for programs")
    answer.warn("careful")
    answer.stop(Refused("no"))

    assert answer.end() == FAILED
    assert json.loads(capsys.readouterr().out) == {"warnings": ["careful"], "error": "no"}
    assert Answer(is_json=False).end() == DONE
