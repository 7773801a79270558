"""One owner of all transactions: what travels together, what becomes of it, and when is it tried again?"""

from __future__ import annotations

import pytest

from controller.core.messages.effects import Commit, Create, Delete, Effect, Notice, Read, Set, Wake, Write, operation
from controller.core.messages.events import CommitId
from controller.core.messages.outbox import Outbox
from controller.core.transactions.back_off import AT_ONCE, wait_s
from controller.core.transactions.losses import FIRST_DOUBT_S, LOSSES_TO_BLAME
from controller.core.transactions.owner import TryAgain, facts_below, facts_of, may_be_deleted_unseen
from controller.core.transactions.proposal import Accepted, Atom, Outcome, Proposal, Refused, Subject, TooLarge
from controller.core.turn.duty import Duty
from tests.unit.core.builders import Term, commits, ids, state
from zk_layout.catalog import Address
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import PartitionId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.configs import Config, TopicConfigAddress
from zk_layout.znodes.delegation_tokens import DelegationTokenChangeAddress, TokenChange
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.reassignments import Reassignment, ReassignmentAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ZERO = PartitionId(0)
A, B, C = (Subject("topic", name) for name in "abc")


class Proposer(Duty):
    """Remembers what became of what it proposed."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[Subject, Outcome]] = []
        self.retried: list[Proposal] = []

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        self.outcomes.append((proposal.subject, outcome))

    def retry(self, proposal: Proposal, out: Outbox) -> None:
        self.retried.append(proposal)


class Desk(Term):
    """Transactions, and someone who proposes."""

    def __init__(self, **settings: int) -> None:
        super().__init__(**settings)
        self.proposer = Proposer()

    def send(self, *proposals: Proposal) -> list[Effect]:
        out = self.out()
        self.transactions.send(self.proposer, proposals, out)
        return out.effects

    def outcomes(self) -> list[tuple[Subject, Outcome]]:
        """Since this was last called."""
        told, self.proposer.outcomes = self.proposer.outcomes, []
        return [(subject, Refused(o.is_waiting, (), False) if isinstance(o, Refused) else o) for subject, o in told]

    def refuse_once(self, proposal: Proposal) -> list[Effect]:
        (commit,) = commits(self.send(proposal))
        return self.refuse(commit, *(absent(write.address, Zxid(5)) for write in commit.writes))


def mark(name: str) -> Write:
    """Any write of one znode."""
    return Create(TopicDeletionAddress(TopicName(name)), None)


def proposal(subject: Subject, *names: str, holds: tuple[Subject, ...] = ()) -> Proposal:
    """Each of the znodes is an atom of its own."""
    return Proposal(subject, tuple(Atom((mark(name),), (f"{name} is wanted",)) for name in names), holds)


def config(name: str, size: int) -> Write:
    """A write of about so many bytes."""
    return Create(TopicConfigAddress(TopicName(name)), Config({"retention.ms": "1" * size}))


def gone(name: str, zxid: int = 5) -> Fact:
    return absent(TopicDeletionAddress(TopicName(name)), Zxid(zxid))


def written(commit: Commit) -> list[str]:
    return [write.address.path.rpartition("/")[2] for write in commit.writes]


def test_about_one_subject_only_one_proposal_is_under_way() -> None:
    desk = Desk()
    (commit,) = commits(desk.send(proposal(A, "a")))
    assert not desk.transactions.may_propose(A)
    with pytest.raises(ValueError, match="two proposals about topic a at once"):
        desk.send(proposal(A, "a2"))

    desk.accept(commit)

    assert desk.transactions.may_propose(A)
    assert desk.outcomes() == [(A, Accepted())]


def test_what_a_proposal_holds_is_busy_and_free_again_with_it() -> None:
    desk = Desk()
    (commit,) = commits(desk.send(proposal(A, "a", holds=(B,))))
    assert [desk.transactions.is_busy(subject) for subject in (A, B, C)] == [True, True, False]
    assert desk.transactions.busy_topics == {"a", "b"}
    with pytest.raises(ValueError, match="topic b"):
        desk.send(proposal(B, "b"))

    desk.accept(commit)

    assert [desk.transactions.is_busy(subject) for subject in (A, B)] == [False, False]
    assert desk.transactions.busy_topics == set()
    assert desk.outcomes() == [(A, Accepted())]


def test_independent_proposals_share_a_transaction_and_each_gets_its_outcome() -> None:
    desk = Desk()
    (commit,) = commits(desk.send(proposal(A, "a"), proposal(B, "b1", "b2")))
    assert written(commit) == ["a", "b1", "b2"]
    assert commit.why == ("a is wanted", "b1 is wanted", "b2 is wanted")
    other = commits(desk.send(proposal(C, "c")))

    desk.accept(commit)

    assert desk.outcomes() == [(A, Accepted()), (B, Accepted())]
    assert desk.transactions.is_busy(C)
    assert [c.commit for c in other] == [2]


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


def test_what_was_refused_travels_alone_until_it_is_accepted() -> None:
    desk = Desk()
    desk.refuse_once(proposal(B, "b"))
    assert desk.transactions.refusals(B) == 1

    sent = commits(desk.send(proposal(A, "a"), proposal(B, "b"), proposal(C, "c")))
    assert [written(commit) for commit in sent] == [["a"], ["b"], ["c"]]
    for commit in sent:
        desk.accept(commit)

    assert desk.transactions.refusals(B) == 0
    assert [written(c) for c in commits(desk.send(proposal(A, "a"), proposal(B, "b")))] == [["a", "b"]]


def test_a_conflict_is_tried_again_at_once_and_ever_more_slowly_after_a_few() -> None:
    desk = Desk()
    assert [desk.refuse_once(proposal(A, "a"))[1:] for _ in range(AT_ONCE)] == [[]] * AT_ONCE
    assert desk.outcomes() == [(A, Refused(False, (), False))] * AT_ONCE

    waits = []
    for times in range(7):
        told = desk.refuse_once(proposal(A, "a"))
        assert any(isinstance(effect, Notice) for effect in told) is (times == 0)  # logged once
        (alarm,) = (effect for effect in told if isinstance(effect, Wake))
        assert alarm.alarm == TryAgain(A)
        waits.append(alarm.at - desk.now)
        assert desk.transactions.is_waiting(A)
        assert not desk.transactions.may_propose(A)
        desk.transactions.resume(TryAgain(A), desk.out())

    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert wait_s(AT_ONCE) is None
    assert desk.outcomes() == [(A, Refused(True, (), False))] * 7


def test_its_proposer_is_called_once_when_the_wait_is_over() -> None:
    desk = Desk()
    for _ in range(AT_ONCE + 1):
        desk.refuse_once(proposal(A, "a"))
    assert desk.proposer.retried == []

    desk.transactions.resume(TryAgain(A), desk.out())
    desk.transactions.resume(TryAgain(A), desk.out())

    assert [again.subject for again in desk.proposer.retried] == [A]
    assert desk.transactions.may_propose(A)


def test_everything_that_was_refused_during_a_wait_is_retried_not_only_the_last() -> None:
    desk = Desk()
    for _ in range(AT_ONCE):
        desk.refuse_once(proposal(A, "a"))
    first, second = proposal(A, "a"), proposal(A, "a2")
    desk.refuse_once(first)
    desk.refuse_once(second)  # topics may take a step although they wait: something else has changed

    desk.transactions.resume(TryAgain(A), desk.out())

    assert desk.proposer.retried == [first, second]


def test_where_nothing_is_sent_a_conflict_is_no_reason_to_wait() -> None:
    """An observer's transactions are all answered so."""
    desk = Desk(is_observing=True)
    for _ in range(3 * AT_ONCE):
        assert desk.refuse_once(proposal(A, "a"))[1:] == []
    assert desk.outcomes() == [(A, Refused(False, (), False))] * 3 * AT_ONCE
    assert desk.transactions.may_propose(A)
    assert desk.transactions.refusals(A) == 0


