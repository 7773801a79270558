"""What does a term say about the rights that it has judged?"""

from __future__ import annotations

from controller.core.clients.decisions import MOST_LOGGED
from controller.core.messages.effects import Decided, Decision
from controller.core.messages.events import Asked, CallId, Loaded
from controller.core.messages.requests import (
    Caller,
    CreateTopics,
    DescribeCluster,
    ElectLeaders,
    ListReassignments,
    NewTopic,
    Request,
)
from tests.unit.core.test_rights import Term, observed
from zk_layout.facts import Fact, Stat, present
from zk_layout.ids import TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.acls import (
    AclAddress,
    AclEntry,
    AclOperation,
    Acls,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)

BOB = Caller("OUTSIDE", "10.0.0.2", "tool", "User:bob")
CLUSTER = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
OWN = ResourcePattern(ResourceType.TOPIC, "own-", PatternType.PREFIXED)
WHY = "ACL of {}: User:bob has Allow permission for operations: {} from hosts: *"


def given(resource: ResourcePattern, operation: AclOperation) -> Fact:
    acls = Acls((AclEntry("User:bob", "*", operation, PermissionType.ALLOW),))
    return present(AclAddress(resource), acls, Stat(Zxid(1), Zxid(1), ZnodeVersion(0)))


def decided(term: Term, request: Request) -> list[Decided]:
    effects = term.turn(Asked(CallId(1), request, BOB))
    return [effect for effect in effects if isinstance(effect, Decided)]


def bobs_term() -> Term:
    return Term(observed(given(CLUSTER, AclOperation.DESCRIBE), given(OWN, AclOperation.CREATE)), Loaded())


def topics(*names: str) -> CreateTopics:
    return CreateTopics(tuple(NewTopic(TopicName(name), 1, 1) for name in names))


def test_what_is_denied_and_what_is_allowed_is_said_with_the_reason() -> None:
    term = bobs_term()

    assert decided(term, ElectLeaders(None)) == [
        Decided(BOB, "ElectLeaders", (Decision(AclOperation.ALTER, CLUSTER, False, "no ACL allows it"),))
    ]
    why = WHY.format("Cluster:LITERAL:kafka-cluster", "Describe")
    assert decided(term, ListReassignments(None)) == [
        Decided(BOB, "ListReassignments", (Decision(AclOperation.DESCRIBE, CLUSTER, True, why),))
    ]


def test_topics_are_logged_one_by_one_and_a_right_that_need_not_be_there_only_where_it_is() -> None:
    allowed, denied = decided(bobs_term(), topics("own-1", "other"))

    why = WHY.format("Topic:PREFIXED:own-", "Create")
    own, other = (ResourcePattern(ResourceType.TOPIC, name) for name in ("own-1", "other"))
    assert allowed.decisions == (Decision(AclOperation.CREATE, own, True, why),)
    assert denied.decisions == (Decision(AclOperation.CREATE, other, False, "no ACL found"),)


def test_of_very_many_only_the_first_are_told() -> None:
    (denied,) = decided(bobs_term(), topics(*(f"t{number}" for number in range(100))))

    assert (len(denied.decisions), denied.untold) == (MOST_LOGGED, 100 - MOST_LOGGED)


def test_where_no_one_judges_and_of_what_everybody_may_ask_nothing_is_said() -> None:
    assert decided(Term(Loaded(), has_authorizer=False), ElectLeaders(None)) == []
    assert decided(bobs_term(), DescribeCluster(None)) == []
