"""Which of the keys of a broker's file say how one listener is secured."""

from __future__ import annotations

import pytest

from controller.settings.draft import Draft
from controller.settings.securing import security_of
from controller.settings.security import (
    PLAINTEXT,
    SASL_PLAINTEXT,
    SASL_SSL,
    SSL,
    ClientAuth,
    KeyStore,
    ListenerSecurity,
    SaslSettings,
    Secret,
    StoreType,
    TlsSettings,
    TrustStore,
)
from controller.settings.sources import Given

LEAST = {"zookeeper.connect": "zk:2181", "broker.id": "901"}
JAAS = 'x.Login required user_ann="horse staple";'


def read(protocol: str, **written: str) -> tuple[ListenerSecurity, list[str]]:
    """The security of a listener INSIDE, and all complaints; `__` stands for a dot, and `_` for a hyphen."""
    keys = {key.replace("__", ".").replace("_", "-"): text for key, text in written.items()}
    draft = Draft({key: Given(text, "--set") for key, text in {**LEAST, **keys}.items()}, [])
    return security_of(draft, "INSIDE", protocol), draft.problems


def test_without_tls_and_sasl_there_is_nothing_to_know() -> None:
    assert read(PLAINTEXT, ssl__keystore__location="/k", sasl__enabled__mechanisms="PLAIN") == (
        ListenerSecurity(PLAINTEXT),
        [],
    )


def test_what_is_written_for_a_listener_counts_before_what_is_written_for_all() -> None:
    found, problems = read(
        SSL,
        ssl__keystore__location="/for/all.jks",
        ssl__keystore__password="all",
        listener__name__inside__ssl__keystore__location="/inside.p12",
        listener__name__inside__ssl__keystore__type="pkcs12",
        listener__name__outside__ssl__client__auth="required",
        ssl__truststore__location="/trusted.pem",
        ssl__truststore__type="PEM",
        ssl__client__auth="requested",
        ssl__endpoint__identification__algorithm="",
    )

    assert problems == []
    assert found.tls == TlsSettings(
        KeyStore(StoreType.PKCS12, "/inside.p12", Secret("all")),
        TrustStore(StoreType.PEM, "/trusted.pem"),
        ClientAuth.REQUESTED,
        endpoint_identification_algorithm="",
    )
    assert found.sasl is None


def test_tls_needs_to_know_who_we_are_and_takes_it_as_text_too() -> None:
    _, problems = read(SSL)
    assert problems == [
        "ssl.keystore.location: a listener with TLS needs a key store, "
        "or in PEM ssl.keystore.certificate.chain and .key"
    ]

    found, problems = read(
        SSL,
        ssl__keystore__type="PEM",
        ssl__keystore__certificate__chain="-----BEGIN",
        ssl__keystore__key="-----BEGIN k",
    )
    assert problems == []
    assert found.tls is not None
    assert found.tls.key_store == KeyStore(StoreType.PEM, certificate_chain="-----BEGIN", key=Secret("-----BEGIN k"))
    assert found.tls.trust_store is None


def test_each_mechanism_has_its_own_login_module() -> None:
    found, problems = read(
        SASL_PLAINTEXT,
        sasl__enabled__mechanisms="PLAIN, SCRAM-SHA-256",
        listener__name__inside__plain__sasl__jaas__config=JAAS,
        listener__name__inside__connections__max__reauth__ms="60000",
        listener__name__inside__sasl__server__callback__handler__class="x.Y",
        sasl__kerberos__service__name="kafka",
    )

    assert problems == []
    assert found == ListenerSecurity(
        SASL_PLAINTEXT,
        None,
        SaslSettings(
            ("PLAIN", "SCRAM-SHA-256"),
            {"PLAIN": Secret(JAAS)},
            {"sasl.kerberos.service.name": "kafka", "sasl.server.callback.handler.class": "x.Y"},
            60_000,
        ),
    )
    assert "horse" not in str(found)


def test_what_is_written_for_one_mechanism_counts_for_no_other() -> None:
    key = "listener__name__inside__oauthbearer__sasl__login__callback__handler__class"
    found, problems = read(
        SASL_PLAINTEXT,
        sasl__enabled__mechanisms="PLAIN,OAUTHBEARER",
        listener__name__inside__plain__sasl__jaas__config=JAAS,
        listener__name__inside__oauthbearer__sasl__jaas__config=JAAS,
        sasl__login__callback__handler__class="x.Plain",
        sasl__server__max__receive__size="1000",
        listener__name__inside__sasl__server__max__receive__size="2000",
        **{key: "x.Bearer"},
    )

    assert problems == []
    assert found.sasl is not None
    assert found.sasl.max_receive_bytes == 2000
    assert found.sasl.options_of("PLAIN")["sasl.login.callback.handler.class"] == "x.Plain"
    assert found.sasl.options_of("OAUTHBEARER")["sasl.login.callback.handler.class"] == "x.Bearer"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (
            {"sasl__server__max__receive__size": "0"},
            "--set: sasl.server.max.receive.size = 0: expected a number of bytes, at least 1",
        ),
        ({"ssl__keystore__type": "BKS"}, "--set: ssl.keystore.type = BKS: expected one of JKS, PKCS12, PEM"),
        ({"ssl__client__auth": "maybe"}, "--set: ssl.client.auth = maybe: expected one of none, requested, required"),
        (
            {"ssl__enabled__protocols": "TLSv1.2,SSLv3"},
            "--set: ssl.enabled.protocols = TLSv1.2,SSLv3: expected some of TLSv1.2, TLSv1.3",
        ),
        (
            {"connections__max__reauth__ms": "-1"},
            "--set: connections.max.reauth.ms = -1: expected a number of milliseconds, at least 0",
        ),
        (
            {"sasl__enabled__mechanisms": "CRAM-MD5"},
            "--set: sasl.enabled.mechanisms = CRAM-MD5: expected some of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, "
            "OAUTHBEARER, GSSAPI",
        ),
        (
            {"sasl__enabled__mechanisms": "PLAIN"},
            "listener.name.*.plain.sasl.jaas.config: PLAIN needs it; a JAAS file of the JVM is not read",
        ),
    ],
)
def test_what_cannot_be_used_is_said(written: dict[str, str], problem: str) -> None:
    usable = {"ssl__keystore__location": "/k", "sasl__enabled__mechanisms": "SCRAM-SHA-256"}

    _, problems = read(SASL_SSL, **{**usable, **written})

    assert problem in problems
