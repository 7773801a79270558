"""The state at a time, the way back to it, and the difference between two."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metrics.replay.as_of import as_reassignment_json, changed_partitions, cluster_at, differences, moment
from metrics.replay.sources import NothingToRead, stored_files
from metrics.replay.state import History, survey

CAPTURED = Path(__file__).parents[1] / "fixtures" / "storage"


@pytest.fixture(scope="module")
def captured() -> History:
    return survey(stored_files([str(CAPTURED)]))


def test_a_moment_is_a_zxid_or_a_time(captured: History) -> None:
    assert moment(captured, "0x12") == moment(captured, "18") == 18
    assert moment(captured, "2026-11-21T08:06:44.471+00:00") == 18
    assert moment(captured, "2026-11-21T09:06:44.471+01:00") == 18
    assert moment(captured, "1999-01-01") == 0
    with pytest.raises(ValueError, match="tomorrow"):
        moment(captured, "tomorrow")


def test_the_state_in_the_middle_of_the_moves(captured: History) -> None:
    state = cluster_at(captured, [], moment(captured, "2026-11-21T08:07:20"))

    assert state.sentence == (
        "100 topics, 2000 partitions on 11 brokers; 1623 moving, 1592 under-replicated, 0 leaderless; "
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


def test_a_directory_without_files_of_zookeeper_is_refused(tmp_path: Path) -> None:
    (tmp_path / "acceptedEpoch").write_text("1")

    with pytest.raises(NothingToRead, match=str(tmp_path)):
        stored_files([str(tmp_path)])