def test_a_success_forgets_the_refusals() -> None:
    desk = Desk()
    for _ in range(AT_ONCE):
        desk.refuse_once(proposal(A, "a"))
    (commit,) = commits(desk.send(proposal(A, "a")))
    desk.accept(commit)

    assert desk.refuse_once(proposal(A, "a"))[1:] == []
    assert desk.outcomes()[-1] == (A, Refused(False, (), False))


def test_after_a_failure_nothing_is_settled_before_all_of_it_has_been_read_again() -> None:
    desk = Desk()
    (commit,) = commits(desk.send(proposal(A, "a1", "a2")))
    desk.refuse(commit)
    assert list(desk.transactions.half_read_topics) == ["a"]

    desk.read(gone("a1"))
    assert desk.outcomes() == []
    assert list(desk.transactions.half_read_topics) == ["a"]
    desk.read(gone("a2"))

    assert desk.outcomes() == [(A, Refused(False, (), False))]
    assert list(desk.transactions.half_read_topics) == []


def test_a_conflict_reads_what_conflicted_and_an_unknown_outcome_everything() -> None:
    desk = Desk()
    (conflicted,) = commits(desk.send(proposal(A, "a1", "a2")))
    (unknown,) = commits(desk.send(proposal(B, "b1", "b2")))
    at: Address = conflicted.writes[1].address
    out = desk.out()

    desk.transactions.failed(conflicted.commit, (at,), out)
    desk.transactions.failed(unknown.commit, None, out)

    assert out.effects == [Read((at,)), Read(tuple(write.address for write in unknown.writes))]


