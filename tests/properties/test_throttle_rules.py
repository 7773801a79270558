"""However requests, ends of moves and other people follow each other, settings end as they would without us."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from controller.core.reassignment.throttle_rules import ALL_REPLICAS, broker_wish, entries, joined, topic_wish
from zk_layout.znodes.throttles import ThrottledBroker, ThrottledTopic

ours = st.builds("{}:{}".format, st.integers(0, 6), st.integers(1, 12))
rates = st.integers(1, 9_000_000)
theirs = st.none() | st.lists(st.sampled_from(["70:1", " 71:2", "72:3 ", ""]), max_size=3).map(",".join) | st.just("*")
# Odd numbers are what others write, even ones what requests ask for: what is whose can be told.
their_rates = st.none() | st.integers(0, 500).map(lambda n: str(2 * n + 1)) | st.sampled_from(["", "-1", "fast", " 7 "])


class Asked(Struct, frozen=True):
    """A request is to throttle these replicas."""

    lists: dict[str, int]


class Ended(Struct, frozen=True):
    """These replicas are in sync, or their moves over."""

    over: frozenset[str]


class Changed(Struct, frozen=True):
    """Someone else writes the setting; with ours in it, if they `keeps` what they have read."""

    value: str | None
    keeps: bool = False


happenings = st.lists(
    st.builds(Asked, st.dictionaries(ours, rates, min_size=1, max_size=4))
    | st.builds(Ended, st.frozensets(ours, max_size=20))
    | st.builds(Changed, theirs, st.booleans()),
    max_size=12,
)


@given(theirs, happenings)
def test_a_list_ends_as_others_wrote_it(before: str | None, happened: list[Asked | Ended | Changed]) -> None:
    value, written = before, before
    record: ThrottledTopic | None = None
    for step in happened:
        if isinstance(step, Changed):
            held = [e for e in record.ours if e in entries(value)] if record is not None and step.keeps else []
            value, written = joined(step.value, held), step.value
            continue
        wanted = dict(record.ours) if record is not None else {}
        asked = step.lists if isinstance(step, Asked) else {}
        wanted |= asked
        if isinstance(step, Ended):
            wanted = {entry: rate for entry, rate in wanted.items() if entry not in step.over}
        wish = topic_wish(record, value, wanted, asked)
        assert wish.record is None or isinstance(wish.record, ThrottledTopic)
        value, record = wish.value, wish.record
        listed = entries(value)
        assert [entry for entry in listed if entry.startswith("7") and len(entry) == 4] == entries_of(written)
        assert ALL_REPLICAS in listed or set(asked) <= set(listed)
        assert ALL_REPLICAS in listed or set(listed) <= {*entries(written), *(record.ours if record else ())}

    last = topic_wish(record, value, {}, ())

    assert last.record is None
    assert entries(last.value) == entries(written)
    if not any(isinstance(step, Changed) and step.keeps for step in happened):
        assert last.value == written, "to the letter"


def entries_of(text: str | None) -> list[str]:
    return [entry for entry in entries(text) if entry != ALL_REPLICAS]


rate_steps = st.lists(
    st.tuples(st.just("asked"), st.integers(1, 500).map(lambda n: 2 * n))
    | st.tuples(st.just("wanted"), st.integers(1, 500).map(lambda n: 2 * n) | st.none())
    | st.tuples(st.just("changed"), their_rates),
    max_size=12,
)


@given(their_rates, rate_steps)
def test_a_rate_ends_as_others_wrote_it(before: str | None, steps: list[tuple[str, int | str | None]]) -> None:
    value, written = before, before
    record: ThrottledBroker | None = None
    for what, argument in steps:
        if what == "changed":
            assert not isinstance(argument, int)
            value = written = argument
            continue
        assert not isinstance(argument, str)
        if record is None and what == "wanted":
            continue  # nothing is throttled there
        wish = broker_wish(record, value, argument, is_asked=what == "asked")
        assert wish.record is None or isinstance(wish.record, ThrottledBroker)
        value, record = wish.value, wish.record
        if what == "asked":
            assert value is not None
            assert int(value) <= int(str(argument))
            assert record is not None

    last = broker_wish(record, value, None, is_asked=False)

    assert last.record is None
    assert last.value == written
