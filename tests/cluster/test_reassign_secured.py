"""`kafka-zk-controller reassign` on a listener with TLS and passwords, with a Java client's properties file."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.ports import free_port

SECRET = "horse staple"


class Secured(Struct, frozen=True):
    """The listener's address and its certificate."""

    address: str
    certificate: Path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One broker 3.9.1 with a second listener, SASL_SSL, and a self-signed certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    directory, port = tmp_path_factory.mktemp("secured"), free_port()
    key, certificate, store = (directory / name for name in ("key.pem", "certificate.pem", "broker.pem"))
    make = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {certificate} -subj /CN=localhost"
    subprocess.run([*make.split(), "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    store.write_text(key.read_text() + certificate.read_text())
    inside = free_port()
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    overrides = {
        "listeners": f"PLAINTEXT://127.0.0.1:{inside},SASL_SSL://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{inside},SASL_SSL://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{plain} required user_alice="{SECRET}";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store,
    }
    try:
        cluster = LocalCluster(ClusterSettings(broker_ids=(1,), overrides=overrides))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield Secured(f"127.0.0.1:{port}", certificate)


def listed(secured: Secured, directory: Path, password: str, trusted: Path | None) -> subprocess.CompletedProcess[str]:
    properties = directory / "client.properties"
    lines = [
        "security.protocol=SASL_SSL",
        "sasl.mechanism=PLAIN",
        f'sasl.jaas.config=x.PlainLoginModule required username="alice" password="{password}";',
    ]
    if trusted is not None:
        lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={trusted}"]
    properties.write_text("\n".join(lines))
    command = [sys.executable, "-m", "controller", "reassign", "--bootstrap-server", secured.address]
    command += ["--command-config", str(properties), "--list", "--output", "json", "--timeout", "15000"]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)


def test_with_the_right_certificate_and_password_the_tool_is_let_in(secured: Secured, tmp_path: Path) -> None:
    said = listed(secured, tmp_path, SECRET, secured.certificate)

    assert said.returncode == 0, said.stdout + said.stderr
    assert json.loads(said.stdout)["reassignments"] == []


@pytest.mark.parametrize(
    ("password", "is_trusted", "reason"),
    [
        ("donkey battery", True, "wrong user, password or mechanism|uthentication failed"),
        (SECRET, False, "certificate verify failed"),
    ],
)
def test_otherwise_the_reason_is_said_without_the_secret(
    secured: Secured, tmp_path: Path, password: str, is_trusted: bool, reason: str
) -> None:
    said = listed(secured, tmp_path, password, secured.certificate if is_trusted else None)

    assert said.returncode == 3, said.stdout + said.stderr
    assert re.search(reason, json.loads(said.stdout)["error"])
    assert password not in said.stdout + said.stderr
