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
    )

    found = secret_texts(
        config, ["delegation.token.secret.key=of tokens"], {"KAFKA_ZK_CONTROLLER_SSL_KEYSTORE_PASSWORD": "of the store"}
    )

    assert {'of"us', "anns", "from a file", "of the key", "of tokens", "of the store", "of nothing"} <= found
    assert "kafka" not in found
