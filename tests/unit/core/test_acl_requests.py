"""Which rights are written and told, and what happens on the way to ZooKeeper?

The stories are in tests/scenarios/acls.txt; here is what they cannot show.
"""

from __future__ import annotations

from controller.core.acls.duty import AT_ONCE_PATTERNS, MOST_TRIES, AclRequests
from controller.core.messages.effects import Answer, Create, Delete, Effect, Read, Set
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked, CallId
from controller.core.messages.replies import (
    AclBinding,
    AclCreated,
    AclsCreated,
    AclsDeleted,
    AclsDescribed,
    AclsFiltered,
)
from controller.core.messages.requests import (
    AclCreation,
    AclFilter,
    AclRequest,
    Caller,
    CreateAcls,
    DeleteAcls,
    DescribeAcls,
)
from controller.core.settings import AuthorizerSettings
from controller.core.transactions.owner import TryAgain
from controller.core.transactions.proposal import Subject
from tests.unit.core.builders import Term, commits
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import ZnodeVersion, Zxid
from zk_layout.znodes.acls import (
    AclAddress,
    AclChangeAddress,
    AclEntry,
    AclOperation,
    Acls,
    PermissionType,
    ResourcePattern,
    ResourceType,
)

ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
HERE = AclAddress(ORDERS)
ANN = AclEntry("User:ann", "*", AclOperation.READ, PermissionType.ALLOW)
BOB = AclEntry("User:bob", "*", AclOperation.READ, PermissionType.ALLOW)
OF_ORDERS = AclFilter(2, "orders", 3, None, None, 1, 1)
ALL = AclFilter(1, None, 1, None, None, 1, 1)
CHANGED = AclChangeAddress()


def creation(name: str = "orders", principal: str = "User:ann") -> AclCreation:
    return AclCreation(2, name, 3, principal, "*", 3, 3)


def entries(version: int, *held: AclEntry) -> Fact:
    at = Zxid(2000 + version)
    return present(HERE, Acls(held), Stat(at, at, ZnodeVersion(version)))


class Desk(Term):
    """The duty, with a ZooKeeper that does what the test says."""

    def __init__(self) -> None:
        super().__init__("1,2", authorizer=AuthorizerSettings())
        self.acls = AclRequests(self.shared)
        self.state.rights.begin()

    def ask(self, call: int, request: AclRequest) -> list[Effect]:
        self.unanswered[CallId(call)] = request
        out = self.out()
        self.acls.admit(Asked(CallId(call), request, Caller("PLAINTEXT", "127.0.0.1")), out)
        return out.effects

    def turn(self) -> list[Effect]:
        return self.follow(self.acls) + self.propose(self.acls)


def created(call: int, *errors: ErrorCode) -> Answer:
    return Answer(CallId(call), AclsCreated(tuple(map(AclCreated, errors))))


def deleted(call: int, *held: AclEntry) -> Answer:
    return Answer(CallId(call), AclsDeleted((AclsFiltered(tuple(AclBinding(ORDERS, e) for e in held)),)))


def answers(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, Answer)]


def test_changes_of_one_pattern_wait_for_each_other() -> None:
    desk = Desk()
    desk.ask(1, CreateAcls((creation(),)))
    desk.ask(2, CreateAcls((creation(principal="User:bob"),)))

    (first,) = commits(desk.turn())
    assert first.writes[0] == Create(HERE, Acls((ANN,)))
    assert desk.turn() == []
    assert answers(desk.accept(first)) == [created(1, ErrorCode.NONE)]
    (second,) = commits(desk.turn())
    assert second.writes[0] == Set(HERE, Acls((ANN, BOB)), ZnodeVersion(0), Zxid(1001))
    assert answers(desk.accept(second)) == [created(2, ErrorCode.NONE)]


def test_what_is_not_known_is_read_before_nothing_is_deleted() -> None:
    """Someone may have created it a moment ago, through a broker."""
    desk = Desk()
    assert desk.ask(1, DeleteAcls((OF_ORDERS,))) == [Read((HERE,))]
    assert desk.turn() == []

    desk.fold(entries(3, ANN))

    (commit,) = commits(desk.turn())
    assert commit.writes[0] == Delete(HERE, ZnodeVersion(3), Zxid(2003))
    assert answers(desk.accept(commit)) == [deleted(1, ANN)]


