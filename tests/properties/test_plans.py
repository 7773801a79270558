"""No plan, whatever is asked of it, breaks what a reassignment must keep."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, composite

from controller.reassign.planning.layout import Aims, By, Layout, Placed, Unplannable
from controller.reassign.planning.planner import Planned, plan
from tests.unit.reassign.planned_layouts import after, crowded
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

TOPICS = (TopicName("a"), TopicName("b"))


@composite
def layouts(draw: DrawFn) -> Layout:
    """Up to seven brokers, in racks or not, and one that is away."""
    brokers = [BrokerId(b) for b in range(draw(st.integers(3, 7)))]
    racks = draw(st.sampled_from((0, 2, 3)))
    sizes = st.one_of(st.just(0), st.integers(0, 10**12))
    partitions = []
    for number in range(draw(st.integers(1, 14))):
        factor = draw(st.integers(1, 3))
        hosts = draw(st.permutations([*brokers, BrokerId(99)]))
        at = TopicPartition(draw(st.sampled_from(TOPICS)), PartitionId(number))
        partitions.append(Placed(at, tuple(hosts[:factor]), draw(sizes), draw(st.integers(0, 9)) == 0))
    return Layout({b: f"r{b % racks}" if racks else None for b in brokers}, partitions)


@composite
def cases(draw: DrawFn, *, balances: bool) -> tuple[Layout, Aims]:
    cluster = draw(layouts())
    brokers = sorted(cluster.racks)
    gone = draw(st.sampled_from((frozenset[BrokerId](), frozenset(brokers[:1]))))
    if balances:
        receivers = draw(st.sampled_from((frozenset[BrokerId](), frozenset(brokers[-1:]))))
        by = draw(st.sampled_from((frozenset(By), frozenset({By.BYTES}), frozenset({By.COUNTS}))))
        slack = draw(st.sampled_from((0.0, 0.05, 0.5)))
        return cluster, Aims(leaving=gone, receivers=receivers - gone, balances=by, slack=slack)
    factors = draw(st.sampled_from(({}, {TOPICS[0]: 1}, {TOPICS[0]: 2})))
    return cluster, Aims(leaving=gone, replication_factors=factors, repairs_racks=draw(st.booleans()))


def planned(cluster: Layout, aims: Aims) -> Planned | None:
    try:
        return plan(cluster, aims)
    except Unplannable:
        return None


@given(st.one_of(cases(balances=False), cases(balances=True)))
def test_what_every_plan_keeps(case: tuple[Layout, Aims]) -> None:
    cluster, aims = case
    made = planned(cluster, aims)
    if made is None:
        return
    placed = {p.at: p for p in cluster.partitions}
    for at, replicas in after(made, cluster).items():
        assert len(set(replicas)) == len(replicas)
        if placed[at].is_fixed:
            assert replicas == placed[at].replicas
            continue
        assert len(replicas) == aims.replication_factors.get(at.topic, len(placed[at].replicas))
        assert not aims.leaving & set(replicas)
    for change in made.changes:
        assert set(change.adding) <= cluster.racks.keys()
    assert made.least_bytes <= made.moved_bytes
    assert made.moved_bytes == sum(len(c.adding) * c.size_bytes for c in made.changes)
    assert {b: load.size_bytes for b, load in made.after.items()} == sizes_on(cluster, made)
    assert plan(cluster, aims) == made


def sizes_on(cluster: Layout, made: Planned) -> dict[BrokerId, int]:
    sizes = {p.at: p.size_bytes for p in cluster.partitions}
    found = dict.fromkeys(made.after, 0)
    for at, replicas in after(made, cluster).items():
        for broker in replicas:
            found[broker] += sizes[at]
    return found


@given(cases(balances=False))
def test_a_repair_moves_only_what_must_move(case: tuple[Layout, Aims]) -> None:
    cluster, aims = case
    made = planned(cluster, aims)
    if made is None:
        return
    assert made.moved_bytes == made.least_bytes
    for change in made.changes:
        gone = set(change.before) - set(change.after)
        must_go = gone & aims.leaving
        changes_factor = change.at.topic in aims.replication_factors
        assert must_go or changes_factor or (aims.repairs_racks and crowded(cluster, change.before, aims.leaving))
        if not changes_factor and not aims.repairs_racks:
            assert gone == must_go


@given(st.one_of(cases(balances=False), cases(balances=True)))
def test_no_plan_crowds_a_rack_that_was_not(case: tuple[Layout, Aims]) -> None:
    cluster, aims = case
    made = planned(cluster, aims)
    if made is None:
        return
    for change in made.changes:
        if not change.adding or change.at in made.unspread or crowded(cluster, change.before, aims.leaving):
            continue
        assert not crowded(cluster, change.after, aims.leaving)


@given(layouts())
def test_repaired_racks_are_in_order(cluster: Layout) -> None:
    made = planned(cluster, Aims(repairs_racks=True))
    if made is None:
        return
    fixed = {p.at for p in cluster.partitions if p.is_fixed}
    for at, replicas in after(made, cluster).items():
        if at not in made.unspread and at not in fixed:
            assert not crowded(cluster, replicas)


@given(layouts())
def test_leaders_differ_by_reordering_only(cluster: Layout) -> None:
    made = plan(cluster, Aims(balances_leaders=True))

    assert all(sorted(c.before) == sorted(c.after) for c in made.changes)
    assert made.moved_bytes == made.least_bytes == 0
    before, now = ([load.leaders for load in loads.values()] for loads in (made.before, made.after))
    assert max(now) <= max(before)