def test_what_was_read_before_a_transaction_and_what_was_read_after_it_do_not_count_together() -> None:
    desk = Desk()
    topic, state_at = TopicAddress(TopicName("a")), StateAddress(TopicName("a"), ZERO)
    before = present(topic, Topic({ZERO: Assignment(ids("1,2"))}), Stat(Zxid(3), Zxid(3), ZnodeVersion(0)))
    after = present(state_at, state(1, "1,2", 1), Stat(Zxid(4), Zxid(9), ZnodeVersion(1)))
    move = Atom(
        (
            Set(topic, Topic({ZERO: Assignment(ids("1,2,3"), adding=ids("3"))}), ZnodeVersion(0)),
            Set(state_at, state(1, "1,2", 1), ZnodeVersion(0)),
        ),
        ("to be moved",),
    )
    (commit,) = commits(desk.send(Proposal(A, (move,))))
    desk.refuse(commit)

    again = desk.read(before, after)

    assert again == [Read((topic,))]
    assert desk.outcomes() == []
    assert list(desk.transactions.half_read_topics) == ["a"]
    assert desk.read(before) == []  # now it was another's write that was seen
    assert desk.outcomes() == [(A, Refused(False, (), False))]
    assert list(desk.transactions.half_read_topics) == []


def test_who_shared_a_refused_transaction_waits_for_the_same_reads_and_may_go_on_at_once() -> None:
    desk = Desk()
    (commit,) = commits(desk.send(proposal(A, "a"), proposal(B, "b")))
    out = desk.out()
    desk.transactions.failed(commit.commit, (commit.writes[0].address,), out)

    desk.read(gone("a"))

    assert desk.outcomes() == [(A, Refused(False, (), False)), (B, Refused(False, (), False))]


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


def large(name: str, size: int, subject: Subject = A) -> Proposal:
    """A proposal of one write of about so many bytes."""
    return Proposal(subject, (Atom((config(name, size),), ()),))


def lose(desk: Desk, *sent: Commit) -> list[Effect]:
    """The connection is lost over these; none was written."""
    return [e for one in sent for e in desk.refuse(one, *(absent(write.address, Zxid(5)) for write in one.writes))]


def lose_in_a_row(desk: Desk, proposal: Proposal) -> list[Effect]:
    """The connection is lost over this until it is blamed; returns what the last time caused."""
    for _ in range(LOSSES_TO_BLAME - 1):
        assert not [e for e in desk.refuse_once(proposal) if isinstance(e, Notice)]
    return desk.refuse_once(proposal)


