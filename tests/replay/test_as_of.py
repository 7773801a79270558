"""`--as-of` gives the state at a time, the way back to it, and the difference between two."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from random import Random

import pytest

from metrics.replay.commands.as_of import (
    as_reassignment_json,
    changed_partitions,
    cluster_at,
    differences,
    folded,
    moment,
)
from metrics.replay.files.sources import NothingToRead, stored_files
from metrics.replay.files.state import END_OF_TIME, History, history_rows, state_at, survey
from zk_layout.facts import Fact
from zk_layout.storage.cluster_facts import facts, facts_of
from zk_layout.storage.tree import Tree

FIXTURES = Path(__file__).parents[1] / "fixtures"
CAPTURED = FIXTURES / "storage"


@pytest.fixture(scope="module")
def captured() -> History:
    return survey(stored_files([str(CAPTURED)]))


def test_a_moment_is_a_zxid_or_a_time(captured: History) -> None:
    assert moment(captured, "0x12") == moment(captured, "18") == 18
    assert moment(captured, "2026-11-21T08:06:44.471+00:00") == 18
    assert moment(captured, "2026-11-21T09:06:44.471+01:00") == 18
    for before in ("1999-01-01", "0"):
        with pytest.raises(ValueError, match=r"is before the history begins: zxid 0x1, at 2026-11-21T08:0"):
            moment(captured, before)
    with pytest.raises(ValueError, match="tomorrow"):
        moment(captured, "tomorrow")


def test_the_state_in_the_middle_of_the_moves(captured: History) -> None:
    state = cluster_at(captured, [], moment(captured, "2026-11-21T08:07:20"))

    assert state.sentence == (
        "100 topics, 2000 partitions on 11 brokers; 1623 moving, 0 under-replicated, 0 leaderless; "
        "controller 0, epoch 1"
    )


def test_the_way_back_names_exactly_what_differs(captured: History) -> None:
    before, after = cluster_at(captured, [], 64), cluster_at(captured, [])
    back = json.loads(as_reassignment_json(before, changed_partitions(before, after)))

    assert len(back["partitions"]) == 2000
    assert back["partitions"][0]["replicas"] == list(before.assignments[min(before.assignments)].target)
    assert json.loads(as_reassignment_json(before, changed_partitions(before, before)))["partitions"] == []


def test_a_difference_is_one_line_each(captured: History) -> None:
    before, after = cluster_at(captured, [], 3367 - 1), cluster_at(captured, [], 3367)

    assert list(differences(before, after)) == [
        "bench-00000-0 replicas [1, 2, 3] → [4, 5, 6, 1, 2, 3] (adding [4, 5, 6], removing [1, 2, 3])"
    ]
    assert list(differences(after, after)) == []


def logged(history: History, until: int, chroot: str) -> Iterator[Fact]:
    """The state after each transaction, in the order of the log; a transaction may write a znode twice."""
    tree = Tree()
    for zxid, rows in groupby(history_rows(history, []), key=lambda row: row[0]):
        if zxid > until:
            return
        changed = {change.path: change for row in rows for change in tree.apply(row)}
        yield from facts(changed.values(), zxid, chroot)


@pytest.mark.parametrize(("version", "chroot"), [("2.4.1", ""), ("2.8.2", "/kafka")])
def test_the_state_is_that_of_following_the_log_and_of_reading_the_znodes_in_any_order(
    version: str, chroot: str
) -> None:
    history = survey(stored_files([str(FIXTURES / "native" / f"kafka-{version}")]))
    moments = [*range(1, history.last_zxid, 20), END_OF_TIME]
    shuffled = Random(version)

    for as_of in moments:
        state = cluster_at(history, [], as_of, chroot)
        seen = list(facts_of(state_at(history, [], as_of), chroot))
        shuffled.shuffle(seen)

        assert folded(logged(history, as_of, chroot), state.zxid) == state
        assert folded(seen, state.zxid) == state
    assert cluster_at(history, [], END_OF_TIME, chroot).topics == {"orders", "payments"}


def test_a_directory_without_files_of_zookeeper_is_refused(tmp_path: Path) -> None:
    (tmp_path / "acceptedEpoch").write_text("1")

    with pytest.raises(NothingToRead, match=str(tmp_path)):
        stored_files([str(tmp_path)])
