"""Plans are shown, written, and executed exactly as they were shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controller.__main__ import main
from controller.reassign.cluster import Node
from controller.reassign.planning.certified import rounded
from controller.reassign.plans import read_plan
from tests.unit.reassign.simulated import SimulatedCluster, at

NOWHERE = ("--bootstrap-server", "127.0.0.1:1")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    found = SimulatedCluster({"a-0": (1, 2), "a-1": (2, 3), "b-0": (3, 1)})
    monkeypatch.setattr("controller.reassign.command.connect", lambda *_: found)
    monkeypatch.setattr("controller.reassign.planning_command.connect", lambda *_: found)
    return found


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, *NOWHERE])


def planned(path: Path, *arguments: str) -> Result:
    return run("plan", *(arguments or ("drain", "3")), "--plan-file", str(path))


def execute(path: Path, *arguments: str) -> Result:
    return run("reassign", "--execute", "--reassignment-json-file", str(path), *arguments)


def test_a_plan_is_shown_and_changes_nothing(cluster: SimulatedCluster, tmp_path: Path) -> None:
    result = planned(tmp_path / "plan.json")

    assert result.exit_code == 0
    assert result.output.splitlines()[0] == (
        "drain broker 3: moves 200 bytes in 2 replicas of 2 partitions of 2 topics; no plan can do with less"
    )
    assert cluster.moves == {}


def test_the_file_is_kafkas_with_a_part_that_its_tools_skip(cluster: SimulatedCluster, tmp_path: Path) -> None:
    planned(tmp_path / "plan.json")

    written = json.loads((tmp_path / "plan.json").read_bytes())
    assert written["version"] == 1
    assert [sorted(p) for p in written["partitions"]] == [["log_dirs", "partition", "replicas", "topic"]] * 2
    assert read_plan((tmp_path / "plan.json").read_bytes(), "plan.json").certificate is not None
    assert cluster.looks == 1


def test_what_was_shown_is_what_is_executed(cluster: SimulatedCluster, tmp_path: Path) -> None:
    cluster.ids = {"a": "id-1", "b": "id-2"}
    planned(tmp_path / "plan.json")

    result = execute(tmp_path / "plan.json")

    assert result.exit_code == 0, result.output
    targets = read_plan((tmp_path / "plan.json").read_bytes(), "plan.json").targets
    assert {partition: move.target for partition, move in cluster.moves.items()} == targets


def test_what_has_changed_since_is_named_and_nothing_starts(cluster: SimulatedCluster, tmp_path: Path) -> None:
    planned(tmp_path / "plan.json")
    cluster.assignments[at("a-1")] = (1, 3)

    result = execute(tmp_path / "plan.json")

    assert result.exit_code == 1
    assert "nothing was started; --partial executes the other 1:" in result.stderr
    assert "a-1: it had the replicas 2,3, and has 1,3" in result.stderr
    assert cluster.moves == {}


def test_the_rest_may_be_executed(cluster: SimulatedCluster, tmp_path: Path) -> None:
    planned(tmp_path / "plan.json")
    cluster.assignments[at("a-1")] = (1, 3)

    result = execute(tmp_path / "plan.json", "--partial")

    assert result.exit_code == 0
    assert "a-1: it had the replicas 2,3, and has 1,3" in result.stderr
    assert set(cluster.moves) == {at("b-0")}


def test_a_topic_of_the_same_name_is_another_one(cluster: SimulatedCluster, tmp_path: Path) -> None:
    cluster.ids = {"a": "id-1"}
    planned(tmp_path / "plan.json")
    cluster.ids = {"a": "id-9"}

    result = execute(tmp_path / "plan.json")

    assert "a-1: the topic was deleted and created again" in result.stderr
    assert result.exit_code == 1


def test_partitions_that_are_gone_and_those_that_are_there_already(cluster: SimulatedCluster, tmp_path: Path) -> None:
    planned(tmp_path / "plan.json")
    targets = read_plan((tmp_path / "plan.json").read_bytes(), "plan.json").targets
    cluster.assignments[at("a-1")] = targets[at("a-1")]
    del cluster.assignments[at("b-0")]

    result = execute(tmp_path / "plan.json", "--partial")

    assert "a-1: it has the replicas of the plan already" in result.stderr
    assert "b-0: it does not exist any more" in result.stderr
    assert result.exit_code == 1


def test_a_file_that_was_changed_by_hand_is_not_the_plan(cluster: SimulatedCluster, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    planned(path)
    written = json.loads(path.read_bytes())
    written["partitions"][0]["replicas"] = [4, 1]
    path.write_text(json.dumps(written))

    refused = execute(path)
    del written["plan"]
    path.write_text(json.dumps(written))

    assert "not the plan that was shown" in refused.stderr
    assert execute(path).exit_code == 0
    assert len(cluster.moves) == 2


def test_partial_is_for_plans_only(cluster: SimulatedCluster, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1]}]}')

    result = execute(path, "--partial")

    assert "was not made by `kafka-zk-controller plan`" in result.stderr
    assert result.exit_code == 2
    assert cluster.moves == {}


def test_the_same_cluster_gives_the_same_plan(cluster: SimulatedCluster, tmp_path: Path) -> None:
    planned(tmp_path / "one.json")
    planned(tmp_path / "two.json")

    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert cluster.moves == {}


def test_sizes_that_grow_a_little_do_not_change_a_plan() -> None:
    assert rounded(1_234_567) == rounded(1_239_999) == 1_200_000


def test_a_program_gets_everything_in_one_document(cluster: SimulatedCluster) -> None:
    result = run("plan", "drain", "3", "--output", "json", "--throttle", "10")

    document = json.loads(result.output)
    assert (document["moved_bytes"], document["least_bytes"], document["seconds"]) == (200, 200, 20.0)
    assert document["plan"]["plan"]["hash"] == document["hash"]
    assert [row["broker"] for row in document["brokers"]] == [1, 2, 3, 4]
    assert cluster.moves == {}


@pytest.mark.parametrize(
    ("goal", "first"),
    [
        (("replace", "3", "--with", "4"), "replace broker 3 with 4: moves 200 bytes"),
        (("add", "4", "--slack", "0"), "add broker 4: moves 100 bytes"),
        (("balance", "--by", "counts", "--slack", "0"), "balance counts: moves 100 bytes"),
        (("racks",), "repair racks: nothing has to change"),
        (("leaders",), "balance leaders: nothing has to change"),
        (("replication-factor", "--replication-factor", "3", "--topic", "a"), "replication factor 3: moves 200 bytes"),
    ],
)
def test_every_goal(cluster: SimulatedCluster, goal: tuple[str, ...], first: str) -> None:
    result = run("plan", *goal)

    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(first)
    assert cluster.moves == {}


@pytest.mark.parametrize(
    ("arguments", "reason", "code"),
    [
        (("replication-factor", "--replication-factor", "3"), "needs --topic", 2),
        (("replace", "3", "--with", "3"), "a broker cannot take its own place", 2),
        (("drain", "3,x"), "not a list of broker ids", 2),
        (("drain", "7"), "brokers to leave are unknown: 7", 1),
        (("drain", "3", "--topic", "z"), "Topic z not found.", 1),
        (("replication-factor", "--replication-factor", "9", "--topic", "a"), "every broker that may have", 1),
    ],
)
def test_what_cannot_be_planned_is_refused(
    cluster: SimulatedCluster, arguments: tuple[str, ...], reason: str, code: int
) -> None:
    result = run("plan", *arguments)

    assert reason in result.stderr
    assert result.exit_code == code
    assert cluster.moves == {}


def test_partitions_that_move_are_left_out_and_named(cluster: SimulatedCluster) -> None:
    cluster.alter({at("a-1"): (2, 4)})

    result = run("plan", "drain", "3")

    assert "left out, because they move: a-1" in result.stderr
    assert "in 1 replica of 1 partition" in result.stdout


def test_sizes_that_no_broker_reports_are_named(cluster: SimulatedCluster) -> None:
    cluster.assignments[at("c-0")] = (9, 8)
    cluster.live[4] = Node("localhost", 9004)

    assert "their sizes are unknown, and taken for the median: c-0" in run("plan", "drain", "3").stderr


def test_one_option_names_the_cluster() -> None:
    result = CliRunner().invoke(main, ["plan", "racks"])

    assert "give --bootstrap-server or --config" in result.stderr
    assert result.exit_code == 2