def test_what_is_absent_is_deleted_without_a_word() -> None:
    desk = Desk()
    desk.ask(1, DeleteAcls((OF_ORDERS,)))
    desk.fold(absent(HERE, Zxid(1500)))
    assert desk.turn() == [deleted(1)]

    desk.ask(2, DeleteAcls((OF_ORDERS,)))
    desk.fold(absent(HERE, Zxid(1500)))
    assert desk.turn() == [deleted(2)], "that it is absent is no news, but it was read"


def test_what_may_not_be_read_is_not_deleted() -> None:
    desk = Desk()
    desk.ask(1, DeleteAcls((OF_ORDERS,)))
    desk.state.refuse(HERE.path, "no permission", HERE)

    (answer,) = answers(desk.turn())

    assert isinstance(answer, Answer)
    assert isinstance(answer.reply, AclsDeleted)
    assert answer.reply.results[0].error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_deletion_whose_answer_was_lost_is_told() -> None:
    desk = Desk()
    desk.fold(entries(3, ANN, BOB))
    desk.ask(1, DeleteAcls((ALL,)))
    (commit,) = commits(desk.turn())

    effects = desk.refuse(commit, absent(HERE, Zxid(3000)), absent(CHANGED, Zxid(3000)))

    assert answers(effects) == [deleted(1, ANN, BOB)]
    assert desk.turn() == []


def test_a_deletion_that_met_another_change_tells_what_it_has_deleted() -> None:
    desk = Desk()
    desk.fold(entries(3, ANN))
    desk.ask(1, DeleteAcls((OF_ORDERS,)))
    (commit,) = commits(desk.turn())

    desk.refuse(commit, entries(4, BOB), absent(CHANGED, Zxid(3000)))

    (again,) = commits(desk.turn())
    assert again.writes[0] == Delete(HERE, ZnodeVersion(4), Zxid(2004))
    assert answers(desk.accept(again)) == [deleted(1, BOB)]


def test_what_is_refused_again_and_again_is_given_up() -> None:
    desk = Desk()
    desk.ask(1, CreateAcls((creation(),)))
    tries = 0
    effects = desk.turn()
    while not answers(effects):
        for commit in commits(effects):
            tries += 1
            desk.refuse(commit, absent(HERE, Zxid(2000 + tries)), absent(CHANGED, Zxid(2000 + tries)))
        effects = desk.turn()
        if not effects:
            desk.transactions.resume(TryAgain(Subject("znode", HERE.path)), desk.out())
            effects = desk.turn()

    assert tries == MOST_TRIES + 1
    (answer,) = answers(effects)
    assert isinstance(answer, Answer)
    assert isinstance(answer.reply, AclsCreated)
    assert answer.reply.results[0].message == f"ZooKeeper refused {tries} consecutive writes of {HERE.path}"
    desk.transactions.resume(TryAgain(Subject("znode", HERE.path)), desk.out())
    desk.ask(2, CreateAcls((creation(),)))
    assert len(commits(desk.turn())) == 1


def test_many_patterns_take_several_turns() -> None:
    desk = Desk()
    desk.ask(1, CreateAcls(tuple(creation(f"topic-{n}") for n in range(AT_ONCE_PATTERNS + 1))))

    first, second = commits(desk.turn()), commits(desk.turn())

    assert (sum(len(c.writes) for c in first), sum(len(c.writes) for c in second)) == (2 * AT_ONCE_PATTERNS, 2)
    told = [effect for commit in first + second for effect in answers(desk.accept(commit))]
    assert told == [created(1, *(ErrorCode.NONE,) * (AT_ONCE_PATTERNS + 1))]


def test_an_operation_of_a_later_kafka_is_shown_to_no_client() -> None:
    desk = Desk()
    desk.fold(entries(0, AclEntry("User:ann", "*", AclOperation.UNKNOWN, PermissionType.ALLOW)))

    assert desk.ask(1, DescribeAcls(ALL)) == [Answer(CallId(1), AclsDescribed((), ErrorCode.UNKNOWN_SERVER_ERROR))]


def test_an_empty_request_is_answered() -> None:
    desk = Desk()

    assert desk.ask(1, CreateAcls(())) == [created(1)]
    assert desk.ask(2, DeleteAcls(())) == [Answer(CallId(2), AclsDeleted(()))]
