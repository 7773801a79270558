"""What a broker has set becomes what a replica beside it needs, and the daemon can start with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.first_settings.choosing import Chosen, Own, choose
from controller.first_settings.explaining import explained
from controller.first_settings.found import BrokerConfiguration, ClusterSeen, UnusableBroker, configuration_in
from controller.first_settings.page import as_properties, as_value
from controller.process.listener_security import check
from controller.settings import Settings, load
from controller.settings.securing_keys import SECURING
from controller.settings.table import SETTINGS
from tests.unit.connections.certificates import make_identity
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint, Registration

OWN = Own(BrokerId(901), "127.0.0.1", 9095)
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LEAST = {"zookeeper.connect": "zk1:2181,zk2:2181/kafka"}


def chosen(values: Mapping[str, str], seen: ClusterSeen | None = None, hidden: frozenset[str] = frozenset()) -> Chosen:
    """Beside a broker that has these set."""
    return choose(BrokerConfiguration({**LEAST, **values}, "broker 1", hidden), seen or ClusterSeen(), OWN)


def lines(found: Chosen) -> dict[str, str]:
    """The settings that are in force."""
    return {line.key: line.value for section in found.sections for line in section.lines if line.is_set}


def registered(*racks: str | None) -> ClusterSeen:
    """Brokers with these racks."""
    endpoint = Endpoint("PLAINTEXT", "kafka", 9092)
    return ClusterSeen({BrokerId(n): Registration((endpoint,), rack) for n, rack in enumerate(racks, 1)})


# As in kafka 2.4.1's config/server.properties, where nothing else is set.
SHIPPED = {
    "broker.id": "0",
    "num.network.threads": "3",
    "socket.send.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "log.dirs": "/tmp/kafka-logs",
    "num.partitions": "1",
    "log.retention.hours": "168",
    "zookeeper.connect": "localhost:2181",
    "zookeeper.connection.timeout.ms": "6000",
    "group.initial.rebalance.delay.ms": "0",
}
CONTROL_PLANE = {
    "listeners": "CONTROL://10.0.0.1:9090,inside://10.0.0.1:9091,OUTSIDE://0.0.0.0:9092",
    "advertised.listeners": "inside://kafka-1:9091,OUTSIDE://kafka-1:9092",
    "listener.security.protocol.map": "CONTROL:PLAINTEXT,INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "control.plane.listener.name": "CONTROL",
    "reserved.broker.max.id": "2000",
    "broker.id.generation.enable": "true",
}
SCRAM = {
    "listeners": "SASL_PLAINTEXT://:9092",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f'{MODULE} username="kafka" password="p\\\\a:=#";',
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} user_ann="a" user_bob="b";',
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:kafka;User:admin",
}


@pytest.mark.parametrize("values", [SHIPPED, CONTROL_PLANE, SCRAM], ids=["shipped", "control plane", "scram"])
def test_the_daemon_reads_what_was_made_and_means_the_same(values: dict[str, str], tmp_path: Path) -> None:
    found = loaded(chosen(values), tmp_path)

    merged = {**LEAST, **values}
    for key in ("zookeeper.connect", "super.users", "authorizer.class.name", "control.plane.listener.name"):
        assert (found.values.by_key[key] or "") == merged.get(key, "")
    assert found.claim.own_id == 901


def loaded(made: Chosen, tmp_path: Path) -> Settings:
    """Read the file as the daemon does."""
    path = tmp_path / "controller.properties"
    path.write_text(as_properties(["One replica."], made.sections), encoding="ascii")
    settings = load(path, (), {})
    check(settings)
    return settings


def test_secrets_arrive_as_the_broker_has_them(tmp_path: Path) -> None:
    found = loaded(chosen(SCRAM), tmp_path)

    jaas = found.listening.towards_brokers["SASL_PLAINTEXT"].jaas
    assert jaas is not None
    assert jaas.reveal() == SCRAM["listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config"]


def test_listeners_have_the_brokers_names_and_ports_that_no_broker_has(tmp_path: Path) -> None:
    found = loaded(chosen({**CONTROL_PLANE, "listeners": CONTROL_PLANE["listeners"].replace("9092", "9096")}), tmp_path)

    assert [str(endpoint) for endpoint in found.listening.advertised] == [
        "INSIDE://127.0.0.1:9095",
        "OUTSIDE://127.0.0.1:9097",
        "CONTROL://127.0.0.1:9098",
    ]
    assert (found.listening.inter_broker, found.listening.control_plane) == ("INSIDE", "CONTROL")


def test_only_what_secures_our_listeners_is_taken(tmp_path: Path) -> None:
    identity = make_identity(tmp_path / "identity.pem")
    made = chosen(
        {
            "listeners": "SSL://:9093",
            "security.inter.broker.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(identity),
            "listener.name.ssl.ssl.client.auth": "required",
            "listener.name.former.ssl.client.auth": "none",
            "ssl.provider": "BCFIPS",
        }
    )

    found = loaded(made, tmp_path)
    assert "listener.name.former.ssl.client.auth" not in lines(made)
    tls = found.listening.security["SSL"].tls
    assert tls is not None
    assert tls.client_auth.value == "required"


def test_what_brokers_decide_and_what_is_theirs_alone_is_left_to_them() -> None:
    made = chosen({**SHIPPED, "unclean.leader.election.enable": "true", "inter.broker.protocol.version": "2.8"})

    assert set(lines(made)) == {"zookeeper.connect", "broker.id", "listeners", "advertised.listeners"}
    text = as_properties([], made.sections)
    assert "# inter.broker.protocol.version: 2.8 on this broker; the default here, auto" in text
    assert "# On this broker: unclean.leader.election.enable=true, num.partitions=1. Set one here only" in text


@pytest.mark.parametrize(
    ("racks", "theirs", "rack", "is_warned"),
    [
        (("a", "b"), "b", "b", False),
        (("a", "b"), None, "a", False),
        ((None, None), "b", None, False),
        (("a", None), "a", None, True),
        ((), "c", "c", False),
        ((), None, None, False),
    ],
)
def test_a_rack_is_set_if_all_brokers_have_one(
    racks: tuple[str | None, ...], theirs: str | None, rack: str | None, *, is_warned: bool
) -> None:
    made = chosen({"broker.rack": theirs or ""}, registered(*racks))

    assert lines(made).get("broker.rack") == rack
    assert any("broker.rack" in warning for warning in made.warnings) == is_warned


def test_what_the_broker_keeps_to_itself_is_to_be_filled_in() -> None:
    hidden = frozenset({"ssl.keystore.password", "listener.name.outside.ssl.key.password", "ldap.password"})
    made = chosen({"listeners": "SSL://:9093", "ssl.keystore.location": "/k.p12"}, hidden=hidden)

    assert made.undisclosed == ("ssl.keystore.password",)
    assert "\n#ssl.keystore.password=\n" in as_properties([], made.sections)


def test_values_kept_elsewhere_stay_there(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("store=horse-staple\n")
    identity = make_identity(tmp_path / "identity.pem")
    made = chosen(
        {
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "listeners": "SSL://:9093",
            "security.inter.broker.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(identity),
            "delegation.token.secret.key": f"${{file:{secrets}:store}}",
        }
    )

    assert "horse-staple" not in as_properties([], made.sections)
    key = loaded(made, tmp_path).listening.token_key
    assert key is not None
    assert key.reveal() == "horse-staple"


def test_what_cannot_be_done_here_is_said() -> None:
    made = chosen({"create.topic.policy.class.name": "a.B", "zookeeper.ssl.crl.enable": "false"})

    assert "create.topic.policy.class.name" not in lines(made)
    assert [warning.partition(":")[0] for warning in made.warnings] == ["create.topic.policy.class.name=a.B"]


@pytest.mark.parametrize(
    ("connect", "host", "is_warned"),
    [
        ("localhost:2181", "controller-1", True),
        ("localhost:2181", "127.0.0.1", False),
        ("zk:2181/localhost", "controller-1", False),
    ],
)
def test_a_zookeeper_that_only_the_broker_reaches_is_noticed(connect: str, host: str, *, is_warned: bool) -> None:
    found = BrokerConfiguration({"zookeeper.connect": connect}, "broker 1")
    made = choose(found, ClusterSeen(), Own(BrokerId(901), host, 9095))

    assert any("the broker's own host" in warning for warning in made.warnings) == is_warned


def test_an_address_that_brokers_elsewhere_cannot_use_is_noticed() -> None:
    assert any("give --host" in warning for warning in chosen({}, registered(None)).warnings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("process.roles=broker\nzookeeper.connect=zk:2181", "sets process.roles: it is a node of a KRaft cluster"),
        ("broker.id=1", "has no zookeeper.connect"),
        ("a=\\u12", "server.properties:1"),
    ],
)
def test_a_file_that_is_no_brokers_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(text)

    with pytest.raises(UnusableBroker, match=said):
        configuration_in(path)


def test_each_setting_that_can_be_taken_has_an_explanation() -> None:
    for key in (*SECURING, *(one.key for one in SETTINGS)):
        assert explained(key, "h").endswith("."), key


@given(st.text())
def test_every_value_is_read_back_by_java_as_it_was(text: str) -> None:
    assert javaproperties.loads(f"a={as_value(text)}\n") == {"a": text}


def test_no_secret_is_in_what_a_debugger_shows() -> None:
    found = BrokerConfiguration({"ssl.key.password": "horse-staple"}, "broker 1")
    made = chosen({"listeners": "SSL://:9", "ssl.key.password": "horse-staple"})

    assert "horse-staple" not in repr(found) + repr(made)
