"""What is asked about topics is decided as Kafka's own controller decides it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.clients.authorization import CLUSTER
from controller.core.elections import elect_leaders
from controller.core.elections.duty import Elections
from controller.core.messages.effects import Answer
from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.events import Asked, CallId
from controller.core.messages.replies import LeadersElected, PartitionsCreated, TopicsCreated, TopicsDeleted
from controller.core.messages.requests import (
    Caller,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Election,
    ElectLeaders,
    Growth,
    NewTopic,
    TopicReference,
    TopicRequest,
)
from controller.core.seeded_random import SeededRandom
from controller.core.settings import TopicDefaults
from controller.core.state import topic_names
from controller.core.steps.change import Change
from controller.core.topics import configs, create_partitions, create_topics
from controller.core.topics.create_topics import Plan
from controller.core.topics.duty import Topics
from tests.unit.core.builders import AT, OWN, Term, case, cluster, ids, registration, written
from tests.unit.traps.play import Play, some
from zk_layout.facts import Stat, present
from zk_layout.ids import BrokerId, PartitionId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.acls import AclOperation, ResourcePattern, ResourceType
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress


def considered(
    wanted: NewTopic, live: str = "1,2,3", racks: Mapping[int, str | None] | None = None, seed: bytes = b"0"
) -> object:
    there = Term(live) if racks is None else racked(racks)
    return create_topics.consider(wanted, (), TopicDefaults(4, 2), there.cluster, SeededRandom(seed))


def racked(racks: Mapping[int, str | None]) -> Term:
    """Brokers with racks; a rack of None is none. Our own node has one too, and counts for nothing."""
    made = Term()
    made.fold(*(registration(BrokerId(n), rack, zxid=1000) for n, rack in {**racks, OWN: "ours"}.items()))
    return made


def error_of(outcome: object) -> ErrorCode:
    assert isinstance(outcome, Refusal)
    return outcome.error


def test_an_election_of_a_kind_that_kafka_does_not_know_is_refused() -> None:
    term = Term("1,2")
    request = ElectLeaders((AT,), is_known_kind=False)
    term.unanswered[CallId(1)] = request
    out = term.out()

    Elections(term.shared, term.memory.elections).admit(
        Asked(CallId(1), request, Caller("PLAINTEXT", "127.0.0.1")), out
    )

    (answer,) = out.effects
    assert isinstance(answer, Answer)
    assert isinstance(answer.reply, LeadersElected)
    assert answer.reply.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert [result.error for result in answer.reply.results] == [ErrorCode.UNKNOWN_SERVER_ERROR]


# creation


@given(live=st.sets(st.integers(1, 9), min_size=1), seed=st.binary(max_size=4), data=st.data())
def test_a_new_topic_is_spread_evenly_over_the_real_brokers_and_never_over_us(
    live: set[int], seed: bytes, data: st.DataObject
) -> None:
    count, factor = data.draw(st.integers(1, 30)), data.draw(st.integers(1, len(live)))

    plan = considered(NewTopic("t", count, factor), ",".join(map(str, live)), seed=seed)

    assert isinstance(plan, Plan)
    replicas = [assignment.replicas for assignment in plan.assignments.values()]
    led = [sum(r[0] == broker for r in replicas) for broker in live]
    assert list(plan.assignments) == list(range(count))
    assert max(led) - min(led) <= 1
    assert all(len(set(r)) == factor and set(r) <= live for r in replicas)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=8), st.integers(1, 8))
def test_replicas_are_in_different_racks_while_there_are_racks_left(racks: list[str], factor: int) -> None:
    of = dict(enumerate(racks, 1))

    plan = considered(NewTopic("t", 6, min(factor, len(of))), racks=of)

    assert isinstance(plan, Plan)
    for assignment in plan.assignments.values():
        used = {of[broker] for broker in assignment.replicas}
        assert len(used) == min(len(assignment.replicas), len(set(racks)))


def test_where_only_some_brokers_have_racks_a_new_topic_ignores_them() -> None:
    assert isinstance(considered(NewTopic("t", 3, 2), racks={1: "a", 2: "a", 3: None}), Plan)


def test_what_is_left_open_is_as_the_cluster_has_it() -> None:
    plan = considered(NewTopic("t"))

    assert isinstance(plan, Plan)
    assert (len(plan.assignments), plan.replication_factor) == (4, 2)


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (NewTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", 2**31 - 1, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, -1, ((0, (1,)),)), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", -1, 1, ((0, (1,)),)), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", assignments=((0, (1,)), (2, (1,)))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments=((0, (1,)), (0, (1,)))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments=((0, (1,)), (1, (1, 2)))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments=((0, ()),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments=((0, (1, 1)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments=((0, (-1,)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments=((0, (1, int(OWN))),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", 1, 1, configs=(("retention.ms", None),)), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, 1, configs=(("retention.ms", "soon"),)), ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_kafkas_error(wanted: NewTopic, error: ErrorCode) -> None:
    assert error_of(considered(wanted)) == error


def test_replicas_on_brokers_that_are_down_or_unknown_are_taken_as_by_kafka() -> None:
    assert isinstance(considered(NewTopic("t", assignments=((0, (1, 77)),))), Plan)


@pytest.mark.parametrize(
    ("name", "is_legal"),
    [
        ("orders", True), ("a.b_c-D9", True), ("x" * 249, True),
        ("", False), (".", False), ("..", False), ("x" * 250, False), ("a/b", False), ("a b", False), ("é", False),
        ("a\n", False),
    ],
)  # fmt: skip
def test_names_are_legal_as_in_kafka(name: str, is_legal: bool) -> None:
    assert (topic_names.problem_of(name) is None) == is_legal


def test_a_topic_named_twice_in_a_request_is_refused_each_time() -> None:
    refusals = create_topics.refuse_within(CreateTopics((NewTopic("t"), NewTopic("u"), NewTopic("t"))))

    assert [r and r.error for r in refusals] == [ErrorCode.INVALID_REQUEST, None, ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("retention.ms", ("-1", " 60000 ", str(2**63 - 1)), ("-2", "1.5", "", str(2**63), "1_000", "soon")),
        ("min.insync.replicas", ("1", "3"), ("0", str(2**31))),
        ("cleanup.policy", ("compact", "delete,compact"), ("compress", "compact;delete")),
        ("compression.type", ("zstd", "producer"), ("none", "ZSTD")),
        ("min.cleanable.dirty.ratio", ("0", "0.5", "1"), ("1.1", "-0.1", "half", "nan")),
        ("preallocate", ("true", "FALSE"), ("yes", "1")),
        ("leader.replication.throttled.replicas", ("*", "0:1,1:2", ""), ("0", "0:1;1:2", "*,0:1")),
        ("message.timestamp.type", ("CreateTime",), ("createtime",)),
        ("message.format.version", ("2.4", "3.0-IV1", "0.11.0"), ("new",)),
    ],
)
def test_settings_have_kafkas_types_and_ranges(name: str, good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    assert [value for value in good if configs.problem_of({name: value})] == []
    assert [value for value in bad if not configs.problem_of({name: value})] == []


def test_compaction_lags_must_fit_together() -> None:
    lags = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}

    assert "conflict" in (configs.problem_of(lags) or "")


# growth


def growing(partitions: dict[int, str], wanted: Growth, live: str = "1,2,3", there: Term | None = None) -> object:
    made = Term(live) if there is None else there
    topic = Topic({PartitionId(n): Assignment(ids(replicas)) for n, replicas in partitions.items()})
    made.fold(present(TopicAddress(TopicName("t")), topic, Stat(Zxid(1), Zxid(1), ZnodeVersion(0))))
    return create_partitions.consider(wanted, made.cluster.topics[TopicName("t")], made.cluster)


def test_new_partitions_go_on_behind_the_first_replica_of_the_first_partition() -> None:
    assert growing({0: "2,3", 1: "3,1"}, Growth("t", 4)) == {2: (1, 3), 3: (2, 3)}


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 3))
def test_what_exists_is_never_touched_and_the_number_of_replicas_stays(now: int, more: int, factor: int) -> None:
    held = {n: ",".join(map(str, (1, 2, 3)[:factor])) for n in range(now)}

    added = growing(held, Growth("t", now + more))

    assert isinstance(added, dict)
    assert set(added) == set(range(now, now + more))
    assert all(len(set(r)) == factor and OWN not in r for r in added.values())


@pytest.mark.parametrize(
    ("partitions", "wanted", "error"),
    [
        ({0: "1"}, Growth("t", 1), ErrorCode.INVALID_PARTITIONS),
        ({0: "1", 1: "2"}, Growth("t", 1), ErrorCode.INVALID_PARTITIONS),
        ({0: "1"}, Growth("t", 2**31 - 1), ErrorCode.INVALID_PARTITIONS),
        ({0: "1,2,3,4"}, Growth("t", 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        ({0: "1"}, Growth("t", 3, ((1,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: "1"}, Growth("t", 2, ((9,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: "1"}, Growth("t", 2, ((OWN,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: "1,2"}, Growth("t", 2, ((1,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: "1,2"}, Growth("t", 2, ((1, 1),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: "1"}, Growth("t", 2, ((),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: "1", 2: "1"}, Growth("t", 3), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_growth_that_cannot_be_is_refused_with_kafkas_error(
    partitions: dict[int, str], wanted: Growth, error: ErrorCode
) -> None:
    assert error_of(growing(partitions, wanted)) == error


def test_partly_known_racks_forbid_a_growth_as_in_kafka() -> None:
    there = racked({1: "a", 2: None})

    assert error_of(growing({0: "1"}, Growth("t", 2), there=there)) == ErrorCode.UNKNOWN_SERVER_ERROR


# elections


def test_the_first_replica_leads_again_where_it_is_in_sync_and_the_isr_stays() -> None:
    change = elect_leaders.consider(Election(), case("1,2", 2, "2,1"), cluster("1,2"))

    assert isinstance(change, Change)
    assert change.state == written(1, "2,1")


@pytest.mark.parametrize(
    ("isr", "live", "leader", "error"),
    [
        ("2,1", "1,2", 1, ErrorCode.ELECTION_NOT_NEEDED),
        ("2", "1,2", 2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        ("2,1", "2", 2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    ],
)
def test_the_preferred_replica_cannot_always_lead(isr: str, live: str, leader: int, error: ErrorCode) -> None:
    assert error_of(elect_leaders.consider(Election(), case("1,2", leader, isr), cluster(live))) == error


def test_a_first_replica_that_is_being_added_leads_as_soon_as_it_is_in_sync() -> None:
    moving = case("3,1,2", 1, "1,2,3", adding="3", removing="2")

    change = elect_leaders.consider(Election(), moving, cluster("1,2,3"))

    assert isinstance(change, Change)
    assert change.state == written(3, "1,2,3")


def test_any_replica_leads_only_where_none_in_sync_can_and_then_records_may_be_lost() -> None:
    wanted = Election(is_unclean=True)
    clean = elect_leaders.consider(wanted, case("1,2,3", -1, "2,3"), cluster("1,3"))
    unclean = elect_leaders.consider(wanted, case("1,2,3", -1, "2"), cluster("1,3"))

    assert isinstance(clean, Change)
    assert clean.state == written(3, "3")
    assert isinstance(unclean, Change)
    assert unclean.state is not None
    assert (unclean.state.leader, unclean.state.isr, unclean.state.leader_recovery_state) == (1, (1,), 1)


@pytest.mark.parametrize(
    ("leader", "live", "error"),
    [
        (1, "1,2", ErrorCode.ELECTION_NOT_NEEDED),
        (-1, "", ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
def test_an_unclean_election_needs_a_reason_and_a_replica(leader: int, live: str, error: ErrorCode) -> None:
    assert error_of(elect_leaders.consider(Election(True), case("1,2", leader, "1"), cluster(live))) == error


def test_no_one_is_elected_uncleanly_while_a_leader_that_shuts_down_leads_on() -> None:
    wanted = Election(is_unclean=True)
    alone = elect_leaders.consider(wanted, case("1,2", 1, "1"), cluster("1,2", shutting_down="1"))
    followed = elect_leaders.consider(wanted, case("1,2", 1, "1,2"), cluster("1,2", shutting_down="1"))

    assert error_of(alone) == ErrorCode.ELECTION_NOT_NEEDED
    assert isinstance(followed, Change)
    assert followed.state == written(2, "2")


def test_a_partition_that_does_not_exist_elects_no_one() -> None:
    refusal = elect_leaders.consider(Election(), None, cluster("1"))

    assert error_of(refusal) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# who may


def refused_at_once(term: Term, request: TopicRequest) -> list[ErrorCode]:
    """The errors of the parts that are refused at once; the others are given up by hand, so that there is an answer."""
    ask, out = CallId(1), term.out()
    term.unanswered[ask] = request
    Topics(term.shared, term.memory.topics).admit(Asked(ask, request, Caller("PLAINTEXT", "127.0.0.1")), out)
    term.shared.requests.give_up(ask, out)
    (reply,) = (effect.reply for effect in out.effects if isinstance(effect, Answer))
    assert isinstance(reply, TopicsCreated | TopicsDeleted | PartitionsCreated)
    return [result.error for result in reply.results if result.error is not ErrorCode.REQUEST_TIMED_OUT]


def divided(request: TopicRequest, *allowed: tuple[AclOperation, ResourcePattern]) -> list[ErrorCode]:
    """The same for a caller who may do only this."""
    return refused_at_once(
        Term("1", is_allowed=lambda _, operation, resource: (operation, resource) in allowed), request
    )


def test_each_topic_needs_its_own_right_or_the_cluster_gives_it() -> None:
    mine, denied = ResourcePattern(ResourceType.TOPIC, "mine"), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    create = CreateTopics((NewTopic("mine"), NewTopic("theirs")))
    delete = DeleteTopics((TopicReference("mine"), TopicReference("theirs")))
    grow = CreatePartitions((Growth("mine", 2), Growth("theirs", 2)))

    assert divided(create, (AclOperation.CREATE, mine)) == [denied]
    assert divided(create, (AclOperation.CREATE, CLUSTER)) == []
    assert divided(create) == [denied, denied]
    assert divided(delete, (AclOperation.DELETE, mine)) == [denied]
    assert divided(grow, (AclOperation.ALTER, mine)) == [denied]


def test_where_topics_may_not_be_deleted_old_clients_get_an_error_they_know() -> None:
    topics = (TopicReference("t"),)
    old = DeleteTopics(topics, knows_deletion_disabled=False)

    assert refused_at_once(Term("1", deletes_topics=False), DeleteTopics(topics)) == [ErrorCode.TOPIC_DELETION_DISABLED]
    assert refused_at_once(Term("1", deletes_topics=False), old) == [ErrorCode.INVALID_REQUEST]
    assert refused_at_once(Term("1"), old) == []


def test_a_topic_that_only_a_java_class_could_judge_is_not_created_and_everything_else_goes_on() -> None:
    play = Play('set creation_policy="com.acme.Policy"', "brokers 1,2", "topic orders 0=1", "elect")

    for request in ("ask create clicks partitions=1 replicas=1", "ask create clicks partitions=1 replicas=1 validate"):
        (answer,) = some(play.do(request), "answer")
        assert "POLICY_VIOLATION" in answer
        assert "judged by com.acme.Policy (create.topic.policy.class.name)" in answer
    assert "TOPIC_ALREADY_EXISTS" in str(play.do("ask create orders partitions=1 replicas=1"))
    assert "INVALID_REPLICATION_FACTOR" in str(play.do("ask create clicks partitions=1 replicas=9"))

    assert some(play.do("ask create __consumer_offsets partitions=1 replicas=1"), "answer", "NONE")
    assert some(play.do("ask grow orders partitions=2"), "answer", "NONE")
    assert some(play.do("ask delete orders"), "answer", "NONE")
