"""The brokers' common settings apply where the operator has set none; where brokers differ, the most protective one
does."""

from __future__ import annotations

import asyncio

import pytest

from controller.core.candidacy.events import ProtocolChanged
from controller.core.settings import MachineSettings
from controller.preflight.brokers_protocol import REMEMBERED_S
from controller.preflight.inheriting import BrokerSettings, inherited
from controller.process.machine_settings import machine_settings
from controller.settings.kinds import AUTHORIZERS
from controller.settings.preflight import PROTECTING
from tests.simulation.zookeeper import RemoveNode
from tests.unit.preflight.world import Broker, World

UNCLEAN = "unclean.leader.election.enable"
NOTHING: frozenset[str] = frozenset()
LAX = {
    UNCLEAN: "true",
    "delete.topic.enable": "true",
    "auto.leader.rebalance.enable": "true",
    "num.partitions": "12",
    "default.replication.factor": "2",
    "min.insync.replicas": "2",
    "leader.imbalance.check.interval.seconds": "30",
    "leader.imbalance.per.broker.percentage": "1",
    "controller.quota.window.num": "20",
    "controller.quota.window.size.seconds": "5",
    "delegation.token.expiry.check.interval.ms": "9999999",
}
STRICT = {
    UNCLEAN: "false",
    "delete.topic.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "num.partitions": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "3",
    "leader.imbalance.check.interval.seconds": "600",
    "leader.imbalance.per.broker.percentage": "50",
    "controller.quota.window.num": "2",
    "controller.quota.window.size.seconds": "1",
    "delegation.token.expiry.check.interval.ms": "1000",
}


def deleting(text: str) -> Broker:
    """A broker with this value of delete.topic.enable."""
    return Broker(settings={"delete.topic.enable": text})


def next_term(world: World) -> MachineSettings:
    """The settings of the next term."""

    async def built() -> MachineSettings:
        claimant = world.claimant
        return machine_settings(world.settings.term, claimant.protocol, None, claimant.inherited)

    return asyncio.run(built())


# what follows from the brokers' reports


def test_everything_that_a_controller_decides_by_is_asked_for() -> None:
    assert LAX.keys() == STRICT.keys() == PROTECTING.keys()


def test_where_all_brokers_agree_they_decide() -> None:
    values = inherited([BrokerSettings(LAX)] * 2, NOTHING).values

    assert {key: str(value).lower() for key, value in values.items()} == LAX


def test_where_brokers_differ_the_value_that_protects_most_decides() -> None:
    values = inherited([BrokerSettings(LAX), BrokerSettings(STRICT)], NOTHING).values

    assert {key: str(value).lower() for key, value in values.items()} == STRICT


def test_what_the_operator_has_set_is_taken_from_no_broker() -> None:
    found = inherited([BrokerSettings(LAX, {UNCLEAN: "true"})], frozenset({UNCLEAN, "num.partitions"}))

    assert found.values.keys() == LAX.keys() - {UNCLEAN, "num.partitions"}
    assert found.unclean_election is None


def test_a_value_that_cannot_be_read_is_none() -> None:
    assert inherited([BrokerSettings({"num.partitions": "-7"})], NOTHING).values == {}


@pytest.mark.parametrize(
    ("own", "decides"),
    [
        (["true", "true"], True),
        (["true", None], None),
        (["true", "false"], False),
        ([None, "false"], False),
        ([None, None], None),
    ],
)
def test_an_unclean_election_that_brokers_allow_for_themselves_has_to_be_allowed_by_all(
    own: list[str | None], decides: bool | None
) -> None:
    brokers = [BrokerSettings({}, {} if text is None else {UNCLEAN: text}) for text in own]

    assert inherited(brokers, NOTHING).unclean_election is decides


# what a process makes of it


def test_no_topic_is_deleted_that_no_broker_would_delete_from_the_first_claim_on() -> None:
    world = World().runs(deleting("false"), deleting("false"))
    world.passes()

    assert next_term(world).deletes_topics is False


def test_what_is_set_explicitly_counts_although_all_brokers_have_something_else() -> None:
    world = World("delete.topic.enable=true").runs(deleting("false"))
    world.passes()

    assert next_term(world).deletes_topics is True


def test_what_is_set_at_run_time_for_all_brokers_is_left_to_zookeeper_and_for_one_broker_is_not() -> None:
    for text, below, of_brokers in (("!true", False, None), ("!!true", False, True), ("true", True, None)):
        world = World().runs(Broker(settings={UNCLEAN: text}))
        world.passes()
        term = next_term(world)
        assert (term.unclean_election, term.unclean_election_of_brokers) == (below, of_brokers)


