"""Moves are followed to their end: how far, how fast, how long still, and how it ended."""

from __future__ import annotations

import io
import json
import os
import re
import sys

import pytest
from rich.console import Console

from controller.reassign.cluster import Configured, Directories, Kind, Move, PartitionState
from controller.reassign.command import reassign
from controller.reassign.outlook import outlook
from controller.reassign.plans import Replica
from controller.reassign.progress import Progress, Snapshot
from controller.reassign.refusals import DONE, FAILED, Refused
from controller.reassign.selecting import Selection
from controller.reassign.throttles import FOLLOWER_RATE
from controller.reassign.views import Bars, Documents, Lines, View, summary
from controller.reassign.watching import Watch, first_listing, look, watch
from tests.unit.reassign.simulated import Hours, SimulatedCluster, at, on, status
from tests.unit.throttled_series import PARTITIONS, recorded
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

    assert followed(moving(), Watch(Selection(), interval_s=12.0), recorded) == DONE

    assert [(s.copied_bytes, s.total_bytes) for s in recorded.snapshots] == [
        (80, 200),
        (160, 200),
        (200, 200),
        (200, 200),
    ]
    assert recorded.snapshots[0].remaining_seconds is None
    second = recorded.snapshots[1]
    assert second.bytes_per_second == pytest.approx(80 / 12)
    assert second.remaining_seconds == pytest.approx(6.0)
    assert [r.remaining_seconds for one in second.moving for r in one.received] == [pytest.approx(6.0)] * 2
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
    assert (first.copied_bytes, first.total_bytes, first.bytes_per_second) == (5, 10, 2.5)
    assert first.moving[0].received[0].remaining_seconds == 2.0
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

    def move(copied: int) -> Move:
        received = ReplicaProgress(3, copied, 1000)
        return Move((1, 3), adding=(3,), progress=MoveProgress(None, "catching up", 0, replicas=(received,)))

    for second in range(12):
        progress.advance(float(second), {at("a-0"): move(50 * second), at("a-1"): move(0)}, {}, {})
    states = {at("a-1"): PartitionState((1,), (1,), 1)}
    for second in range(12, 18):
        progress.advance(float(second), {at("a-0"): move(50 * second)}, states, {})
    snapshot = progress.advance(18.0, {at("a-0"): move(900)}, states, {})

    assert snapshot.remaining_seconds == pytest.approx(2.0)


def test_waiting_moves_are_counted_apart() -> None:
    begun = Move(
        (1, 3), adding=(3,), progress=MoveProgress(None, "catching up", 0, replicas=(ReplicaProgress(3, 5, 9),))
    )
    waits = Move((1, 2), adding=(3,), progress=MoveProgress(None, "waiting", 0))

    snapshot = Progress({}).advance(0.0, {at("a-0"): begun, at("a-1"): waits}, {}, {})

    assert summary(snapshot) == (
        "0 of 2 done, 5 bytes of 9 bytes (55%), time left not known yet, 1 wait and are not in these figures"
    )


def followed_at(copied: int, grown: int, seconds: int, throttle: int | None = None) -> Snapshot:
    """One replica that copies so much a second, while its leader's log grows."""
    cluster, progress = moving(product="kafka-zk-controller 0.1"), Progress({})
    if throttle is not None:
        cluster.configure({Configured(Kind.BROKER, "3"): {FOLLOWER_RATE: str(throttle)}})
    hours, snapshot = Hours(), Progress({}).advance(0.0, {}, {}, {})
    for second in range(seconds):
        received = ReplicaProgress(3, copied * second, 10_000_000 + grown * second)
        move = Move((1, 3), adding=(3,), progress=MoveProgress(None, "catching up", 0, replicas=(received,)))
        snapshot = look(cluster, progress, {at("a-0"): move}, hours.clock)
        hours.seconds += 1
    return snapshot


def test_a_throttle_that_new_data_uses_up_is_said_in_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = followed_at(copied=8_000, grown=8_200, seconds=15, throttle=8_000)

    Lines().show(snapshot)

    assert snapshot.remaining_seconds is None
    assert capsys.readouterr().out.splitlines() == [
        "0 of 1 done, 112.0 kB of 10.1 MB (1%)",
        "  the throttle of broker 3 is 8.0 kB/s, 8.0 kB/s of which new data takes: this will not finish; "
        "set a throttle well above 8.2 kB/s",
    ]


