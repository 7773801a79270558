"""What a person sees of the command."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from metrics.replay.cli import replay
from tests.replay.conftest import CAPTURED
from tests.unit.storage import zk_files as zk


def asked(*arguments: object) -> Result:
    return CliRunner().invoke(replay, [str(argument) for argument in arguments])


def test_the_state_at_a_time_comes_with_the_way_back_to_it(tmp_path: Path) -> None:
    shown = asked(CAPTURED, "--out", tmp_path, "--as-of", "0x40")

    assert shown.exit_code == 0
    assert shown.output.startswith("as of zxid 0x40: 100 topics, 2000 partitions on 11 brokers; 0 moving,")
    written = json.loads((tmp_path / "reassignment-40.json").read_text())
    assert len(written["partitions"]) == 2000


def test_a_difference_is_shown_and_the_way_back_names_only_what_differs(tmp_path: Path) -> None:
    shown = asked(CAPTURED, "--out", tmp_path, "--as-of", 3367, "--diff", 3366)

    assert (
        "bench-00000-0 replicas [1, 2, 3] → [4, 5, 6, 1, 2, 3] (adding [4, 5, 6], removing [1, 2, 3])" in shown.output
    )
    (entry,) = json.loads((tmp_path / "reassignment-d26.json").read_text())["partitions"]
    assert entry == {"topic": "bench-00000", "partition": 0, "replicas": [1, 2, 3]}


def test_damage_is_told_on_the_way(tmp_path: Path) -> None:
    body = zk.header(1, 1) + zk.create("/brokers")
    (tmp_path / "log.1").write_bytes(zk.log(body, body)[:-1])

    shown = asked(tmp_path, "--out", tmp_path, "--as-of", 1)

    assert f"damaged: {tmp_path}/log.1 at byte {len(zk.log(body))}: torn record" in shown.output


def test_mistakes_are_answered_in_one_line(tmp_path: Path) -> None:
    for arguments, answer in (
        ((tmp_path,), f"no log.* or snapshot.* of ZooKeeper at {tmp_path}"),
        ((CAPTURED, "--table", "audits"), "there is no table audits"),
        ((CAPTURED, "--since", "yesterday"), "Invalid isoformat string: 'yesterday'"),
    ):
        shown = asked(*arguments, "--out", tmp_path)

        assert shown.exit_code == 1
        assert shown.output.startswith(f"Error: {answer}")
