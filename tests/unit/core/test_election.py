"""Who leads, who is in sync, and where do replicas live?"""

from __future__ import annotations

import pytest

from controller.core.elections import first_leader, leader_election, preferred_leader
from controller.core.reassignment import own_replica
from controller.core.stage import toward
from controller.core.state.topics import BLANK
from controller.core.state.view import Cluster
from controller.core.steps.change import Change, Look
from tests.unit.core.builders import AT, OWN, Term, case, cluster, ids, state, written
from tests.unit.traps.play import Play, some
from zk_layout.codec import Malformed
from zk_layout.facts import Stat, present
from zk_layout.ids import LeaderEpoch, PartitionId, ZnodeVersion, Zxid
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.partition_state import RECOVERING, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

STAT = Stat(Zxid(1), Zxid(1), ZnodeVersion(0))


def test_the_first_online_in_sync_replica_takes_over_from_a_dead_leader() -> None:
    step = leader_election.next_step(case("1,2,3", 1, "1,3"), cluster("2,3"))

    assert isinstance(step, Change)
    assert step.state == written(3, "3")


def test_a_dead_follower_leaves_the_isr_and_the_leader_stays() -> None:
    step = leader_election.next_step(case("1,2,3", 1, "1,2,3"), cluster("1,3"))

    assert isinstance(step, Change)
    assert step.state == written(1, "1,3")


def test_a_sound_partition_is_left_alone() -> None:
    assert leader_election.next_step(case("1,2", 1, "1,2"), cluster("1,2")) is None


def test_a_leader_that_shuts_down_hands_over() -> None:
    step = leader_election.next_step(case("1,2", 1, "1,2"), cluster("1,2", shutting_down="1"))

    assert isinstance(step, Change)
    assert step.state == written(2, "2")


def test_a_leader_that_shuts_down_without_a_successor_keeps_leading() -> None:
    assert leader_election.next_step(case("1,2", 1, "1"), cluster("1,2", shutting_down="1")) is None


@pytest.mark.parametrize(
    ("isr", "live", "left"),
    [("1,2", "1", "1"), ("2,1", "1", "1"), ("1,2,3", "1,3", "1,3"), ("1,2", "1,3", "1")],
)
def test_the_isr_of_a_leader_that_shuts_down_and_has_no_successor_names_no_one_who_has_gone(
    isr: str, live: str, left: str
) -> None:
    step = leader_election.next_step(case("1,2,3", 1, isr), cluster(live, shutting_down=live))

    assert isinstance(step, Change)
    assert step.state == written(1, left)


def test_an_offline_partition_asks_whether_unclean_election_is_allowed() -> None:
    assert isinstance(leader_election.next_step(case("1,2", 1, "1"), cluster("2")), Look)


def test_without_permission_the_partition_has_no_leader_and_keeps_its_isr() -> None:
    asked = case("1,2", 1, "1", config={})

    step = leader_election.next_step(asked, cluster("2"))

    assert isinstance(step, Change)
    assert step.state == written(-1, "1")


def test_all_who_were_in_sync_when_the_last_of_them_went_may_lead_when_they_are_back() -> None:
    step = leader_election.next_step(case("1,2,3", 1, "1,2", config={}), cluster("3"))

    assert isinstance(step, Change)
    assert step.state == written(-1, "1,2")


def test_the_topics_setting_outweighs_the_brokers_default() -> None:
    asked = case("1,2", 1, "1", config={"unclean.leader.election.enable": "false"})

    step = leader_election.next_step(asked, cluster("2", unclean=True))

    assert isinstance(step, Change)
    assert step.state is not None
    assert step.state.leader == -1


@pytest.mark.parametrize("is_allowed", [True, False])
def test_what_brokers_have_for_themselves_outweighs_what_is_set_for_all_of_them_and_no_topics_setting(
    is_allowed: bool,
) -> None:
    text = str(not is_allowed).lower()
    own = f"set unclean_election_of_brokers={str(is_allowed).lower()}"
    play = Play(own, f"config <default> unclean.leader.election.enable={text}")
    play.do("brokers 1,2", "topic orders 0=1,2", "state orders-0 isr=1", "elect")

    assert bool(some(play.do("broker 1 dies"), "leader=2")) is is_allowed
    assert bool(some(play.do(f"config orders unclean.leader.election.enable={text}"), "leader=2")) is not is_allowed


def test_an_unclean_leader_is_alone_in_sync_and_recovers() -> None:
    asked = case("1,2", 1, "1", config={"unclean.leader.election.enable": "true"})

    step = leader_election.next_step(asked, cluster("2"))

    assert isinstance(step, Change)
    assert step.state is not None
    assert (step.state.leader, step.state.isr, step.state.leader_recovery_state) == (2, ids("2"), RECOVERING)


UNCLEAN = {"unclean.leader.election.enable": "true"}