def is_sent(desk: Desk, proposal: Proposal) -> bool:
    desk.transactions.resume(TryAgain(proposal.subject), desk.out())
    return bool(commits(desk.send(proposal)))


def test_over_what_the_connection_is_lost_each_time_is_too_large_although_the_setting_allows_it() -> None:
    desk = Desk(znode_size_limit=1000)

    caused = lose_in_a_row(desk, large("a", 600))

    (notice,) = (e for e in caused if isinstance(e, Notice))
    assert notice.kind == "lower size limit"
    assert "closed the connection 3 times in a row over a request of 7" in notice.text
    assert "/config/topics/a" in notice.text
    assert desk.outcomes() == [(A, Refused(False, (), False))] * LOSSES_TO_BLAME
    assert desk.transactions.refusals(A) == 1  # the next attempt is another one
    again = desk.send(large("a", 600), large("b", 700, B), large("c", 500, C))
    assert [written(commit) for commit in commits(again)] == [["c"]]
    assert [(subject, type(outcome)) for subject, outcome in desk.outcomes()] == [(A, TooLarge), (B, TooLarge)]


def test_that_servers_take_less_is_said_once_a_term() -> None:
    desk = Desk(znode_size_limit=1000)
    lose_in_a_row(desk, large("a", 600))
    desk.send(large("a", 600))

    for _ in range(LOSSES_TO_BLAME):
        assert not [e for e in desk.refuse_once(large("c", 500, C)) if isinstance(e, Notice)]
    desk.now += FIRST_DOUBT_S
    desk.transactions.settle(desk.out())
    desk.transactions.resume(TryAgain(A), desk.out())
    caused = desk.refuse_once(large("a", 600)) + desk.send(large("a", 600))

    assert not [e for e in caused if isinstance(e, Notice)]
    assert isinstance(desk.outcomes()[-1][1], TooLarge)


@pytest.mark.parametrize("order", [1, -1])
def test_only_the_largest_of_what_was_lost_with_a_connection_is_blamed(order: int) -> None:
    desk = Desk(znode_size_limit=1000)
    for _ in range(LOSSES_TO_BLAME):
        lose(desk, *commits(desk.send(large("a", 600), large("b", 500, B)))[::order])

    assert [written(one) for one in commits(desk.send(large("a", 600), large("b", 500, B)))] == [["b"]]


def test_what_is_no_larger_than_something_accepted_is_not_blamed() -> None:
    desk = Desk(znode_size_limit=1000)
    (commit,) = commits(desk.send(large("b", 600, B)))
    desk.accept(commit)

    for _ in range(LOSSES_TO_BLAME + 2):
        desk.refuse_once(large("a", 600))

    assert is_sent(desk, large("a", 600))


def test_only_losses_in_a_row_count() -> None:
    desk = Desk(znode_size_limit=1000)
    for _ in range(LOSSES_TO_BLAME - 1):
        desk.refuse_once(large("a", 600))
    (commit,) = commits(desk.send(large("a", 600)))
    out = desk.out()
    desk.transactions.failed(commit.commit, (commit.writes[0].address,), out)  # ZooKeeper did answer
    desk.read(absent(commit.writes[0].address, Zxid(5)))

    desk.transactions.resume(TryAgain(A), desk.out())
    desk.refuse_once(large("a", 600))

    assert is_sent(desk, large("a", 600))


def test_that_zookeeper_takes_smaller_writes_of_the_same_subject_does_not_begin_a_new_row() -> None:
    desk = Desk(znode_size_limit=1000)
    caused: list[Effect] = []
    for _ in range(LOSSES_TO_BLAME):
        caused += desk.refuse_once(large("a", 600))
        (commit,) = commits(desk.send(large("a", 100)))
        desk.accept(commit)

    (notice,) = (e for e in caused if isinstance(e, Notice))
    assert notice.kind == "lower size limit"


