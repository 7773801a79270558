"""Duties about single znodes: features, delegation tokens, notifications."""

from __future__ import annotations

from controller.core.messages.effects import Commit, Create, Delete, Effect, Measured, ReadChildren, Set, Wake
from controller.core.single_znodes import notifications
from controller.core.single_znodes.delegation_tokens import AT_ONCE, DelegationTokens, LookForExpiredTokens
from controller.core.single_znodes.features import FeatureVersioning
from controller.core.single_znodes.notifications import Notifications
from controller.core.transactions import back_off
from controller.core.transactions.owner import TryAgain
from tests.unit.core.builders import Term, commits
from zk_layout.catalog import Value
from zk_layout.codec import Malformed
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import ZnodeVersion, Zxid
from zk_layout.znodes.admin import PreferredElection, PreferredElectionAddress
from zk_layout.znodes.delegation_tokens import (
    ROOT,
    DelegationTokenAddress,
    DelegationTokenChangeAddress,
    TokenChange,
    TokenTimes,
)
from zk_layout.znodes.features import FeatureAddress, Features
from zk_layout.znodes.notifications import IsrChange, IsrChangeAddress, LogDirEvent, LogDirEventAddress

FEATURE = FeatureAddress()


def stat(zxid: int, version: int = 0) -> Stat:
    return Stat(Zxid(1), Zxid(zxid), ZnodeVersion(version))


# features


def features(value: Value | Malformed | None, zxid: int = 5) -> Fact:
    return absent(FEATURE, Zxid(zxid)) if value is None else present(FEATURE, value, stat(zxid, version=3))


def proposed(held: Fact, **settings: bool) -> list[object]:
    """What the duty writes where the znode is like that."""
    term = Term(**settings)
    term.fold(held)
    return [write for commit in commits(term.propose(FeatureVersioning(term.shared))) for write in commit.writes]


def test_feature_versioning_is_enabled_where_it_is_not_and_left_alone_where_it_is() -> None:
    enabled = Features(is_enabled=True)

    assert proposed(features(None)) == [Create(FEATURE, enabled)]
    assert proposed(features(Features(is_enabled=False))) == [Set(FEATURE, enabled, ZnodeVersion(3))]
    assert proposed(features(Malformed("no JSON", 3))) == [Set(FEATURE, enabled, ZnodeVersion(3))]
    assert proposed(features(Features(True, {"some": {"min_version_level": 1}}))) == []


def test_below_2_7_feature_versioning_is_disabled_and_its_features_go() -> None:
    disabled, old = Features(is_enabled=False), {"has_feature_versioning": False}

    assert proposed(features(None), **old) == [Create(FEATURE, disabled)]
    assert proposed(features(Features(True, {"some": {}})), **old) == [Set(FEATURE, disabled, ZnodeVersion(3))]
    assert proposed(features(disabled), **old) == []


def test_feature_versioning_is_settled_again_when_someone_else_changes_it() -> None:
    term = Term()
    duty = FeatureVersioning(term.shared)
    term.fold(features(None))
    (commit,) = commits(term.propose(duty))
    assert term.propose(duty) == []  # under way

    term.accept(commit)
    assert term.propose(duty) == []
    term.fold(features(Features(is_enabled=False), zxid=2000))

    assert commits(term.propose(duty))[0].writes == (Set(FEATURE, Features(is_enabled=True), ZnodeVersion(3)),)


# delegation tokens


def token(name: str, expires_ms: int, most_ms: int = 10_000, zxid: int = 5) -> Fact:
    return present(DelegationTokenAddress(name), TokenTimes(expires_ms, most_ms), stat(zxid, version=2))


class Tokens(Term):
    """The duty, in a term that has just begun and whose clock began at a Unix time of 1000 ms."""

    def __init__(self, *tokens: Fact, **settings: float | None) -> None:
        super().__init__(clock_zero_ms=1000, **{"token_expiry_check_s": 60.0, **settings})
        self.duty = DelegationTokens(self.shared)
        self.fold(*tokens)
        self.state.changes.is_beginning = True

    def expired(self) -> list[list[str]]:
        """The tokens that each transaction deletes."""
        return [[w.address.path for w in c.writes if isinstance(w, Delete)] for c in commits(self.propose(self.duty))]

    def woke(self) -> list[Effect]:
        out = self.out()
        self.duty.woke(LookForExpiredTokens(), out)
        return out.effects


def test_tokens_are_read_when_a_term_begins_and_then_again_and_again() -> None:
    tokens = Tokens()
    tokens.now = 7.0

    assert tokens.follow(tokens.duty) == [ReadChildren(ROOT), Wake(LookForExpiredTokens(), 67.0)]
    tokens.now = 67.0
    assert tokens.woke() == [ReadChildren(ROOT), Wake(LookForExpiredTokens(), 127.0)]


def test_without_a_setting_tokens_are_left_alone() -> None:
    tokens = Tokens(token_expiry_check_s=None)

    assert tokens.follow(tokens.duty) == []


def test_an_expired_token_goes_together_with_the_znode_that_tells_the_brokers_and_is_counted() -> None:
    tokens = Tokens(token("old", 900), token("young", 5000))
    tokens.follow(tokens.duty)

    (commit,) = commits(tokens.propose(tokens.duty))

    assert commit.writes == (
        Delete(DelegationTokenAddress("old"), ZnodeVersion(2)),
        Create(DelegationTokenChangeAddress(), TokenChange("old"), is_sequential=True),
    )
    assert commit.why == ("delegation token old has expired",)
    assert tokens.accept(commit) == [Measured("delegation_tokens_expired", 1)]
    assert tokens.expired() == []


