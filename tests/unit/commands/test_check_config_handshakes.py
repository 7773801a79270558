"""What does `run --check-config` say of certificates before any broker sees them?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from controller.__main__ import main
from tests.cluster.certificates import TRUST_PASSWORD, Authority

PASSWORD = "store-password"


def outcomes(
    own: Authority, trusted: Authority, host: str = "127.0.0.1", client_auth: str = "required"
) -> dict[str, str]:
    """By listener, the outcome of the handshakes of a replica with such a certificate."""
    settings = {
        "zookeeper.connect": "zk:2181",
        "broker.id": "901",
        "listeners": "INSIDE://0.0.0.0:9095,OUTSIDE://0.0.0.0:9096,PLAIN://0.0.0.0:9097",
        "advertised.listeners": f"INSIDE://{host}:9095,OUTSIDE://elsewhere.example:9096,PLAIN://{host}:9097",
        "listener.security.protocol.map": "INSIDE:SSL,OUTSIDE:SSL,PLAIN:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "ssl.client.auth": client_auth,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(own.pkcs12("server", PASSWORD)),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(trusted.trusted_jks),
        "ssl.truststore.password": TRUST_PASSWORD,
    }
    argv = ["run", "--check-config", "--output=json", *(f"--set={key}={value}" for key, value in settings.items())]
    answer = CliRunner().invoke(main, argv)
    assert answer.exit_code == 0, answer.output
    found: dict[str, str] = json.loads(answer.stdout)["handshakes"]
    return found


@pytest.mark.parametrize("client_auth", ["none", "required"])
def test_who_would_be_let_in_is(tmp_path: Path, client_auth: str) -> None:
    authority = Authority(tmp_path)

    assert outcomes(authority, authority, client_auth=client_auth) == {"INSIDE": "ok"}


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path / "ours"), Authority(tmp_path / "others")

    assert "does not trust the authority of ssl.keystore.location" in outcomes(ours, others)["INSIDE"]
    elsewhere = outcomes(ours, ours, host="controller-1.example")["INSIDE"]
    assert "is not valid for controller-1.example in advertised.listeners" in elsewhere


def test_a_person_reads_it_too(tmp_path: Path) -> None:
    answer = CliRunner().invoke(
        main, ["run", "--check-config", "--set=zookeeper.connect=zk:2181", "--set=broker.id=901"]
    )

    assert "handshake" not in answer.output