def test_a_much_smaller_request_begins_a_row_of_its_own() -> None:
    desk = Desk(znode_size_limit=1000)
    for _ in range(LOSSES_TO_BLAME - 1):
        desk.refuse_once(large("a", 700))

    assert not [e for e in desk.refuse_once(large("a", 300)) if isinstance(e, Notice)]
    assert is_sent(desk, large("a", 300))


def test_what_is_far_below_the_setting_is_not_blamed() -> None:
    desk = Desk(znode_size_limit=16_000)
    for _ in range(LOSSES_TO_BLAME + 2):
        desk.refuse_once(large("a", 600))

    assert is_sent(desk, large("a", 600))


def test_what_was_found_too_large_is_tried_again_after_a_while_and_one_loss_is_enough_then() -> None:
    desk = Desk(znode_size_limit=1000)
    lose_in_a_row(desk, large("a", 600))
    pauses = []
    for _ in range(6):
        since = desk.now
        desk.transactions.resume(TryAgain(A), desk.out())
        while not (sent := commits(desk.send(large("a", 600)))):
            desk.now += 1
            desk.transactions.settle(desk.out())
            desk.transactions.resume(TryAgain(A), desk.out())
        pauses.append(desk.now - since)
        lose(desk, *sent)

    assert pauses == [30.0, 60.0, 120.0, 240.0, 480.0, 600.0]


def test_while_a_limit_is_doubted_one_loss_over_nearly_as_much_lowers_it_by_more_than_a_byte() -> None:
    desk = Desk(znode_size_limit=1000)
    lose_in_a_row(desk, large("a", 600))

    desk.refuse_once(large("c", 590, C))

    sent = commits(desk.send(large("a", 570), large("c", 540, C)))
    assert [written(commit) for commit in sent] == [["c"]]


def test_after_the_pause_a_loss_over_more_brings_back_the_lowest_limit_found() -> None:
    desk = Desk(znode_size_limit=1000)
    lose_in_a_row(desk, large("a", 600))
    desk.now += FIRST_DOUBT_S
    desk.transactions.settle(desk.out())

    desk.refuse_once(large("c", 800, C))

    assert not is_sent(desk, large("a", 600))


def test_a_limit_is_not_lowered_below_what_zookeeper_has_accepted() -> None:
    desk = Desk(znode_size_limit=1000)
    (commit,) = commits(desk.send(large("b", 580, B)))
    desk.accept(commit)
    lose_in_a_row(desk, large("a", 600))

    desk.refuse_once(large("c", 590, C))

    assert is_sent(desk, large("b", 580, B))


def test_a_limit_that_was_found_is_forgotten_once_as_much_is_accepted() -> None:
    desk = Desk(znode_size_limit=1000)
    lose_in_a_row(desk, large("a", 600))
    desk.now += FIRST_DOUBT_S
    desk.transactions.settle(desk.out())
    (commit,) = commits(desk.send(large("a", 600)))
    desk.accept(commit)

    for _ in range(LOSSES_TO_BLAME - 1):
        desk.refuse_once(large("b", 700, B))

    assert is_sent(desk, large("b", 700, B))


def test_after_a_loss_fewer_writes_share_a_transaction() -> None:
    desk = Desk(znode_size_limit=2000)
    several = [large(name, 250, Subject("topic", name)) for name in "defgh"]
    (together,) = commits(desk.send(*several))
    lose(desk, together)
    for commit in commits(desk.send(*several)):
        desk.accept(commit)

    sent = commits(desk.send(*several))

    assert [written(commit) for commit in sent] == [["d", "e"], ["f", "g"], ["h"]]


def test_what_belongs_together_is_parted_where_zookeeper_does_not_take_it() -> None:
    desk = Desk(znode_size_limit=2000)
    move = Proposal(A, (Atom((config("a", 500), config("b", 500)), (), after=(config("c", 500),)),))
    sizes = []
    for _ in range(1 + LOSSES_TO_BLAME + 1):
        (sent,) = commits(desk.send(move))
        sizes.append(written(sent))
        lose(desk, sent)

    assert sizes == [["a", "b", "c"], *[["a", "b"]] * LOSSES_TO_BLAME, ["a"]]


