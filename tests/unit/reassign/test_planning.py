"""Plans: repairs move only what must move, balances move as little as possible, and the bound beside them holds."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from controller.reassign.planning.board import Board
from controller.reassign.planning.bounds import Bounds
from controller.reassign.planning.layout import Aims, By, Layout, Placed, Unplannable
from controller.reassign.planning.planner import plan
from controller.reassign.planning.repairing import Repair
from controller.reassign.planning.report import Pace, lines, seconds
from tests.unit.reassign.planned_layouts import after, brokers, crowded, layout, no_racks, random_layout
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

ROOT = Path(__file__).parents[3]
BOTH = frozenset(By)


def leaving(*ids: int) -> Aims:
    return Aims(leaving=frozenset(brokers(*ids)))


def test_a_drain_moves_what_is_on_the_broker_and_nothing_else() -> None:
    cluster = layout(no_racks(1, 2, 3, 4), [(1, 2), (1, 2), (2, 3), (3, 1)], sizes=[10, 20, 30, 40])

    made = plan(cluster, leaving(3))

    assert {c.at.partition: (c.before, c.after) for c in made.changes} == {
        2: ((2, 3), (2, 4)),
        3: ((3, 1), (4, 1)),
    }
    assert (made.moved_bytes, made.least_bytes) == (70, 70)
    assert made.after[BrokerId(3)].replicas == 0


def test_a_drained_broker_may_be_away() -> None:
    made = plan(layout(no_racks(1, 2, 3), [(1, 9), (9, 2)]), leaving(9))

    assert all(9 not in change.after for change in made.changes)
    assert len(made.changes) == 2


def test_without_room_for_the_replicas_there_is_no_drain() -> None:
    with pytest.raises(Unplannable, match="3 replicas need as many brokers, and there are 2"):
        plan(layout(no_racks(1, 2, 3), [(1, 2, 3)]), leaving(3))


def test_brokers_that_are_unknown_are_named() -> None:
    with pytest.raises(Unplannable, match="brokers to leave are unknown: 7, 8"):
        plan(layout(no_racks(1, 2), [(1, 2)]), leaving(8, 7))


def test_a_replacement_takes_every_place_and_never_balances() -> None:
    cluster = layout(no_racks(1, 2, 3, 4), [(1, 2), (2, 1), (3, 1)])
    aims = Aims(leaving=frozenset(brokers(1)), replacements={BrokerId(1): BrokerId(4)})

    made = plan(cluster, aims)

    assert [c.after for c in made.changes] == [(4, 2), (2, 4), (3, 4)]


def test_where_the_replacement_has_a_replica_another_broker_takes_it() -> None:
    cluster = layout(no_racks(1, 2, 3, 4), [(1, 4), (1, 2)])
    aims = Aims(leaving=frozenset(brokers(1)), replacements={BrokerId(1): BrokerId(4)})

    first, second = plan(cluster, aims).changes

    assert first.after[0] in (2, 3)
    assert second.after == (4, 2)


def test_a_rack_never_gets_more_than_its_part() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    cluster = layout(racks, [(1, 3, 5), (2, 4, 5), (1, 4, 5)])

    made = plan(cluster, leaving(1))

    assert [c.after for c in made.changes] == [(2, 3, 5), (2, 4, 5)]


def test_racks_are_repaired_and_nothing_else_is_touched() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    cluster = layout(racks, [(1, 2), (1, 3), (3, 4)], sizes=[10, 20, 30])

    made = plan(cluster, Aims(repairs_racks=True))

    assert {c.at.partition for c in made.changes} == {0, 2}
    assert all(c.before[0] == c.after[0] for c in made.changes)
    assert not any(crowded(cluster, replicas) for replicas in after(made, cluster).values())
    assert made.moved_bytes == made.least_bytes == 40


def test_racks_that_cannot_take_their_part_leave_more_to_others() -> None:
    racks = {1: "a", 2: "b", 3: "b", 4: "b"}

    made = plan(layout(racks, [(1, 2, 3)]), Aims(replication_factors={TopicName("t"): 4}))

    assert [c.after for c in made.changes] == [(1, 2, 3, 4)]


def test_a_replication_factor_grows_at_the_end_and_only_where_it_was_asked_for() -> None:
    cluster = Layout(
        {b: None for b in brokers(1, 2, 3)},
        [
            Placed(TopicPartition(TopicName(topic), PartitionId(p)), brokers(*replicas), 5)
            for topic, p, replicas in (("a", 0, (1,)), ("a", 1, (2,)), ("b", 0, (3,)))
        ],
    )

    made = plan(cluster, Aims(replication_factors={TopicName("a"): 2}))

    assert [(str(c.at), c.before, c.after[:1], len(c.after)) for c in made.changes] == [
        ("a-0", (1,), (1,), 2),
        ("a-1", (2,), (2,), 2),
    ]
    assert made.moved_bytes == made.least_bytes == 10


def test_a_smaller_replication_factor_keeps_the_leader_and_removes_what_is_away_first() -> None:
    made = plan(layout(no_racks(1, 2, 3), [(1, 9, 2), (1, 2, 3)]), Aims(replication_factors={TopicName("t"): 2}))

    assert made.changes[0].after == (1, 2)
    assert made.changes[1].after[0] == 1
    assert made.moved_bytes == 0


def test_new_brokers_get_their_share_and_nothing_moves_between_the_others() -> None:
    cluster = layout(no_racks(1, 2, 3), [(1, 2)] * 30, sizes=[10] * 30)
    aims = Aims(receivers=frozenset(brokers(3)), balances=BOTH, slack=0.0)

    made = plan(cluster, aims)

    assert made.after[BrokerId(3)].replicas == 20
    assert all(c.adding == (3,) for c in made.changes)
    assert made.moved_bytes == made.least_bytes == 200


def test_a_cluster_in_balance_is_left_alone() -> None:
    cluster = layout(no_racks(1, 2, 3), [(1, 2), (2, 3), (3, 1)])

    made = plan(cluster, Aims(balances=BOTH, slack=0.0))

    assert made.changes == ()
    assert (made.moved_bytes, made.least_bytes) == (0, 0)


def test_fixed_partitions_stay_and_weigh() -> None:
    cluster = layout(no_racks(1, 2), [(1,)] * 4, sizes=[10] * 4)
    fixed = [Placed(p.at, p.replicas, p.size_bytes, is_fixed=p.at.partition < 3) for p in cluster.partitions]

    made = plan(Layout(cluster.racks, fixed), Aims(balances=BOTH, slack=0.0))

    assert [c.at.partition for c in made.changes] == [3]
    assert made.outside == (1, 2)


def test_leaders_are_spread_evenly_by_reordering() -> None:
    cluster = layout(no_racks(1, 2, 3), [(1, 2, 3)] * 7)

    made = plan(cluster, Aims(balances_leaders=True))

    assert sorted(load.leaders for load in made.after.values()) == [2, 2, 3]
    assert made.moved_bytes == 0
    assert all(sorted(c.before) == sorted(c.after) for c in made.changes)
    assert len(made.changes) == 4


def test_leaders_are_passed_on_through_brokers_between() -> None:
    cluster = layout(no_racks(1, 2, 3), [(1, 2), (1, 2), (1, 2), (2, 3), (2, 3), (2, 3)])

    made = plan(cluster, Aims(balances_leaders=True))

    assert [load.leaders for load in made.after.values()] == [2, 2, 2]


def test_some_racks_and_some_none_are_refused() -> None:
    with pytest.raises(Unplannable, match="some brokers have a rack"):
        plan(layout({1: "a", 2: None}, [(1,)]), Aims(balances=BOTH))


@pytest.mark.parametrize("seed", range(150))
def test_tiny_clusters_get_the_best_plan_there_is(seed: int) -> None:
    cluster, random = random_layout(seed)
    gone = frozenset({BrokerId(0)}) if random.random() < 0.4 else frozenset[BrokerId]()
    aims = Aims(leaving=gone, balances=frozenset({By.COUNTS}), slack=0.0)
    best = fewest_moves(cluster, aims)
    if best is None:
        pytest.skip("no plan can reach this")

    made = plan(cluster, aims)

    assert made.outside == ()
    assert made.moved_bytes == best
    assert made.least_bytes <= best


def fewest_moves(cluster: Layout, aims: Aims) -> int | None:
    """By trying everything: within the bounds, by the rack rule except where nothing changes."""
    repaired = Board(cluster, aims)
    Repair(repaired, aims).run()
    bounds, board = Bounds(repaired, aims), Board(cluster, aims)
    choices = []
    for home in board.home:
        fitting = [
            pair
            for pair in combinations(board.members, 2)
            if set(pair) == set(home) or max(Counter(board.rack_of[b] for b in pair).values()) <= board.rack_limit(2)
        ]
        choices.append(sorted((len(set(pair) - set(home)), pair) for pair in fitting))
    best: int | None = None
    counts = Counter[int]()

    def place(partition: int, moves: int) -> None:
        nonlocal best
        if best is not None and moves >= best:
            return
        if partition == len(choices):
            if all(bounds.least_count[b] <= counts[b] <= bounds.most_count[b] for b in board.members):
                best = moves
            return
        for more, pair in choices[partition]:
            counts.update(pair)
            if all(counts[b] <= bounds.most_count[b] for b in pair):
                place(partition + 1, moves + more)
            counts.subtract(pair)

    place(0, 0)
    return best


def test_bytes_and_counts_are_reached_together_close_to_the_bound() -> None:
    cluster, random = random_layout(5, most_brokers=10, partitions=400)
    sizes = [int(random.lognormvariate(3, 1.2) * 1e6) for _ in cluster.partitions]
    sized = Layout(cluster.racks, [Placed(p.at, p.replicas, s) for p, s in zip(cluster.partitions, sizes, strict=True)])

    made = plan(sized, Aims(balances=BOTH, slack=0.03))

    assert made.outside == ()
    assert made.least_bytes <= made.moved_bytes <= 1.15 * made.least_bytes


def test_the_time_is_that_of_the_broker_that_receives_most_or_of_few_moves_at_a_time() -> None:
    made = plan(layout(no_racks(1, 2, 3), [(1,), (1,), (1,)], sizes=[60, 50, 40]), leaving(1))

    assert sorted(sum(c.size_bytes for c in made.changes if b in c.adding) for b in (2, 3)) == [60, 90]
    assert seconds(made, Pace()) is None
    assert seconds(made, Pace(throttle=10)) == 9.0
    assert seconds(made, Pace(throttle=10, moves=1)) == 15.0


def test_a_plan_is_shown_with_its_bound_its_time_and_every_broker() -> None:
    cluster = layout({1: "a", 2: "b", 3: "b"}, [(1, 3), (1, 2)], sizes=[1_000_000, 5_000_000])

    shown = list(lines(plan(cluster, leaving(3)), cluster, "drain broker 3", Pace(100_000)))

    assert shown == [
        "drain broker 3: moves 1.0 MB in 1 replica of 1 partition of 1 topic; no plan can do with less",
        "takes 10 s at 100.0 kB/s a receiving broker, and longer while new data comes; broker 2 receives most, 1.0 MB",
        "",
        "broker  rack  replicas  bytes              preferred leader of",
        "1       a     2         6.0 MB             2",
        "2       b     1 -> 2    5.0 MB -> 6.0 MB   0",
        "3       b     1 -> 0    1.0 MB -> 0 bytes  0",
        "",
        "t-0: 1,3 -> 1,2  (1.0 MB each)",
    ]
    assert "\n".join(shown) in (ROOT / "docs/reassign.md").read_text()