def test_a_throttle_of_which_new_data_takes_most_is_said_too() -> None:
    snapshot = followed_at(copied=8_000, grown=6_000, seconds=15, throttle=8_000)

    assert snapshot.remaining_seconds == pytest.approx(10_000_000 / 2_000, rel=0.01)
    assert outlook(snapshot) == ["the throttle of broker 3 is 8.0 kB/s, 6.0 kB/s of which new data takes"]


def test_without_a_throttle_what_will_not_finish_is_said_with_both_rates() -> None:
    assert outlook(followed_at(copied=8_000, grown=9_000, seconds=15)) == [
        "broker 3 copies 8.0 kB/s while new data comes at 9.0 kB/s: at this rate it will not finish"
    ]


def test_a_throttle_far_from_what_is_copied_is_not_blamed() -> None:
    assert outlook(followed_at(copied=8_000, grown=9_000, seconds=15, throttle=90_000)) == [
        "broker 3 copies 8.0 kB/s while new data comes at 9.0 kB/s: at this rate it will not finish"
    ]


def test_new_data_that_takes_little_needs_no_word() -> None:
    snapshot = followed_at(copied=8_000, grown=1_000, seconds=15, throttle=8_000)

    assert outlook(snapshot) == []
    assert snapshot.throttles == {}


def test_under_a_throttle_the_time_left_is_right_though_single_replicas_come_in_lumps() -> None:
    looks, end = recorded()
    progress, said = Progress({}), {}
    for taken in looks[::5]:
        moves, states, sizes = {}, {}, {}
        for number in range(PARTITIONS):
            partition = at(f"a-{number}")
            isr = on(1, 3) if number in taken.in_sync else on(1)
            moves[partition], states[partition] = Move((1, 3), adding=(3,)), PartitionState((1, 3), isr, 1)
            for broker, size in ((1, taken.total[number]), (3, taken.copied[number])):
                sizes[Replica(broker, "a", number)] = Directories("/disk1", None, size)
        snapshot = progress.advance(float(taken.second), moves, states, sizes)
        if taken.second >= 75 and end - taken.second >= 20:
            assert snapshot.remaining_seconds is not None
            said[taken.second] = snapshot.remaining_seconds / (end - taken.second)

    assert len(said) > 15
    assert all(0.7 <= ratio <= 1.3 for ratio in said.values()), said


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
    followed(moving(), Watch(Selection(), interval_s=12.0), Lines())

    assert capsys.readouterr().out.splitlines() == [
        "0 of 2 done, 80 bytes of 200 bytes (40%), time left not known yet",
        "0 of 2 done, 160 bytes of 200 bytes (80%), 6 bytes/s, 6 s left",
        "0 of 2 done, 200 bytes of 200 bytes (100%), 5 bytes/s, 0 s left",
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
            "lag_records": None,
        }
    ]
    assert documents[0]["is_remaining_unknown_yet"] is True
    assert documents[0]["receiving"][0] == {
        "broker": 3,
        "gap_bytes": 60,
        "closing_bytes_per_second": None,
        "new_bytes_per_second": None,
        "throttle_bytes_per_second": None,
        "remaining_seconds": None,
    }


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
    total = "0 of 50 done, 0 bytes of 0 bytes (0%), time left not known yet"
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
    assert lines[0] == "0 of 2 done, 80 bytes of 200 bytes (40%), time left not known yet"
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


def test_where_our_controller_leads_replicas_in_sync_are_taken_to_leave_the_rate_to_the_others() -> None:
    def seen(copied: int, second: int) -> Move:
        received = ReplicaProgress(3, copied, 2_000 + 10 * second)
        return Move((1, 3), adding=(3,), progress=MoveProgress(None, "catching up", 0, replicas=(received,)))

    def copied(second: int) -> int:
        return 20 * min(second, 40) + 40 * max(0, second - 40)

    progress, snapshot = Progress({}), None
    ended = {at("a-1"): PartitionState((3, 1), (3, 1), 1)}
    for second in range(61):
        moves = {at("a-0"): seen(copied(second), second)} | (
            {at("a-1"): seen(1_600 + 20 * second, second)} if second < 40 else {}
        )
        snapshot = progress.advance(float(second), moves, ended, {})

    assert snapshot is not None
    assert snapshot.remaining_seconds == pytest.approx((2_600 - copied(60)) / 30, rel=0.1)