def test_a_token_expires_by_its_renewal_or_by_its_age_and_one_that_cannot_be_read_does_not() -> None:
    unread = present(DelegationTokenAddress("unread"), Malformed("no JSON", 3), stat(5))
    tokens = Tokens(token("renewed", 5000, most_ms=900), token("fresh", 5000), unread)
    tokens.follow(tokens.duty)
    assert tokens.expired() == [["/delegation_token/tokens/renewed"]]

    assert tokens.expired() == []
    tokens.now = 4.5
    assert tokens.expired() == []  # no one looks before it is time


def test_tokens_are_judged_by_the_time_of_the_moment_in_unix_time() -> None:
    tokens = Tokens(token("t", 5000))
    tokens.follow(tokens.duty)
    assert tokens.expired() == []

    tokens.now = 4.1
    tokens.woke()

    assert tokens.expired() == [["/delegation_token/tokens/t"]]


def test_a_token_that_was_renewed_at_the_last_moment_stays() -> None:
    tokens = Tokens(token("t", 900))
    tokens.follow(tokens.duty)
    (commit,) = commits(tokens.propose(tokens.duty))

    seen = absent(DelegationTokenChangeAddress(), Zxid(60))
    told = tokens.refuse(commit, token("t", 5000, zxid=60), seen)

    assert not any(isinstance(effect, Measured) for effect in told)
    assert tokens.expired() == []


def test_very_many_tokens_expire_in_parts() -> None:
    tokens = Tokens(*(token(f"t{n:03}", 900) for n in range(AT_ONCE + 5)))
    tokens.follow(tokens.duty)
    (first,) = commits(tokens.propose(tokens.duty))
    assert len(first.writes) == 2 * AT_ONCE
    assert tokens.propose(tokens.duty) == []
    tokens.accept(first)

    assert [len(paths) for paths in tokens.expired()] == [5]


# notifications


def isr_change(number: int) -> Fact:
    return present(IsrChangeAddress(f"isr_change_{number:010}"), IsrChange(()), stat(5))


def names(effects: list[Effect]) -> list[list[str]]:
    return [[w.address.path.rpartition("_")[2].lstrip("0") for w in c.writes] for c in commits(effects)]


class Noted(Term):
    """The duty, with as many ISR changes."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self.duty = Notifications(self.shared)
        self.fold(*(isr_change(n) for n in numbers))

    def turn(self) -> list[Commit]:
        return commits(self.propose(self.duty))

    def see_again(self, commit: Commit) -> None:
        """It was refused, and everything is still there."""
        self.refuse(commit, *(present(write.address, IsrChange(()), stat(5)) for write in commit.writes))


def test_notifications_of_all_kinds_are_deleted_each_kind_being_one_subject() -> None:
    noted = Noted(1, 2)
    noted.fold(
        present(LogDirEventAddress("log_dir_event_0000000001"), LogDirEvent(1), stat(5)),
        present(PreferredElectionAddress(), PreferredElection(()), stat(5, version=4)),
    )

    (commit,) = noted.turn()  # they share a transaction

    assert [(w.address.path, w.expected) for w in commit.writes if isinstance(w, Delete)] == [
        ("/isr_change_notification/isr_change_0000000001", 0),
        ("/isr_change_notification/isr_change_0000000002", 0),
        ("/log_dir_event_notification/log_dir_event_0000000001", 0),
        ("/admin/preferred_replica_election", 4),
    ]
    assert noted.turn() == []
    noted.accept(commit)
    assert noted.state.notifications == {}
    assert noted.turn() == []


def test_a_request_for_preferred_leaders_that_cannot_be_read_is_deleted_too() -> None:
    noted = Noted()
    noted.fold(present(PreferredElectionAddress(), Malformed("no JSON", 3), stat(5, version=2)))

    (commit,) = noted.turn()

    assert [(w.address.path, w.expected) for w in commit.writes if isinstance(w, Delete)] == [
        ("/admin/preferred_replica_election", 2)
    ]


def test_very_many_are_deleted_in_parts() -> None:
    noted = Noted(*range(1, notifications.DELETIONS_AT_ONCE + 3))

    for commit in noted.turn():
        noted.accept(commit)

    assert len(noted.state.notifications) == 2


def test_after_a_refusal_one_goes_at_a_time_another_first_and_all_again_once_one_was_accepted() -> None:
    noted = Noted(1, 2, 3)
    (commit,) = noted.turn()
    assert names([commit]) == [["1", "2", "3"]]
    noted.see_again(commit)
    tried = []
    for _ in range(2):
        (commit,) = noted.turn()
        tried += names([commit])
        noted.see_again(commit)
    assert tried == [["1"], ["2"]]

    (commit,) = noted.turn()  # a new one comes before those that were refused
    assert names([commit]) == [["3"]]
    noted.fold(isr_change(4))
    noted.accept(commit)

    (commit,) = noted.turn()
    assert names([commit]) == [["4", "1", "2"]]


def test_what_can_never_be_deleted_is_tried_more_slowly_in_turn_and_others_get_their_turn() -> None:
    noted = Noted(1, 2)
    tried = []
    for _ in range(back_off.AT_ONCE + 3):
        (commit,) = noted.turn()
        tried += names([commit])
        noted.see_again(commit)
        for subject in list(noted.transactions._waiting):
            assert noted.turn() == []
            noted.transactions.resume(TryAgain(subject), noted.out())

    assert tried == [["1", "2"], ["1"], ["2"], ["1"], ["2"], ["1"]]
