"""One owner of all transactions: what travels together, what becomes of it, and when is it tried again?"""

from __future__ import annotations

import pytest

from controller.core.messages.effects import Notice, Read, Set, Wake
from controller.core.messages.events import CommitId
from controller.core.transactions.back_off import AT_ONCE, wait_s
from controller.core.transactions.owner import TryAgain
from controller.core.transactions.proposal import Accepted, Atom, Proposal, Refused
from tests.unit.core.builders import commits, ids, state
from tests.unit.core.proposals import ZERO, A, B, C, Desk, gone, proposal, written
from zk_layout.catalog import Address
from zk_layout.facts import Stat, present
from zk_layout.ids import TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress


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


def test_the_number_of_unanswered_transactions_is_known() -> None:
    desk = Desk()
    sent = commits(desk.send(proposal(A, "a"))) + commits(desk.send(proposal(B, "b")))
    assert desk.transactions.count == 2

    desk.accept(sent[0])
    desk.refuse(CommitId(sent[1].commit))

    assert desk.transactions.count == 0
    assert desk.transactions.is_busy(B)  # until it has been read again