def test_until_a_broker_has_answered_nothing_is_deleted_and_no_request_is_dropped() -> None:
    world = World(is_new_cluster=True)
    world.passes()
    assert next_term(world).deletes_topics is None
    assert next_term(World("delete.topic.enable=true")).deletes_topics is True

    world.starts(deleting("false"))
    world.goes_on(10.0)

    assert next_term(world).deletes_topics is False
    assert "they are known now" not in str(world.emitted)
    assert "delete.topic.enable is false now, and was not known" in str(world.emitted)


@pytest.mark.parametrize(("given", "terms"), [((), 1), (("delete.topic.enable=true",), 0)])
def test_that_defaults_become_known_begins_a_new_term_only_where_deletions_have_waited(
    given: tuple[str, ...], terms: int
) -> None:
    world = World(*given, is_new_cluster=True)
    world.passes()

    world.starts(deleting("true"))
    world.goes_on(10.0)

    assert next_term(world).deletes_topics is True
    assert len(changed(world)) == terms


def test_brokers_that_refuse_to_tell_leave_what_is_in_the_file_or_kafkas_default() -> None:
    world = World(f"authorizer.class.name={AUTHORIZERS[0]}").runs(Broker(protocol=None))
    world.passes()

    assert next_term(world).deletes_topics is True


def test_a_roll_of_the_brokers_is_followed_at_the_first_that_protects_and_the_last_that_does_not() -> None:
    world = World().runs(deleting("true"), deleting("true"))
    world.passes()

    for number, text, expected, changes in ((1, "false", False, 1), (2, "false", False, 1), (1, "true", False, 1)):
        world.restarts(number, deleting(text))
        world.goes_on(10.0)
        assert (next_term(world).deletes_topics, len(changed(world))) == (expected, changes)
    world.restarts(2, deleting("true"))
    world.goes_on(10.0)

    assert next_term(world).deletes_topics is True
    assert changed(world)[1:] == ["settings of the brokers: delete.topic.enable is true now, and was false"]


def test_a_newer_broker_that_also_reports_a_default_begins_no_new_term() -> None:
    """Brokers before 2.7 have no quotas on changes of topics: the first upgraded one reports Kafka's default of 11."""
    world = World().runs(deleting("true"), deleting("true"))
    world.passes()

    for windows, changes in (("11", 0), ("7", 1)):
        world.restarts(1, Broker(settings={"delete.topic.enable": "true", "controller.quota.window.num": windows}))
        world.goes_on(10.0)
        assert len(changed(world)) == changes


def test_a_broker_that_is_away_counts_as_it_was_for_a_while() -> None:
    world = World().runs(deleting("true"), deleting("false"))
    world.passes()

    world.ensemble.write(RemoveNode("/brokers/ids/2"))
    world.goes_on(REMEMBERED_S - 60.0)
    assert next_term(world).deletes_topics is False
    world.goes_on(180.0)
    assert next_term(world).deletes_topics is True


def test_what_is_set_for_one_broker_at_run_time_is_noticed_within_seconds() -> None:
    broker = Broker(settings={UNCLEAN: "true"})
    world = World().runs(broker)
    world.passes()
    world.goes_on(20.0)

    broker.reported[UNCLEAN] = "!!false"
    world.write("/config/brokers/1", b'{"version":1,"config":{"unclean.leader.election.enable":"false"}}')
    world.goes_on(6.0)

    assert next_term(world).unclean_election_of_brokers is False


def test_a_broker_that_forbids_unclean_elections_for_itself_begins_a_new_term_although_its_file_forbids_them() -> None:
    """What is set for one broker overrides what is set at run time for all; what is in a file does not."""
    broker = Broker(settings={UNCLEAN: "false"})
    world = World().runs(broker)
    world.passes()

    broker.reported[UNCLEAN] = "!!false"
    world.write("/config/brokers/1", b'{"version":1,"config":{"unclean.leader.election.enable":"false"}}')
    world.goes_on(6.0)

    assert next_term(world).unclean_election_of_brokers is False
    assert len(changed(world)) == 1


def test_a_policy_of_any_broker_judges_unless_the_operator_ignores_it() -> None:
    judging = Broker(settings={"create.topic.policy.class.name": "com.acme.Policy"})
    for settings, policy in (((), "com.acme.Policy"), (("create.topic.policy.ignore=true",), "")):
        world = World(*settings).runs(Broker(), judging)
        world.passes()
        assert next_term(world).creation_policy == policy


def changed(world: World) -> list[str]:
    """Why another term had to follow."""
    return [
        event.detail for event in world.emitted if isinstance(event, ProtocolChanged) and "settings" in event.detail
    ]
