"""What does one transaction hold, in which order follow the parts of what needs several, and what is too large?"""

from __future__ import annotations

from controller.core.messages.effects import Notice, Write
from controller.core.transactions.proposal import Accepted, Atom, Proposal, Refused, TooLarge
from tests.unit.core.builders import commits
from tests.unit.core.proposals import A, B, C, Desk, config, gone, mark, proposal, written


def test_a_transaction_has_no_more_writes_or_bytes_than_zookeeper_likes_and_atoms_stay_whole() -> None:
    desk = Desk(znode_size_limit=900_000)
    many = Proposal(A, tuple(Atom((mark(f"{n}"), mark(f"{n}x")), ()) for n in range(200)))
    large = Proposal(B, tuple(Atom((config(f"{n}", 300_000),), ()) for n in range(3)))

    sent = commits(desk.send(many, large))

    assert [len(commit.writes) for commit in sent] == [300, 102, 1]  # the first of the large ones still fits
    assert all(sum(len(made.data) for made in commit.operations) <= 700_000 for commit in sent)
    names = written(sent[0])
    assert [f"{name}x" for name in names[::2]] == names[1::2]


def marks(first: int, end: int) -> tuple[Write, ...]:
    return tuple(mark(f"{number}") for number in range(first, end))


def test_an_atom_that_no_transaction_can_hold_is_sent_part_by_part_each_once_the_one_before_is_committed() -> None:
    desk = Desk(znode_size_limit=900_000)
    writes = tuple(config(f"{number}", 300_000) for number in range(5))
    (first,) = commits(desk.send(Proposal(A, (Atom(writes, ("all of it",)),))))
    (second,) = commits(desk.accept(first))
    (third,) = commits(desk.accept(second))
    assert desk.outcomes() == []
    assert desk.transactions.is_busy(A)

    assert commits(desk.accept(third)) == []

    assert [written(commit) for commit in (first, second, third)] == [["0", "1"], ["2", "3"], ["4"]]
    assert [commit.why for commit in (first, second, third)] == [("all of it",), (), ()]
    assert desk.outcomes() == [(A, Accepted())]


def test_of_an_atom_that_is_cut_all_that_comes_before_is_committed_first_and_then_what_belongs_together() -> None:
    desk = Desk()
    atom = Atom((mark("a"), mark("b")), ("a move",), before=marks(0, 301), after=marks(400, 1001))

    first, second = commits(desk.send(Proposal(A, (atom,))))
    assert [len(commit.writes) for commit in (first, second)] == [300, 1]
    assert commits(desk.accept(second)) == []
    (together,) = commits(desk.accept(first))
    assert written(together) == ["a", "b"]
    after = commits(desk.accept(together))

    assert [len(commit.writes) for commit in after] == [300, 300, 1]
    for commit in reversed(after):
        assert desk.outcomes() == []
        assert desk.accept(commit) == []
    assert desk.outcomes() == [(A, Accepted())]


def test_an_atom_that_one_transaction_can_hold_is_sent_as_one() -> None:
    desk = Desk()
    atom = Atom((mark("a"), mark("b")), ("a move",), before=marks(0, 149), after=marks(150, 299))

    (commit,) = commits(desk.send(Proposal(A, (atom,))))

    assert len(commit.writes) == 300
    assert written(commit)[148:151] == ["148", "a", "b"]


def test_what_belongs_together_is_not_parted_while_zookeeper_takes_it() -> None:
    desk = Desk(znode_size_limit=900_000)
    together = (config("settings", 400_000), config("topic", 400_000))
    (commit,) = commits(desk.send(Proposal(A, (Atom(together, ()),))))
    assert written(commit) == ["settings", "topic"]

    (first,) = commits(desk.send(Proposal(B, (Atom((*together, config("more", 400_000)), ()),))))

    assert written(first) == ["settings"]  # more than one transaction may have: one by one
    assert [written(commit) for commit in commits(desk.accept(first))] == [["topic"]]


def test_independent_atoms_do_not_wait_for_one_that_is_cut() -> None:
    desk = Desk()
    large = Atom((mark("a"),), ("a move",), after=marks(0, 600))

    sent = commits(desk.send(Proposal(A, (large, Atom((mark("b"),), ("an election",)))), proposal(C, "c")))

    assert [written(commit) for commit in sent] == [["a", "b", "c"]]


def test_after_a_refused_part_nothing_more_of_an_atom_is_sent() -> None:
    desk = Desk()
    first, second = commits(desk.send(Proposal(A, (Atom((mark("a"),), (), before=marks(0, 301)),))))

    assert commits(desk.refuse(second, gone("300"))) == []
    assert desk.outcomes() == []
    assert commits(desk.accept(first)) == []

    assert desk.outcomes() == [(A, Refused(False, (), False))]


def test_what_would_be_too_large_is_settled_at_once_and_never_sent() -> None:
    desk = Desk(znode_size_limit=1000)
    large = Proposal(A, (Atom((config("a", 1000),), ("too much",)),))

    told = desk.send(large, proposal(B, "b"))

    ((subject, outcome), *_) = desk.outcomes()
    assert subject == A
    assert isinstance(outcome, TooLarge)
    assert "writing /config/topics/a would take a request of" in outcome.message
    assert [written(commit) for commit in commits(told)] == [["b"]]
    assert [e.kind for e in told if isinstance(e, Notice)] == ["oversized znode"]
    assert desk.transactions.may_propose(A)


def test_a_znode_that_comes_near_the_limit_is_warned_of_once() -> None:
    desk = Desk(znode_size_limit=1000)
    near = Proposal(A, (Atom((config("a", 750),), ()),))

    first = desk.send(near)
    desk.accept(commits(first)[0])
    second = desk.send(near)

    assert [e.kind for e in first if isinstance(e, Notice)] == ["large znode"]
    assert [e for e in second if isinstance(e, Notice)] == []