def hiding(live: str, hidden: str, *, may_be_read: bool) -> Cluster:
    """Some brokers are registered, and what the registrations of some others say cannot be read."""
    term = Term(live)
    for address in map(BrokerAddress, ids(hidden)):
        if may_be_read:
            term.fold(present(address, Malformed("not JSON", 0), STAT))
        else:
            term.state.refuse(address.path, f"{address.path}: no right to read", address)
    return term.cluster


@pytest.mark.parametrize("may_be_read", [True, False])
@pytest.mark.parametrize(("leader", "isr"), [(2, "1,2"), (-1, "1"), (-1, "2,1")])
def test_no_one_is_elected_uncleanly_while_an_in_sync_replica_lives_that_cannot_be_talked_to(
    leader: int, isr: str, may_be_read: bool
) -> None:
    for asked in (case("1,2,3", leader, isr), case("1,2,3", leader, isr, config=UNCLEAN)):
        step = leader_election.next_step(asked, hiding("3", "1", may_be_read=may_be_read))

        assert step is None if leader == -1 else isinstance(step, Change) and step.state == written(-1, isr)


def test_whether_a_replica_that_is_not_in_sync_can_be_talked_to_does_not_matter_to_an_unclean_election() -> None:
    step = leader_election.next_step(case("1,2,3", 2, "2", config=UNCLEAN), hiding("3", "1", may_be_read=True))

    assert isinstance(step, Change)
    assert step.state is not None
    assert step.state.leader == 3


def test_a_leader_that_cannot_be_talked_to_leads_on_unless_another_replica_is_in_sync() -> None:
    there = hiding("2,3", "1", may_be_read=True)

    assert leader_election.next_step(case("1,2,3", 1, "1", config=UNCLEAN), there) is None
    step = leader_election.next_step(case("1,2,3", 1, "1,3", config=UNCLEAN), there)
    assert isinstance(step, Change)
    assert step.state == written(3, "3")


def test_a_replica_being_let_go_is_no_candidate() -> None:
    asked = case("3,1", 3, "3", adding="3", removing="1", config={"unclean.leader.election.enable": "true"})

    step = leader_election.next_step(asked, cluster("1"))

    assert isinstance(step, Change)
    assert step.state is not None
    assert step.state.leader == -1


CATCHING_UP = case("3,4,1,2", 3, "3", adding="3,4", removing="1,2", config={"unclean.leader.election.enable": "true"})


def test_an_added_replica_that_never_was_in_sync_is_no_candidate() -> None:
    step = leader_election.next_step(CATCHING_UP, cluster("4"))

    assert isinstance(step, Change)
    assert step.state == written(-1, "3")


def test_an_added_replica_that_was_in_sync_leads_rather_than_one_that_was_sent_a_deletion() -> None:
    term = Term("1,2,4")
    term.memory.brokers.logs_deleted[AT] = frozenset(ids("1,2"))
    term.memory.brokers.caught_up[AT] = frozenset(ids("4"))

    step = leader_election.next_step(CATCHING_UP, term.cluster)

    assert isinstance(step, Change)
    assert step.state is not None
    assert step.state.leader == 4


def test_a_replica_with_nothing_leads_only_if_a_person_asks_and_no_one_else_is_there() -> None:
    term = Term("1,2")
    term.memory.brokers.logs_deleted[AT] = frozenset(ids("1"))
    assert leader_election.elect_any(CATCHING_UP, term.cluster) == leader_election.next_step(CATCHING_UP, term.cluster)

    term.memory.brokers.logs_deleted[AT] = frozenset(ids("1,2"))
    step = leader_election.next_step(CATCHING_UP, term.cluster)
    assert isinstance(step, Change)
    assert step.state == written(-1, "3")

    asked = leader_election.elect_any(CATCHING_UP, term.cluster)
    assert asked is not None
    assert asked.state is not None
    assert asked.state.leader == 1


def test_a_replica_that_joins_the_isr_has_records_again() -> None:
    term = Term("1,2,3")
    said = term.memory.brokers
    moving = Assignment(ids("3,1"), ids("3"), ids("1"))

    def becomes(isr: str) -> None:
        former = term.cluster.partition(AT) or BLANK
        term.zxid += 1
        at = Stat(Zxid(1), Zxid(term.zxid), ZnodeVersion(1))
        term.fold(present(StateAddress(AT.topic, AT.partition), state(3, isr), at))
        held = term.cluster.partition(AT)
        assert held is not None
        said.note_in_sync(AT, held, former)

    term.fold(present(TopicAddress(AT.topic), Topic({AT.partition: moving}), STAT))
    becomes("1")
    said.note_log_deletion(AT, ids("1")[0])
    becomes("1,3")
    becomes("3")
    assert (said.logs_deleted[AT], said.caught_up[AT]) == (
        frozenset(ids("1")),
        frozenset(ids("3")),
    )

    becomes("3,1")
    assert AT not in said.logs_deleted

    said.note_log_deletion(AT, ids("1")[0])
    said.forget_topic(AT.topic, [AT.partition])
    assert not said.logs_deleted
    assert not said.caught_up


