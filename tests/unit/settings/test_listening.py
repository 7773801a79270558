"""Where this process listens, and which addresses it gives brokers and clients."""

from __future__ import annotations

import pytest

from controller.settings.security import Secret
from tests.unit.settings.given import problem, problems, settings
from zk_layout.znodes.brokers import Endpoint


def test_without_a_word_it_listens_on_this_host_only() -> None:
    found = settings().listening

    assert found.bound == (Endpoint("PLAINTEXT", "127.0.0.1", 9095),)
    assert found.advertised == (Endpoint("PLAINTEXT", "127.0.0.1", 9095),)
    assert found.inter_broker == "PLAINTEXT"


def test_it_may_listen_everywhere_and_advertise_one_address() -> None:
    found = settings({"listeners": "PLAINTEXT://:9095", "advertised.listeners": "PLAINTEXT://host:19095"}).listening

    assert found.bound == (Endpoint("PLAINTEXT", "", 9095),)
    assert found.advertised == (Endpoint("PLAINTEXT", "host", 19095),)


@pytest.mark.parametrize("address", ["0.0.0.0", "", "[::]"])
def test_an_unconnectable_address_is_not_advertised(address: str) -> None:
    assert "cannot be advertised, because no client can connect to it" in problem(
        {"listeners": f"PLAINTEXT://{address}:9095"}
    )


def test_listener_names_are_in_capitals_as_kafka_has_them() -> None:
    found = settings(
        {
            "listeners": "inside://10.0.0.1:9095,outside://10.0.0.1:9096",
            "listener.security.protocol.map": "inside:plaintext, outside:PLAINTEXT",
            "inter.broker.listener.name": "inside",
        }
    ).listening

    assert [endpoint.listener for endpoint in found.bound] == ["INSIDE", "OUTSIDE"]
    assert [endpoint.security_protocol for endpoint in found.advertised] == ["PLAINTEXT", "PLAINTEXT"]
    assert found.inter_broker == "INSIDE"


SECURED = {
    "listeners": "INSIDE://h:1,OUTSIDE://h:2,OPEN://h:3",
    "listener.security.protocol.map": "INSIDE:SASL_SSL,OUTSIDE:SSL,OPEN:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "listener.name.inside.scram-sha-512.sasl.jaas.config": 'x.Login required username="c" password="horse";',
    "ssl.keystore.location": "/k",
    "delegation.token.secret.key": "key",
}


def test_listeners_may_be_secured_and_so_are_the_connections_to_brokers_on_them() -> None:
    found = settings(SECURED).listening

    assert {name: security.protocol for name, security in found.security.items()} == {
        "INSIDE": "SASL_SSL",
        "OUTSIDE": "SSL",
        "OPEN": "PLAINTEXT",
    }
    towards = found.towards_brokers["INSIDE"]
    assert (towards.protocol, towards.mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert towards.jaas is not None
    assert "horse" in towards.jaas.reveal()
    assert found.token_key == Secret("key")
    assert "horse" not in str(found)


def test_where_this_process_cannot_log_in_it_does_not_go() -> None:
    elsewhere = {"listener.security.protocol.map": "INSIDE:SASL_SSL,OUTSIDE:SASL_SSL,OPEN:PLAINTEXT"}

    assert set(settings({**SECURED, **elsewhere}).listening.towards_brokers) == {"INSIDE", "OPEN"}

    plain = "listener.name.outside.plain.sasl.jaas.config"
    login = {"listener.name.outside.sasl.enabled.mechanisms": "PLAIN", plain: 'x.Login required username="c";'}
    found = settings({**SECURED, **elsewhere, **login}).listening.towards_brokers["OUTSIDE"]
    assert (found.protocol, found.mechanism) == ("SASL_SSL", "PLAIN")


def test_tokens_for_brokers_come_as_it_is_written_for_the_mechanism() -> None:
    key = "listener.name.inside.oauthbearer.sasl.login.callback.handler.class"
    tokens = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "listener.name.inside.oauthbearer.sasl.jaas.config": 'x.Login required clientSecret="horse";',
        "sasl.login.callback.handler.class": "x.Other",
        key: "x.Bearer",
    }

    found = settings({**SECURED, **tokens}).listening.towards_brokers["INSIDE"]

    assert found.mechanism == "OAUTHBEARER"
    assert found.options["sasl.login.callback.handler.class"] == "x.Bearer"
    assert settings({**SECURED, **tokens}).ignored == ()


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        (
            "sasl.mechanism.inter.broker.protocol",
            "PLAIN",
            "--set: sasl.mechanism.inter.broker.protocol = PLAIN: PLAIN is not among the sasl.enabled.mechanisms of "
            "listener INSIDE, which are SCRAM-SHA-512; set both as on the brokers",
        ),
        (
            "listener.name.inside.scram-sha-512.sasl.jaas.config",
            "",
            "--set: listener.name.inside.scram-sha-512.sasl.jaas.config = [hidden]: this process logs in at brokers "
            "on listener INSIDE with it; set it as on the brokers",
        ),
        (
            "listener.name.outside.ssl.engine.factory.class",
            "x.Y",
            "--set: listener.name.outside.ssl.engine.factory.class = x.Y: a Java class cannot run here; remove it, "
            "if brokers work without it",
        ),
    ],
)
def test_what_a_secured_listener_lacks_is_named(key: str, text: str, why: str) -> None:
    assert problem({**SECURED, key: text}) == why