def test_a_znode_that_comes_near_the_limit_is_warned_of_once() -> None:
    desk = Desk(znode_size_limit=1000)
    near = Proposal(A, (Atom((config("a", 750),), ()),))

    first = desk.send(near)
    desk.accept(commits(first)[0])
    second = desk.send(near)

    assert [e.kind for e in first if isinstance(e, Notice)] == ["large znode"]
    assert [e for e in second if isinstance(e, Notice)] == []


def test_what_zookeeper_accepted_is_known_without_reading_it() -> None:
    desk = Desk()
    name = TopicName("orders")
    desk.fold(present(TopicAddress(name), Topic({ZERO: Assignment(ids("1"))}), Stat(Zxid(3), Zxid(4), ZnodeVersion(2))))
    set_to = Topic({ZERO: Assignment(ids("2"))})
    writes = (Set(TopicAddress(name), set_to, ZnodeVersion(2)), Delete(TopicDeletionAddress(name), ZnodeVersion(0)))
    (commit,) = commits(desk.send(Proposal(A, (Atom(writes, ()),))))

    facts = list(facts_of(commit, Zxid(9), lambda _: Zxid(3)))

    assert facts == [
        present(TopicAddress(name), set_to, Stat(Zxid(3), Zxid(9), ZnodeVersion(3))),
        absent(TopicDeletionAddress(name), Zxid(9)),
    ]
    desk.accept(commit)
    assert desk.cluster.topics[name].partitions[ZERO].assignment == Assignment(ids("2"))


def test_what_others_may_delete_before_it_is_listed_is_known_from_the_commit() -> None:
    topic, child = TopicAddress(TopicName("a")), ReassignmentAddress(TopicName("a"), PartitionId(0))
    written: list[Write] = [
        Create(topic, Topic({})),
        Create(TopicConfigAddress(TopicName("a")), Config({})),
        Set(TopicAddress(TopicName("b")), Topic({}), ZnodeVersion(0)),
        Create(TopicDeletionAddress(TopicName("b")), None),
        Create(child, Reassignment(ids("1"))),
        Create(TopicDeletionAddress(TopicName("c")), None, is_sequential=True),
    ]
    commit = Commit(CommitId(1), tuple(map(operation, written)), ())

    assert list(may_be_deleted_unseen(commit)) == [topic, TopicDeletionAddress(TopicName("b")), child]


def test_nothing_can_be_below_a_topic_that_has_just_been_created() -> None:
    desk = Desk()
    create = Create(TopicAddress(TopicName("orders")), Topic({ZERO: Assignment(ids("1"))}))
    (commit,) = commits(desk.send(Proposal(A, (Atom((create,), ()),))))

    desk.accept(commit)

    held = desk.cluster.topics[TopicName("orders")].partitions[ZERO]
    assert (held.state, held.is_state_known) == (None, True)
    assert absent(StateAddress(TopicName("orders"), ZERO), Zxid(9)) in facts_below(commit, Zxid(9))


def test_of_a_sequential_znode_no_one_knows_under_which_name_it_was_created() -> None:
    desk = Desk()
    create = Create(DelegationTokenChangeAddress(), TokenChange("t"), is_sequential=True)
    (commit,) = commits(desk.send(Proposal(A, (Atom((create, mark("a")), ()),))))

    assert list(facts_of(commit, Zxid(9), lambda _: None)) == [
        present(TopicDeletionAddress(TopicName("a")), None, Stat(Zxid(9), Zxid(9), ZnodeVersion(0)))
    ]


def test_the_number_of_unanswered_transactions_is_known() -> None:
    desk = Desk()
    sent = commits(desk.send(proposal(A, "a"))) + commits(desk.send(proposal(B, "b")))
    assert desk.transactions.count == 2

    desk.accept(sent[0])
    desk.refuse(CommitId(sent[1].commit))

    assert desk.transactions.count == 0
    assert desk.transactions.is_busy(B)  # until it has been read again