def test_a_new_partition_is_led_by_its_first_online_replica() -> None:
    step = first_leader.next_step(case("1,2,3"), cluster("2,3"))

    assert isinstance(step, Change)
    assert step.state == written(2, "2,3", leader_epoch=LeaderEpoch(0))


def test_a_new_partition_without_online_replicas_waits() -> None:
    assert first_leader.next_step(case("1,2"), cluster("3")) is None


def test_a_new_partition_whose_topic_names_a_broker_twice_has_no_leader_until_it_is_reassigned() -> None:
    play = Play("brokers 1,2,3", "elect")

    lines = play.do("create topic orders 0=1,1,2 1=2,3")

    (notice,) = some(lines, "notice (set aside)")
    assert "/brokers/topics/orders gives orders-0 the replicas [1, 1, 2], with a broker twice" in notice
    assert "reassign it to replicas that name each broker once" in notice
    assert some(lines, "new partition orders-1: 2 leads")

    lines = play.do("ask reassign orders-0 to=1,2", "time +1s")

    assert some(lines, "new partition orders-0: 1 leads, ISR [1, 2]")
    assert play.theatre.machine is not None
    assert play.theatre.machine.quarantined() == ()


def test_an_isr_that_names_a_broker_twice_is_written_without_repetition() -> None:
    step = leader_election.next_step(case("1,2,3", leader=1, isr="1,2,2,3"), cluster("2,3"))

    assert isinstance(step, Change)
    assert step.state == written(2, "2,3")


def test_a_move_of_replicas_that_name_a_broker_twice_names_each_once() -> None:
    assert toward(Assignment(ids("1,2,2")), ids("1,3")) == Assignment(ids("1,3,2"), ids("3"), ids("2"))


def test_our_own_id_is_replaced_before_the_first_election() -> None:
    named = case(f"{OWN},2")

    step = own_replica.next_step(named, cluster("1,2"))

    assert isinstance(step, Change)
    assert (step.assignment, step.state) == (Assignment(ids("1,2")), None)
    assert str(named.at) in step.why


def test_our_own_id_stays_where_no_other_broker_is_left() -> None:
    named = case(f"{OWN},2")
    assert own_replica.next_step(named, cluster("2")) is None

    step = first_leader.next_step(named, cluster("2"))

    assert isinstance(step, Change)
    assert step.state == written(2, "2", leader_epoch=0)
    assert step.notice is not None


def test_a_partition_that_had_a_leader_is_moved_away_from_our_id() -> None:
    step = own_replica.next_step(case(f"2,{OWN}", 2, "2"), cluster("1,2"))

    assert isinstance(step, Change)
    assert step.assignment == Assignment((*ids("2,1"), OWN), ids("1"), (OWN,))


def preferring(live: str) -> Cluster:
    """A cluster in which the preferred leader of the partition was asked for."""
    made = Term(live)
    made.memory.elections.preferring[AT] = None
    return made.cluster


def test_the_preferred_replica_leads_again_when_asked_and_in_sync() -> None:
    step = preferred_leader.next_step(case("1,2", 2, "2,1"), preferring("1,2"))

    assert isinstance(step, Change)
    assert step.state == written(1, "2,1")


def test_no_one_is_preferred_without_being_asked() -> None:
    assert preferred_leader.next_step(case("1,2", 2, "2,1"), cluster("1,2")) is None


def test_a_preferred_replica_that_lags_or_is_offline_does_not_lead() -> None:
    assert preferred_leader.next_step(case("1,2", 2, "2"), preferring("1,2")) is None
    assert preferred_leader.next_step(case("1,2", 2, "2,1"), preferring("2")) is None


def test_a_moving_partition_keeps_its_leader() -> None:
    assert preferred_leader.next_step(case("1,2,3", 2, "2,1", removing="3"), preferring("1,2,3")) is None


def test_only_brokers_that_lead_too_few_of_their_own_get_leadership_back() -> None:
    made = Term("1,2")
    facts = [(0, "1,2"), (1, "1,2"), (2, "2,1")]
    made.fold(present(TopicAddress(AT.topic), Topic({PartitionId(n): Assignment(ids(r)) for n, r in facts}), STAT))
    led_by_others = {AT.topic: {PartitionId(2): None, PartitionId(0): None}}

    def unbalanced(percentage: int) -> list[int]:
        found = list(preferred_leader.unbalanced(made.cluster, led_by_others, percentage))
        assert found[:2] == [None, None]  # a caller may stop before it knows enough
        return [at.partition for at in found if at is not None]

    assert unbalanced(50) == [2]
    assert unbalanced(49) == [0, 2]
