"""A Java client's properties: security is either applied or refused, and secrets are never shown."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import pytest

from controller.reassign.client_properties import client_settings, read_client_properties
from controller.reassign.kafka_cluster import KafkaCluster
from controller.reassign.refusals import Unreachable, Unusable
from controller.security.tokens.token_sources import URL
from tests.unit.security.identity_provider import serving, signed

SECRET = "pa55 word"
OF_TOKENS = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.login.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
    ),
    URL: "http://127.0.0.1:1/token",
}
JAAS = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{SECRET}";'


def test_user_and_password_come_from_the_jaas_configuration() -> None:
    found = client_settings(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS}
    )

    assert found.arguments["security_protocol"] == "SASL_PLAINTEXT"
    assert found.arguments["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (found.arguments["sasl_plain_username"], found.arguments["sasl_plain_password"]) == ("alice", SECRET)
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("written", "password"),
    [('password="a\\"b;c"', 'a"b;c'), ("password='x y'", "x y"), ("password=plain", "plain"), ('password="="', "=")],
)
def test_passwords_are_unquoted_as_java_does(written: str, password: str) -> None:
    jaas = f"x.PlainLoginModule required username=u {written};"

    found = client_settings(
        {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    )

    assert found.arguments["sasl_plain_password"] == password


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ('useKeyTab=true keyTab="/k/ann.keytab"', {"KRB5_CLIENT_KTNAME": "/k/ann.keytab", "KRB5CCNAME": "MEMORY:"}),
        ('useTicketCache=true ticketCache="/tmp/cc"', {"KRB5CCNAME": "/tmp/cc"}),
        ("useTicketCache=true", {}),
    ],
)
def test_a_keytab_or_a_ticket_cache_is_for_the_kerberos_library(options: str, environment: dict[str, str]) -> None:
    jaas = f"com.sun.security.auth.module.Krb5LoginModule required {options};"

    found = client_settings({"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": jaas})

    assert found.arguments == {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}
    assert found.environment == environment


def test_time_outs_and_names_have_their_java_names() -> None:
    found = client_settings({"request.timeout.ms": "5000", "default.api.timeout.ms": "7000", "client.id": "me"})

    assert found.timeout_ms == 7000
    assert found.arguments["request_timeout_ms"] == 5000
    assert found.arguments["client_id"] == "me"


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS is not one of PLAINTEXT"),
        ({"security.protocl": "SSL"}, "the nearest setting that is: security.protocol"),
        ({"reqest.timeout.ms": "1"}, "did you mean request.timeout.ms"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms=soon is not a whole number"),
        ({"sasl.login.class": "x.Y"}, "sasl.login.class is not supported by this tool"),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"},
            "needs sasl.jaas.config with a login",
        ),
        (
            {**OF_TOKENS, "sasl.jaas.config": f'x.Y required clientSecret="{SECRET}";'},
            "sasl.jaas.config: option clientId is missing",
        ),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "needs sasl.jaas.config"),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'x required password="{SECRET}";',
            },
            "sasl.jaas.config has no username;",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/no/t.jks"}, "ssl.truststore.location=/no/t.jks: No"),
        (
            {"security.protocol": "SSL", "ssl.keystore.type": "BKS", "ssl.keystore.location": "k.bks"},
            "ssl.keystore.type=BKS is not one of JKS, PKCS12, PEM",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/no/such.pem"},
            "ssl.truststore.location=/no/such.pem: No such file",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": SECRET},
            "ssl.truststore.certificates has no certificate in PEM",
        ),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "SSLv3"}, "only TLSv1.2 and TLSv1.3"),
    ],
)
def test_what_cannot_be_done_is_refused_without_the_secret(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(Unusable) as refused:
        client_settings(properties)

    assert reason in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_token_is_fetched_for_the_tool() -> None:
    with serving() as provider:
        provider.gives(signed(time.time() + 60))
        jaas = f'x.Y required clientId="c" clientSecret="{SECRET}" extension_traceId="7";'

        found = client_settings({**OF_TOKENS, "sasl.jaas.config": jaas, URL: provider.url})

        tokens = found.arguments["sasl_oauth_token_provider"]
        assert (tokens.token().count("."), tokens.extensions()) == (2, {"traceId": "7"})
        assert found.ignored == ()


def test_without_a_token_no_broker_is_connected_to() -> None:
    with serving() as provider:
        provider.answers = [(401, '{"error": "invalid_client"}')]
        jaas = f'x.Y required clientId="c" clientSecret="{SECRET}";'
        settings = client_settings({**OF_TOKENS, "sasl.jaas.config": jaas, URL: provider.url})

        with pytest.raises(Unreachable, match=r"OAUTHBEARER: no token .* answers 401 \(invalid_client\)$") as failure:
            KafkaCluster("127.0.0.1:1", settings)

    assert SECRET not in str(failure.value)


def test_settings_of_other_clients_are_named_and_ignored() -> None:
    assert client_settings({"group.id": "g", "acks": "all", "bootstrap.servers": "x:1"}).ignored == ("group.id", "acks")


def test_a_server_name_is_checked_unless_that_is_turned_off() -> None:
    checked = client_settings({"security.protocol": "SSL"}).arguments["ssl_context"]
    unchecked = client_settings({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""})
    newest = client_settings({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.3"})

    assert checked.check_hostname
    assert checked.verify_mode is ssl.CERT_REQUIRED
    assert not unchecked.arguments["ssl_context"].check_hostname
    assert newest.arguments["ssl_context"].minimum_version is ssl.TLSVersion.TLSv1_3


def test_a_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# who\nclient.id : me\nsasl.jaas.config=x required \\\n  username=u;\n")

    assert read_client_properties(path).arguments["client_id"] == "me"
    path.write_text("request.timeout.ms=soon\n")
    with pytest.raises(Unusable, match=r"--command-config client.properties: request.timeout.ms=soon"):
        read_client_properties(path)


def test_values_of_providers_are_had_and_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "horse-s3cr3t")
    path = tmp_path / "client.properties"
    kind = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    provider = f"config.providers=env\nconfig.providers.env.class={kind}\n"
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="${env:PASSWORD}";'

    path.write_text(f"{provider}security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    found = read_client_properties(path)
    assert (found.arguments["sasl_plain_password"], found.ignored) == ("horse-s3cr3t", ())

    path.write_text(f"{provider}request.timeout.ms=${{env:PASSWORD}}\n")
    with pytest.raises(Unusable, match=r"request.timeout.ms=\[hidden\] is not a whole number"):
        read_client_properties(path)

    path.write_text(f"{provider}client.id=${{env:NO}}\n")
    with pytest.raises(Unusable, match=r"client.id: \$\{env:NO\}: environment variable NO is not set"):
        read_client_properties(path)
