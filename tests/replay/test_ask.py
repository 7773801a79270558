"""The story of one partition around one time, in a few lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from metrics.replay.commands.ask import Story, story
from metrics.replay.commands.cli import replay
from tests.unit.storage import zk_files as zk
from zk_layout.storage import operations as ops

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
    gone = story_of("gone-0", "0x17e")

    assert gone.replicas is None
    assert gone.deleted_at is not None
    assert f"deleted at {gone.deleted_at}" in gone.lines
    assert list(story_of("payments-0", "0x90").lines)[-1] == "no move had begun"


def topic(*replicas: int, adding: Sequence[int] = (), removing: Sequence[int] = ()) -> bytes:
    held = {"partitions": {"0": replicas}, "adding_replicas": {"0": adding}, "removing_replicas": {"0": removing}}
    return json.dumps({**held, "version": 3, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}).encode()


def state(leader: int, *isr: int) -> bytes:
    return json.dumps({"controller_epoch": 1, "leader": leader, "version": 1, "leader_epoch": 0, "isr": isr}).encode()


def test_a_move_of_a_former_topic_of_the_same_name_is_not_the_partitions(tmp_path: Path) -> None:
    at = "/brokers/topics/t"
    paths = (at, f"{at}/partitions", f"{at}/partitions/0", f"{at}/partitions/0/state")

    def born(*held: bytes) -> list[tuple[int, bytes]]:
        return [
            (ops.CREATE, zk.create(path, data)) for path, data in zip(paths, (held[0], b"", b"", held[1]), strict=True)
        ]

    parts = [
        (ops.CREATE, zk.create("/brokers")), (ops.CREATE, zk.create("/brokers/topics")),
        *born(topic(1, 2), state(1, 1, 2)),
        (ops.SET_DATA, zk.set_data(at, topic(2, 3, 1, adding=[3], removing=[1]), 1)),
        (ops.SET_DATA, zk.set_data(paths[3], state(2, 2, 3), 1)),
        (ops.SET_DATA, zk.set_data(at, topic(2, 3), 2)),
        *((ops.DELETE, zk.delete(path)) for path in reversed(paths)), *born(topic(3, 1), state(3, 3, 1)),
    ]  # fmt: skip
    bodies = [zk.header(n, op, time_ms=1_700_000_000_000 + n) + body for n, (op, body) in enumerate(parts, 1)]
    (tmp_path / "log.1").write_bytes(zk.log(*bodies))

    def told(zxid: int) -> str:
        return "\n".join(story([str(tmp_path)], "t-0", str(zxid)).lines)

    assert "moved from [1, 2] to [2, 3]" in told(9)
    assert "moved from [1, 2] to [2, 3]" in told(13)
    assert "deleted at 2023-11-14T22:13:20.010000" in told(10)
    again = told(len(parts))
    assert "created at 2023-11-14T22:13:20.014000+00:00; a topic of this name had been deleted before" in again
    assert again.endswith("no move had begun")


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