def test_commands_go_over_the_control_plane_where_there_is_one() -> None:
    assert settings(SECURED).listening.control_plane == "INSIDE"
    assert settings({**SECURED, "control.plane.listener.name": "outside"}).listening.control_plane == "OUTSIDE"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("9095", "'9095' is not an endpoint; expected LISTENER://host:port"),
        ("PLAINTEXT://h:0", "PLAINTEXT://h:0 needs a port from 1 to 65535"),
        ("PLAINTEXT://h:65536", "'PLAINTEXT://h:65536' has a port above 65535"),
        ("PLAINTEXT://h:1,PLAINTEXT://h:2", "listener PLAINTEXT is listed twice"),
    ],
)
def test_what_is_not_a_list_of_listeners_is_refused_with_the_reason(text: str, why: str) -> None:
    assert problem({"advertised.listeners": text}) == f"--set: advertised.listeners = {text}: {why}"


def test_two_listeners_cannot_have_one_port() -> None:
    written = {"listeners": "PLAINTEXT://h:1,IN://h:1", "listener.security.protocol.map": "IN:PLAINTEXT"}

    assert problem(written).endswith("two listeners have the same port")


def test_two_advertised_listeners_may_have_one_port_on_different_hosts() -> None:
    found = settings(
        {
            "listeners": "PLAINTEXT://h:1,OUT://h:2",
            "advertised.listeners": "PLAINTEXT://inside:9,OUT://outside:9",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUT:PLAINTEXT",
        }
    )

    assert [endpoint.port for endpoint in found.listening.advertised] == [9, 9]


def test_a_listener_that_is_not_open_cannot_be_advertised() -> None:
    written = {"advertised.listeners": "PLAINTEXT://h:1,OUT://h:2", "listener.security.protocol.map": "OUT:PLAINTEXT"}

    assert problem(written).endswith("listener OUT is not in listeners, which has PLAINTEXT")


def test_the_listener_between_brokers_is_named_once() -> None:
    written = {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"}

    assert problem(written).endswith("security.inter.broker.protocol is set, too; keep the one that the brokers have")


@pytest.mark.parametrize("key", ["inter.broker.listener.name", "control.plane.listener.name"])
def test_a_listener_over_which_brokers_reach_the_controller_must_be_advertised(key: str) -> None:
    assert problem({key: "PLANE"}) == (
        f"--set: {key} = PLANE: brokers reach the controller over PLANE, but only PLAINTEXT is advertised"
    )


def test_a_protocol_between_brokers_that_is_not_plaintext_is_refused() -> None:
    assert problems({"security.inter.broker.protocol": "SSL"}) == (
        "--set: security.inter.broker.protocol = SSL: brokers reach the controller over SSL, but only PLAINTEXT is "
        "advertised",
    )


def test_a_map_without_a_protocol_is_refused() -> None:
    assert "expected LISTENER:PROTOCOL" in problem({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE"})
