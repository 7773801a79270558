"""The logs of several servers form one order: each transaction once, and missing ones are reported."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zk_layout.storage.log_index import Section
from zk_layout.storage.order import Order, in_order

EPOCH = 1 << 32


def log(*spans: tuple[int, int], is_whole: bool = True) -> list[Section]:
    """Sections that follow each other in the file, with bytes between them if it is damaged."""
    found, at = [], 16
    for first, last in spans:
        end = at + 10 * (last - first + 1)
        found.append(Section(at, end, first, last, first, last, last - first + 1))
        at = end if is_whole else end + 7
    return found


def taken(order: Order) -> list[tuple[str, int, int]]:
    return [(piece.file, piece.first, piece.last) for piece in order.pieces]


def test_a_log_is_left_only_where_it_does_not_go_on() -> None:
    order = in_order({"a": log((1, 4), (8, 9), is_whole=False), "b": log((1, 3), (4, 6)), "c": log((7, 20))})

    assert taken(order) == [("b", 1, 3), ("b", 4, 6), ("c", 7, 20)]
    assert not order.gaps


def test_what_no_log_has_is_missing() -> None:
    order = in_order({"a": log((2, 3), (6, 7), is_whole=False), "b": log((EPOCH + 3, EPOCH + 4))})

    assert [(gap.after, gap.before, gap.missing, piece.file) for gap, piece in order.gaps] == [
        (3, 6, 2, "a"), (7, EPOCH + 3, None, "b"),
    ]  # fmt: skip


def test_what_only_a_deposed_leader_logged_never_took_effect() -> None:
    order = in_order({"old leader": log((1, 12)), "b": log((1, 9), (EPOCH + 1, EPOCH + 5)), "behind": log((1, 4))})

    assert taken(order) == [("old leader", 1, 9), ("b", EPOCH + 1, EPOCH + 5)]
    assert [(dead.file, dead.first, dead.last) for dead in order.uncommitted] == [("old leader", 10, 12)]


def test_a_server_that_was_sent_a_snapshot_does_not_say_that_others_were_wrong() -> None:
    order = in_order({"a": log((1, 12), (EPOCH + 1, EPOCH + 2)), "sent": log((1, 9), (EPOCH + 1, EPOCH + 2))})

    assert not order.uncommitted
    assert [zxid for _, first, last in taken(order) for zxid in range(first, last + 1)] == [
        *range(1, 13), EPOCH + 1, EPOCH + 2,
    ]  # fmt: skip


spans = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 20)), max_size=6)
logs = st.dictionaries(st.sampled_from("abcd"), spans, max_size=4)


@given(logs, st.integers(1, 7))
def test_each_transaction_is_taken_once_wherever_logs_are_cut(
    made: dict[str, list[tuple[int, int]]], step: int
) -> None:
    whole = {name: log(*((a, a + n) for a, n in parts), is_whole=False) for name, parts in made.items()}
    cut = {
        name: [piece for section in sections for piece in in_steps(section, step)] for name, sections in whole.items()
    }

    once, again = in_order(whole), in_order(cut)

    held = {z for sections in whole.values() for s in sections for z in range(s.first, s.last + 1)}
    assert [z for piece in once.pieces for z in range(piece.first, piece.last + 1)] == sorted(held)
    assert by_zxid(once) == by_zxid(again)
    assert [gap for gap, _ in once.gaps] == [gap for gap, _ in again.gaps]


def by_zxid(order: Order) -> list[tuple[str, int]]:
    return [(piece.file, z) for piece in order.pieces for z in range(piece.first, piece.last + 1)]


def in_steps(section: Section, step: int) -> list[Section]:
    return [
        Section(
            section.offset + 10 * (z - section.first),
            min(section.end, section.offset + 10 * (z + step - section.first)), z,
            min(z + step - 1, section.last), z, z, step,
        )
        for z in range(section.first, section.last + 1, step)
    ]  # fmt: skip
