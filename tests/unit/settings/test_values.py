"""What may be written, and the error for anything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from controller.settings import BadSettings, load
from controller.settings.elsewhere import IRRELEVANT, IRRELEVANT_PREFIXES, REFUSED
from controller.settings.table import SETTINGS
from controller.settings.values import shown
from tests.unit.settings.given import LEAST, file, problem, problems, settings


def test_what_is_not_set_has_kafkas_default() -> None:
    found = settings()

    assert found.zookeeper.session_timeout_ms == 18000
    assert found.term.response_timeout_s == 30
    assert found.limits.idle_s == 600
    assert found.term.cluster.unclean_election is False
    assert found.claim.registration.rack is None


def test_every_default_would_be_accepted_if_it_were_written() -> None:
    written = {s.key: shown(s.key, s.default) for s in SETTINGS if s.default is not None}
    written.pop("security.inter.broker.protocol")

    found = settings(written)
    given = settings().values.given
    values, claim = replace(found.values, given=given), replace(found.claim, given=given)
    term = replace(found.term, is_deletion_set=False)
    assert replace(found, values=values, claim=claim, term=term) == settings()


def test_the_connection_timeout_is_the_session_timeout_unless_set() -> None:
    found = settings({"zookeeper.session.timeout.ms": "6000"})

    assert found.zookeeper.connection_timeout_ms == 6000


@pytest.mark.parametrize("text", ["zk", "zk:2181", "zk1:2181,zk2:2181", "zk1:2181,zk2:2181/kafka/a", "[::1]:2181/k"])
def test_zookeepers_servers_may_be_written_as_for_kafka(text: str) -> None:
    assert settings({"zookeeper.connect": text}).zookeeper.connect == text


def test_spaces_between_servers_mean_nothing() -> None:
    found = settings({"zookeeper.connect": "zk1:2181 , zk2:2181 /kafka"})

    assert found.zookeeper.connect == "zk1:2181,zk2:2181/kafka"


@pytest.mark.parametrize("text", ["zk:2181/", "zk:2181,", "zk:2181, /", ",,zk:2181"])
def test_a_bare_slash_and_empty_servers_are_passed_over_as_zookeeper_does(text: str) -> None:
    assert settings({"zookeeper.connect": text}).zookeeper.connect == "zk:2181"


@pytest.mark.parametrize("text", ["zk:", "zk:0", "zk:70000", ",", "/kafka", "::1", "http://zk:2181"])
def test_a_server_that_cannot_be_one_is_refused(text: str) -> None:
    assert "is not a server; expected host:port,host:port and perhaps /chroot" in problem({"zookeeper.connect": text})


@pytest.mark.parametrize("text", ["zk:2181/a/", "zk:2181//a", "zk1:2181/a,zk2:2181/a"])
def test_a_chroot_that_cannot_be_one_is_refused(text: str) -> None:
    assert "is not a chroot; write it once, after the last server" in problem({"zookeeper.connect": text})


def test_an_id_in_the_range_of_generated_ids_is_refused() -> None:
    assert problem({"broker.id": "1001"}) == (
        "--set: broker.id = 1001: ids above reserved.broker.max.id = 1000 are generated for brokers, and one could get "
        "this one; take a lower id that no broker has, or set broker.id.generation.enable to false if all brokers do"
    )


@pytest.mark.parametrize("written", [{"reserved.broker.max.id": "2000"}, {"broker.id.generation.enable": "false"}])
def test_such_an_id_is_good_where_no_broker_can_get_it(written: dict[str, str]) -> None:
    assert settings({"broker.id": "1001", **written}).claim.own_id == 1001


def test_a_standby_is_not_kept_warm_where_a_journal_must_hold_what_was_read(tmp_path: Path) -> None:
    warm = {"controller.standby.warm": "true"}

    assert problem({**warm, "journal.dir": str(tmp_path)}) == (
        "--set: controller.standby.warm = true: a journal repeats a term from all that was read after its claim; "
        "unset journal.dir, or set this to false"
    )
    assert settings(warm).term.is_standby_warm
    assert not settings().term.is_standby_warm
    assert settings({**warm, "controller.standby.recursive.watch": "true"}).term.has_recursive_watch
    assert not settings(warm).term.has_recursive_watch


def test_an_unknown_key_is_refused_and_the_nearest_known_one_named() -> None:
    assert problem({"zookeper.connect": "x"}) == (
        "--set: zookeper.connect: there is no such setting; did you mean zookeeper.connect?"
    )


def test_an_unknown_key_that_is_near_to_none_points_to_the_list() -> None:
    assert problem({"x": "1"}).endswith("`kafka-zk-controller settings` lists all")


@pytest.mark.parametrize("key", [setting.key for setting in SETTINGS])
def test_a_slip_in_one_of_our_keys_is_never_taken_for_a_key_of_brokers(key: str) -> None:
    assert f"{key}x: there is no such setting; did you mean {key}?" in problem({f"{key}x": "1"})


def test_a_slip_in_a_refused_key_is_not_taken_for_one_of_brokers() -> None:
    assert problem({"zookeeper.ssl.client.enabled": "true"}).endswith("did you mean zookeeper.ssl.client.enable?")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("zookeeper.ssl.crl.enable", "true"),
        ("zookeeper.ssl.ocsp.enable", "true"),
        ("process.roles", "controller"),
        ("zookeeper.metadata.migration.enable", "true"),
    ],
)
def test_what_would_be_disobeyed_silently_is_refused(key: str, text: str) -> None:
    assert problem({key: text}) == f"--set: {key} = {text}: {REFUSED[key]}"


@pytest.mark.parametrize(
    "name", ["org.apache.kafka.metadata.authorizer.StandardAuthorizer", "io.confluent.Authorizer", "AclAuthorizer"]
)
def test_an_authorizer_that_cannot_be_obeyed_is_refused(name: str) -> None:
    found = problem({"authorizer.class.name": name})

    assert "supported is kafka.security.authorizer.AclAuthorizer" in found
    assert ("KRaft" in found) == name.endswith("StandardAuthorizer")


def test_who_may_do_everything_needs_a_type() -> None:
    assert "'ann' is no principal" in problem({"super.users": "User:bob;ann"})


def test_what_is_refused_may_be_there_if_it_is_off() -> None:
    off = {"authorizer.class.name": "", "zookeeper.set.acl": "false", "zookeeper.ssl.client.enable": "FALSE"}

    assert settings(off).values.by_key == settings().values.by_key


def test_a_broker_s_own_file_can_be_a_start() -> None:
    written = {
        "num.network.threads": "8",
        "log.dirs": "/var/kafka",
        "log.retention.hours": "168",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "group.initial.rebalance.delay.ms": "0",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "ssl.provider": "BC",
        "listener.name.inside.ssl.provider": "BC",
        "replica.lag.time.max.ms": "30000",
        "metric.reporters": "",
    }

    found = settings(written)

    assert found.ignored == tuple(sorted(written))
    assert found.values.by_key == settings().values.by_key


@pytest.mark.parametrize("overrides", [[], ["broker.id=901"]])
def test_a_node_id_may_repeat_the_broker_s_id(tmp_path: Path, overrides: list[str]) -> None:
    found = load(file(tmp_path, "zookeeper.connect=zk:2181\nbroker.id=0\nnode.id=0\n"), overrides, {})

    assert found.claim.own_id == (901 if overrides else 0)
    assert "beside it, node.id may only repeat it" in problem({"node.id": "1"})


def test_keys_of_plug_ins_are_ignored_and_slips_in_ours_are_not(tmp_path: Path) -> None:
    least = "zookeeper.connect=zk:2181\nbroker.id=900\n"
    foreign = ("authz.acl.url", "cruise.control.metrics.topic", "jmx.port", "kafka.rest.enable", "ldap.java.naming.url")
    slips = ("broker.racks", "zookeper.connect", "htpp.port", "log.formt", "unclean.leader.election", "config.provider")

    assert load(file(tmp_path, least + "".join(f"{key}=1\n" for key in foreign)), [], {}).ignored == foreign
    with pytest.raises(BadSettings) as caught:
        load(file(tmp_path, least + "".join(f"{key}=1\n" for key in slips)), ["jmx.port=1"], {})
    assert [problem.split(": ")[1] for problem in caught.value.problems] == [*slips, "jmx.port"]
    assert all("there is no such setting" in problem for problem in caught.value.problems)


def test_no_key_is_both_ours_and_foreign() -> None:
    ours = {setting.key for setting in SETTINGS}

    assert not ours & (IRRELEVANT | set(REFUSED))
    assert [key for key in ours if key.startswith(IRRELEVANT_PREFIXES)] == ["sasl.mechanism.inter.broker.protocol"]


def test_what_secures_listeners_is_not_ignored_and_may_come_from_the_environment() -> None:
    written = {"ssl.keystore.password": "abc", "listener.name.inside.scram-sha-512.sasl.jaas.config": "abc"}
    environment = {"KAFKA_ZK_CONTROLLER_SSL_KEY_PASSWORD": "abc"}

    found = load(None, [f"{key}={value}" for key, value in {**LEAST, **written}.items()], environment)

    assert found.ignored == ()
    assert "abc" not in str(found)
    assert problem({"ssl.keystore.locaton": "/k"}).endswith("did you mean ssl.keystore.location?")


def test_a_value_can_be_checked_by_a_stricter_parser() -> None:
    def read(text: str) -> None:
        raise ValueError(f"{text} is too new")

    written = {**LEAST, "inter.broker.protocol.version": "3.9"}
    with pytest.raises(BadSettings) as caught:
        load(None, [f"{key}={value}" for key, value in written.items()], {}, {"inter.broker.protocol.version": read})

    assert caught.value.problems == ("--set: inter.broker.protocol.version = 3.9: 3.9 is too new",)


def test_a_secret_is_never_shown() -> None:
    assert shown("ssl.key.password", "abc") == "[hidden]"
    assert shown("sasl.jaas.config", "abc") == "[hidden]"
    assert "abc" not in "".join(problems({"ssl.key.pasword.x": "abc", "some.secret": "abc"}))


def test_listeners_and_addresses_may_have_limits_of_their_own() -> None:
    found = settings(
        {
            "listeners": "INSIDE://:9091,OUTSIDE://:9092",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
            "advertised.listeners": "INSIDE://h:9091,OUTSIDE://h:9092",
            "listener.name.outside.max.connections": "50",
            "max.connections.per.ip.overrides": "10.0.0.1:5,::1:6",
        }
    )

    assert found.limits.most_per_listener == {"OUTSIDE": 50}
    assert found.limits.most_for_address == {"10.0.0.1": 5, "::1": 6}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("listener.name.nowhere.max.connections", "5"),
        ("listener.name.plaintext.max.connections", "none"),
        ("max.connections.per.ip.overrides", "10.0.0.1"),
        ("max.connections.per.ip.overrides", "10.0.0.1:many"),
    ],
)
def test_a_limit_that_limits_nothing_is_refused(key: str, value: str) -> None:
    assert "expected" in problem({key: value})
