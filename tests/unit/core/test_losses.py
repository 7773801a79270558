"""When is a lost connection blamed on the size of a request, and what is sent then?"""

from __future__ import annotations

import pytest

from controller.core.messages.effects import Commit, Effect, Notice
from controller.core.transactions.losses import FIRST_DOUBT_S, LOSSES_TO_BLAME
from controller.core.transactions.owner import TryAgain
from controller.core.transactions.proposal import Atom, Proposal, Refused, Subject, TooLarge
from tests.unit.core.builders import commits
from tests.unit.core.proposals import A, B, C, Desk, config, written
from zk_layout.facts import absent
from zk_layout.ids import Zxid


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
