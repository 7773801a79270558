"""A text comes out without secrets, and with everything else."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.diagnosis.scrubbing import Scrubber
from controller.settings.secrets import secret_texts

SECRET = 'ho"rse\\s3c:r t'
NOTHING = Scrubber(())


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps({"a": json.dumps(SECRET)}),
        quote(SECRET, safe=""),
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(f"ann:{SECRET}".encode()).decode(),
        base64.b64encode(f"bo:{SECRET}more".encode()).decode(),
        base64.b64encode(f"b:{SECRET}".encode()).decode(),
    ],
)
def test_a_known_secret_is_found_in_each_spelling(text: str) -> None:
    shown = Scrubber([SECRET, json.dumps(SECRET)[1:-1]]).scrub(f"before {text} after")

    assert "[hidden]" in shown
    assert text not in shown
    assert (shown.startswith("before "), shown.endswith(" after")) == (True, True)


@pytest.mark.parametrize("levels", range(4))
@pytest.mark.parametrize("scrubber", [Scrubber([SECRET]), NOTHING], ids=["known", "named"])
def test_a_secret_in_json_in_json_is_found(levels: int, scrubber: Scrubber) -> None:
    """As a reason with a password in it, in a znode, in a list of znodes."""
    text = f'"password": {json.dumps(SECRET)}, "b": 1'
    for _ in range(levels):
        text = json.dumps({"a": text})

    shown = scrubber.scrub(text)

    assert not [word for word in ("rse", "s3c", "r t") if word in shown]
    for _ in range(levels):
        shown = json.loads(shown)["a"]
    assert shown == '"password": "[hidden]", "b": 1'


@given(st.text(min_size=3).filter(lambda text: len(text.strip()) >= 3), st.binary(), st.binary())
def test_base64_hides_no_known_secret(secret: str, before: bytes, after: bytes) -> None:
    data = secret.strip().encode("utf-8", "surrogatepass")
    encoded = base64.b64encode(before + data + after).decode()
    inner = base64.b64encode(data).decode().rstrip("=")
    if "\\u" not in repr(secret):
        shown = Scrubber([secret]).scrub(encoded)
        assert len(inner) < 8 or "[hidden]" in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('"ssl.keystore.password": "abc", "b": 1', '"ssl.keystore.password": "[hidden]", "b": 1'),
        (
            'x = "{\\"a\\": {\\"password\\": \\"abc\\"}, b: 1}"',
            'x = "{\\"a\\": {\\"password\\": \\"[hidden]\\"}, b: 1}"',
        ),
        ('{"sasl.jaas.config": "a \\"abc\\";", "b": 1}', '{"sasl.jaas.config": "[hidden]", "b": 1}'),
        ("ssl.key.password=abc\nb=1", "ssl.key.password=[hidden]\nb=1"),
        ('username="kafka" password="a\\"b" user_ann=c;', 'username="kafka" password="[hidden]" user_ann=[hidden];'),
        ("sasl.jaas.config=a.B required x=y;\nb=1", "sasl.jaas.config=[hidden]\nb=1"),
        ("Authorization: Basic YW5uOmhvcnNl", "Authorization: Basic [hidden]"),
        ("https://ann:horse@host/path", "https://ann:[hidden]@host/path"),
        ("SCRAM-SHA-512=salt=x,stored_key=abc=,server_key=def=,iterations=4096", None),
        ("-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----\nb", "[hidden]\nb"),
        ("-----BEGIN PRIVATE KEY-----\nabc", "[hidden]"),
        ("watch: $2b$04$" + "a" * 53, "watch: [hidden]"),
        ("delegation.token.secret.key=abc", "delegation.token.secret.key=[hidden]"),
        ("ssl.keystore.password=a;abc, abc}abc abc\nb=1", "ssl.keystore.password=[hidden]\nb=1"),
        ("ssl.keystore.password abc\nb=1", "ssl.keystore.password [hidden]\nb=1"),
        ("kafka-client --password abc --x", "kafka-client --password [hidden] --x"),
        ("it said: password => abc, b", "it said: password => [hidden], b"),
        ("<password>abc</password>", "<password>[hidden]</password>"),
        ('at: {"password": ["abc", 1]}', 'at: {"password": ["[hidden]", 1]}'),
        ('at: {"password": {"value": "abc"}}', 'at: {"password": {"value": "[hidden]"}}'),
        ("at: {'password': b'abc', 'b': 1}", "at: {'password': b'[hidden]', 'b': 1}"),
        ("at: {'password': 'a\\'abc', 'b': 1}", "at: {'password': '[hidden]', 'b': 1}"),
        ("DB_PWD=abc", "DB_PWD=[hidden]"),
        ("at: pass=abc, b", "at: pass=[hidden], b"),
        ("at: secretKey=abc, b", "at: secretKey=[hidden], b"),
        ("x-api-key: abc", "x-api-key: [hidden]"),
        ('{"hmac": "abc"}', '{"hmac": "[hidden]"}'),
        ("addauth digest ann:abc", "addauth digest ann:[hidden]"),
        ("acl digest:ann:abc=:cdrwa", "acl digest:ann:[hidden]"),
        ("-Dzookeeper.DigestAuthenticationProvider.superDigest=super:abc= -x", None),
        ("https://abc@host/path", "https://[hidden]@host/path"),
        ("https://ann:ab/abc@host/path", "https://ann:[hidden]@host/path"),
        ("https://host:80/keys?token=abc&b=1", "https://host:80/keys?token=[hidden]&b=1"),
        ("it sent eyJhbGciOiJub25lIn0.eyJzdWIiOiJabcJ9.abc-_", "it sent [hidden]"),
        ("Authorization: Negotiate YII" + "abc" * 9, "Authorization: Negotiate [hidden]"),
        ("MIIabcabc\nabc=\n-----END PRIVATE KEY-----\nb", "[hidden]\nb"),
    ],
)
def test_what_a_name_calls_a_secret_is_one(text: str, shown: str | None) -> None:
    found = NOTHING.scrub(text)

    assert "abc" not in found
    assert shown is None or found == shown


@pytest.mark.parametrize(
    "text",
    [
        '{"delegation.token.expiry.check.interval.ms": "3600000", "zookeeper.ssl.keystore.location": "/k.p12"}',
        '"zookeeper.sasl.jaas.config": "[hidden]",\n"ssl.key.password": "[hidden]"',
        'kafka_zk_controller_clients_disconnected_total{reason="failed login"} 3.0',
        "User:ann is Denied operation = Create from host = 10.0.0.2 on resource = Topic:LITERAL:passwords",
        "https://host:9092/path, SSL://k1:9093,SASL_SSL://k2:9094 3000@k3:9093",
        '{"tokens": 5, "keys": ["a"], "compass": 1, "bypass": true}',
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert NOTHING.scrub(text) == text


def test_a_long_text_takes_no_long_time() -> None:
    began = time.process_time()
    for text in (
        "password" * 100_000,
        "a" * 1_000_000,
        'password="' + "\\" * 500_000,
        "user_" * 100_000,
        "://:" * 100_000,
        "://" * 30_000,
        "-eyJ" * 30_000,
        "eyJ" + "a" * 300_000,
        "password=[{" * 30_000,
        "password=\\" * 30_000,
        "?key" * 30_000,
        "digest a" * 30_000,
        "a\n" * 30_000 + "-----END PRIVATE KEY-----\n" * 3_000,
        "--password " * 30_000,
        "a.password" * 30_000,
    ):
        Scrubber(["horse"]).scrub(text)

    assert time.process_time() - began < 20


def test_every_secret_of_a_configuration_is_known_wherever_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("from a file")
    config = tmp_path / "controller.properties"
    config.write_text(
        "config.providers=dir\n"
        "config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
        f"super.users=${{dir:{tmp_path}:kept}}\n"
        "ssl.key.password=of the key\n"
        "broker.id=not a number\n"
        'listener.name.a.plain.sasl.jaas.config=a.B required username="kafka" password="of\\\\"us" user_ann=anns;\n'
        "zookeeper.digest.credentials=us:of zk\n"
        "unknown.password=of nothing\n"
        "vault.token=of a vault\n"
        "sasl.oauthbearer.jwks.endpoint.url=https://ann:of+a%20url@host/keys\n"
    )

    found = secret_texts(
        config, ["delegation.token.secret.key=of tokens"], {"KAFKA_ZK_CONTROLLER_SSL_KEYSTORE_PASSWORD": "of the store"}
    )

    assert {'of"us', "anns", "from a file", "of the key", "of tokens", "of the store", "of nothing"} <= found
    assert {"of a vault", "of+a%20url", "of+a url"} <= found
    assert "kafka" not in found
