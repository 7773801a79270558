"""The story of one partition around one time, in a few lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from metrics.replay.commands.ask import Story, story
from metrics.replay.commands.cli import replay

NATIVE = Path(__file__).parents[1] / "fixtures" / "native"
LOG = str(NATIVE / "kafka-2.4.1")


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(replay, ["ask", *arguments])


def story_of(partition: str, when: str) -> Story:
    return story([LOG], partition, when)


def test_a_move_is_told_with_who_asked_for_it_and_what_each_stage_waited_for() -> None:
    assert list(story_of("orders-0", "2026-11-21T19:13:21.300").lines) == [
        "orders-0 at 2026-11-21T19:13:21.300: leader 1, ISR [1, 2], replicas [3, 2, 1]",
        "last written at 2026-11-21T19:13:21.231000+00:00: leader 1 of orders-0 must get the replicas [3, 2, 1]",
        "moved from [1, 2] to [3, 2]: 2026-11-21T19:13:21.217000+00:00 to 2026-11-21T19:13:21.644000+00:00, 427 ms, "
        "finished",
        "asked of the controller by a request (AlterPartitionReassignments); written by controller 1 at "
        "PLAINTEXT://127.0.0.1:17298, controller epoch 1",
        "catching up took 374 ms: 3 was in sync after 374 ms",
        "handing over took 48 ms: leader 1 → 3, ISR [2, 3]",
        "letting go took 5 ms: until the topic's znode no longer named [1]",
    ]


def test_a_move_by_znode_names_the_client_that_wrote_it() -> None:
    lines = list(story_of("orders-1", "0xaa").lines)

    assert any(
        line.startswith("asked by /admin/reassign_partitions by a client of ZooKeeper that is no broker (session 0x")
        for line in lines
    )


def test_what_was_not_there_meanwhile_is_told() -> None:
    move = story_of("gone-0", "0x8a").move

    assert move is not None
    assert (move.outcome, [stage.why for stage in move.stages]) == ("cancelled", ["3 never was in sync"])
    assert move.meanwhile == ("broker 3 was not there for 121 ms",)


def test_a_partition_that_went_and_one_that_never_moved() -> None:
    assert story_of("gone-0", "100000").replicas is None
    assert list(story_of("payments-0", "0x90").lines)[-1] == "no move had begun"


def test_a_program_gets_the_same() -> None:
    shown = asked(LOG, "orders-0", "0x70", "--json")

    assert json.loads(shown.stdout)["move"]["written_by"]["host"] == "PLAINTEXT://127.0.0.1:17298"
    assert asked(LOG, "orders-0", "0x70").stdout.count("\n") == 7


@pytest.mark.parametrize(
    ("partition", "when", "answer"),
    [
        ("orders", "5", "orders is no partition: write one as orders-0"),
        ("orders-99", "0x90", "orders-99 is not known at 0x90"),
        ("orders-0", "soon", "soon is no time"),
    ],
)
def test_what_cannot_be_told_is_said_in_one_line(partition: str, when: str, answer: str) -> None:
    shown = asked(LOG, partition, when)

    assert (shown.exit_code, shown.output.count("\n")) == (1, 1)
    assert shown.output.startswith(f"Error: {answer}")
