"""Moves are followed to their end: how far, how fast, how long still, and how it ended."""

from __future__ import annotations

import io
import json
import os
import re
import sys

import pytest
from rich.console import Console

from controller.reassign.cluster import Move, PartitionState
from controller.reassign.command import reassign
from controller.reassign.progress import Progress, Snapshot
from controller.reassign.refusals import DONE, FAILED, Refused
from controller.reassign.selecting import Selection
from controller.reassign.views import Bars, Documents, Lines, View
from controller.reassign.watching import Watch, first_listing, watch
from tests.unit.reassign.simulated import Hours, SimulatedCluster, at, on, status
from zk_layout.znodes.reassignment_status import MoveProgress, ReplicaProgress


class Recorded:
    """A view that keeps what it is shown."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []

    def __enter__(self) -> Recorded:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)


def followed(cluster: SimulatedCluster, asked: Watch, view: View) -> int:
    return watch(cluster, asked, first_listing(cluster, asked), view, Hours().clock)


def moving(*, product: str | None = None) -> SimulatedCluster:
    cluster = SimulatedCluster({"a-0": (1, 2), "a-1": (2, 3)}, product=product)
    cluster.alter({at("a-0"): (3, 2), at("a-1"): (4, 3)})
    return cluster


def test_bytes_rates_and_time_left_follow_from_the_sizes_of_directories() -> None:
    recorded = Recorded()

    assert followed(moving(), Watch(Selection(), interval_s=2.0), recorded) == DONE

    assert [(s.copied_bytes, s.total_bytes) for s in recorded.snapshots] == [
        (80, 200),
        (160, 200),
        (200, 200),
        (200, 200),
    ]
    second = recorded.snapshots[1]
    assert second.bytes_per_second == pytest.approx(40.0)
    assert second.remaining_seconds == pytest.approx(1.0)
    assert [r.remaining_seconds for one in second.moving for r in one.received] == [pytest.approx(1.0)] * 2
    assert [e.is_complete for e in recorded.snapshots[-1].ended] == [True, True]


def test_what_our_controller_tells_is_taken_as_it_is() -> None:
    cluster, recorded = moving(product="kafka-zk-controller 0.1"), Recorded()
    reported = MoveProgress(7, "catching up", 1, "broker 3 is offline", (ReplicaProgress(3, 5, 10, 2.5, 2.0),))
    cluster.progress = {
        at("a-0"): reported,
        at("a-1"): MoveProgress(8, "catching up", 1, None, (ReplicaProgress(4, 1, 10, 1.0, 9.0),)),
    }
    hours, asked = Hours(), Watch(Selection(), request_id=7)
    cluster.request = status(7)

    class ThatEnds(Recorded):
        def show(self, snapshot: Snapshot) -> None:
            super().show(snapshot)
            cluster.moves.pop(at("a-0"), None)

    recorded = ThatEnds()
    code = watch(cluster, asked, first_listing(cluster, asked), recorded, hours.clock)

    first = recorded.snapshots[0]
    assert (first.copied_bytes, first.total_bytes, first.bytes_per_second, first.remaining_seconds) == (5, 10, 2.5, 2.0)
    assert first.moving[0].waits_for == "broker 3 is offline"
    assert code == FAILED
    assert hours.seconds > 5
    assert [str(e.at) for e in recorded.snapshots[-1].ended] == ["a-0"]


def test_a_move_that_was_cancelled_did_not_arrive(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = moving()
    cluster.step = 0

    class Cancelling(Lines):
        def show(self, snapshot: Snapshot) -> None:
            super().show(snapshot)
            cluster.moves.clear()

    assert followed(cluster, Watch(Selection()), Cancelling()) == FAILED
    assert "partition a-0 has ended, but replica set is 1,2 rather than 3,2." in capsys.readouterr().out


class StoppedAfterTheFirstLook:
    """All moves are cancelled once they have been shown."""

    def __init__(self, cluster: SimulatedCluster, view: View) -> None:
        self._cluster, self._view = cluster, view

    def __enter__(self) -> StoppedAfterTheFirstLook:
        self._view.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._view.__exit__(*raised)

    def show(self, snapshot: Snapshot) -> None:
        self._view.show(snapshot)
        self._cluster.moves.clear()


def test_cancelled_moves_are_not_done_and_what_they_had_not_copied_is_not_copied() -> None:
    cluster, recorded = moving(), Recorded()

    assert followed(cluster, Watch(Selection()), StoppedAfterTheFirstLook(cluster, recorded)) == FAILED

    last = recorded.snapshots[-1]
    assert (last.completed, last.missed, last.moves) == (0, 2, 2)
    assert (last.copied_bytes, last.total_bytes) == (80, 200)


def test_time_left_does_not_count_what_cancelled_moves_had_not_copied() -> None:
    progress = Progress({})
    received = ReplicaProgress(3, 100, 1000, 90.0, 10.0)
    move = Move((1, 3), adding=(3,), progress=MoveProgress(None, "catching up", 0, replicas=(received,)))
    progress.advance(0.0, {at("a-0"): move, at("a-1"): move}, {}, {})

    snapshot = progress.advance(60.0, {at("a-0"): move}, {at("a-1"): PartitionState((1,), (1,), 1)}, {})

    assert snapshot.remaining_seconds == pytest.approx(10.0)


def test_moves_begun_just_now_count_though_they_were_over_before_the_first_look() -> None:
    cluster, recorded = SimulatedCluster({"a-0": (3, 2)}), Recorded()

    assert followed(cluster, Watch(Selection(), expected={at("a-0"): on(3, 2)}), recorded) == DONE
    assert recorded.snapshots[0].moves == 1


def test_brokers_that_still_show_the_old_replicas_are_given_time() -> None:
    cluster, recorded = SimulatedCluster({"a-0": (1, 2)}), Recorded()

    class Late(Recorded):
        def show(self, snapshot: Snapshot) -> None:
            super().show(snapshot)
            if len(self.snapshots) == 3:
                cluster.assignments[at("a-0")] = (3, 2)

    recorded = Late()
    assert followed(cluster, Watch(Selection(), expected={at("a-0"): on(3, 2)}), recorded) == DONE
    assert [s.settling for s in recorded.snapshots] == [1, 1, 1, 0]


def test_an_unknown_request_is_refused_before_anything_is_shown() -> None:
    with pytest.raises(Refused, match="needs kafka-zk-controller"):
        followed(moving(), Watch(Selection(), request_id=3), Recorded())


def test_lines_tell_sums_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    followed(moving(), Watch(Selection(), interval_s=2.0), Lines())

    assert capsys.readouterr().out.splitlines() == [
        "0 of 2 done, 80 bytes of 200 bytes (40%)",
        "0 of 2 done, 160 bytes of 200 bytes (80%), 40 bytes/s, 1 s left",
        "0 of 2 done, 200 bytes of 200 bytes (100%), 30 bytes/s, 0 s left",
        "Reassignment of partition a-0 is completed.",
        "Reassignment of partition a-1 is completed.",
    ]


def test_each_document_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    followed(moving(), Watch(Selection()), Documents())

    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [d["is_done"] for d in documents] == [False, False, False, True]
    assert documents[0]["moving"][0]["received"] == [
        {
            "broker": 3,
            "copied_bytes": 40,
            "total_bytes": 100,
            "bytes_per_second": None,
            "remaining_seconds": None,
            "error": None,
        }
    ]


def test_lines_say_once_what_many_moves_wait_for_and_again_when_that_changes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = SimulatedCluster({f"a-{p}": (1, 2) for p in range(50)}, product="kafka-zk-controller 0.1")
    cluster.alter({at(f"a-{p}"): (3, 2) for p in range(50)})
    cluster.progress = {
        partition: MoveProgress(7, "catching up", 1, "broker 3 is offline") for partition in cluster.moves
    }

    class Ending(Lines):
        looks = 0

        def show(self, snapshot: Snapshot) -> None:
            super().show(snapshot)
            self.looks += 1
            if self.looks == 2:
                for number, partition in enumerate(sorted(cluster.moves)):
                    cluster.progress[partition] = MoveProgress(7, "catching up", 1, f"it is number {number}")
            elif self.looks == 3:
                cluster.moves.clear()

    followed(cluster, Watch(Selection()), Ending())

    lines = capsys.readouterr().out.splitlines()
    total = "0 of 50 done, 0 bytes of 0 bytes (0%)"
    assert lines[:3] == [total, "  a-0 and 49 more: catching up: broker 3 is offline", total]
    assert lines[3:5] == [total, "  a-0: catching up: it is number 0"]
    assert lines[9] == "  45 more wait for other reasons: --list names them"
    assert all("has ended, but replica set is" in line for line in lines[10:])


def drawn(console: Console) -> list[str]:
    """The lines of the last picture, without control codes."""
    assert isinstance(console.file, io.StringIO)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    return text.split("\r")[-1].splitlines()


def terminal(width: int, height: int = 24) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None)


def test_bars_name_cancelled_moves_and_do_not_fill() -> None:
    console, cluster = terminal(120), moving()

    followed(cluster, Watch(Selection()), StoppedAfterTheFirstLook(cluster, Bars(console, None)))

    assert isinstance(console.file, io.StringIO)
    assert "partition a-0 has ended, but replica set is 1,2 rather than 3,2." in console.file.getvalue()
    (total,) = [line for line in drawn(console) if "done" in line]
    assert total.startswith("0 of 2 done")
    assert "40%  80 bytes of 200 bytes" in total
    assert "2 ended without the target replicas" in drawn(console)[-1]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("topic", ["a", "payments.transactions-settled.v3", "x" * 249])
def test_names_are_whole_on_narrow_terminals(width: int, topic: str) -> None:
    console = terminal(width, height=200)
    cluster = SimulatedCluster({f"{topic}-{p}": (1, 2) for p in range(3)})
    cluster.alter({at(f"{topic}-{p}"): (3, 2) for p in range(3)})
    pictures = []

    class Drawing(Bars):
        def show(self, snapshot: Snapshot) -> None:
            super().show(snapshot)
            pictures.append(drawn(console))

    followed(cluster, Watch(Selection()), Drawing(console, None))

    assert all(len(line) <= width for line in pictures[0])
    names = "".join(line.partition(" ")[0] for line in pictures[0])
    for partition in range(3):
        assert f"{topic}-{partition}" in names
    assert "40%" in pictures[0][0]


def test_bars_stay_within_ascii_where_the_terminal_knows_no_more() -> None:
    written = io.BytesIO()
    console = Console(
        file=io.TextIOWrapper(written, encoding="ascii"), force_terminal=True, width=50, color_system=None
    )
    cluster = SimulatedCluster({f"{'y' * 30}-{p}": (1, 2) for p in range(50)})
    cluster.alter({at(f"{'y' * 30}-{p}"): (3, 2) for p in range(50)})

    followed(cluster, Watch(Selection(), interval_s=2.0), Bars(console, None))

    console.file.flush()
    assert b"-0 -> 3" in written.getvalue()
    assert b"... and " in written.getvalue()


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = moving()
    monkeypatch.setattr("controller.reassign.command.connect", lambda *_: cluster)
    monkeypatch.setenv("TERM", "dumb")
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as shown:
        monkeypatch.setattr(sys, "stdout", shown)
        with pytest.raises(SystemExit) as ended:
            reassign.main(["--bootstrap-server", "a:1", "--progress", "--interval", "0.1"], standalone_mode=False)
        written = b""
        while b"a-1 is completed." not in written:
            written += os.read(ours, 100_000)
    os.close(ours)
    lines = written.decode().splitlines()

    assert ended.value.code == DONE
    assert lines[0] == "0 of 2 done, 80 bytes of 200 bytes (40%)"
    assert "Reassignment of partition a-0 is completed." in lines


def test_bars_show_every_receiving_replica_the_sum_and_the_rest_in_one_line() -> None:
    console = terminal(120, height=8)
    cluster = SimulatedCluster({f"a-{p}": (1, 2) for p in range(9)})
    cluster.alter({at(f"a-{p}"): (3, 2) for p in range(9)})

    followed(cluster, Watch(Selection(), interval_s=2.0), Bars(console, "computed here"))

    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    for text in ("a-0 → 3", "… and 6 more", "9 of 9 done", "900 bytes of 900 bytes", "computed here"):
        assert text in shown
