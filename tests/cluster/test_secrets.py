"""Where do the passwords, keys and tokens of this process appear? Nowhere."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from hashlib import pbkdf2_hmac
from pathlib import Path
from typing import Any

import bcrypt
from click.testing import CliRunner

from controller.__main__ import main
from controller.brokers.dialing import SecuredDialer
from controller.connections.broker import Broken, BrokerConnection
from controller.lab.ports import free_ports
from controller.lab.zookeeper import zookeeper_client
from controller.security.jaas import OAUTHBEARER_LOGIN, PLAIN_LOGIN
from controller.security.towards_brokers import TowardsBrokers
from controller.settings.security import BrokerSecurity, Secret, StoreType, TlsSettings, TrustStore
from controller.wire.frames import framed
from tests.cluster.certificates import TRUST_PASSWORD, Authority
from tests.cluster.replica import Replica, wait_until
from tests.cluster.secured import MODULE
from tests.equipment.admin_client_side import Password, encode_passwords
from zk_layout.znodes.brokers import Endpoint
from zk_layout.znodes.configs import UserConfigAddress
from zk_layout.znodes.scram import MECHANISMS, credential

STORE, ANN, BOB, NEW, WRONG, TOKEN_KEY, WEB = (
    f"{name}-s3cr3t-{number}" for number, name in enumerate(("store", "ann", "bob", "new", "wrong", "token-key", "web"))
)
FORGED = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJldmUifQ.forged-s3cr3t"
WEB_HASH = bcrypt.hashpw(WEB.encode(), bcrypt.gensalt(4)).decode()
SALTED = pbkdf2_hmac("sha512", NEW.encode(), b"salt", 4096)
CREDENTIAL = credential(MECHANISMS[2], b"salt", SALTED, 4096)
DESCRIBE_LOG_DIRS = framed(b"\0\x23\0\1\0\0\0\1\xff\xff" + b"\xff\xff\xff\xff")
LIST_GROUPS = framed(b"\0\x10\0\0\0\0\0\1\xff\xff")


def hidden_things() -> Iterator[str]:
    """All secrets, in each spelling."""
    for text in (STORE, ANN, BOB, NEW, WRONG, TOKEN_KEY, WEB, WEB_HASH, FORGED, TRUST_PASSWORD):
        yield text
        yield base64.b64encode(text.encode()).decode().rstrip("=")[:-1]
    keys = re.findall(r"(?:stored|server)_key=([^,]+)", CREDENTIAL)
    assert len(keys) == 2
    yield from keys
    yield base64.b64encode(SALTED).decode()
    yield SALTED.hex()


def leaks(where: str, text: str) -> list[str]:
    """The secrets that appear."""
    return [f"{where}: {secret}" for secret in hidden_things() if secret in text]


def settings(authority: Authority, directory: Path, ports: Iterable[int]) -> dict[str, Any]:
    """Settings with every kind of secret."""
    inside, outside, bearers = ports
    web = directory / "web.yml"
    web.write_text(f"basic_auth_users:\n  watch: {WEB_HASH}\n")
    listeners = f"INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside},BEARERS://127.0.0.1:{bearers}"
    return {
        "listeners": listeners,
        "listener.security.protocol.map": "INSIDE:SASL_SSL,OUTSIDE:SASL_SSL,BEARERS:SASL_SSL",
        "inter.broker.listener.name": "INSIDE",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.inside.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.inside.scram-sha-512.sasl.jaas.config": f'{MODULE} required username="kafka" password="{BOB}";',
        "listener.name.outside.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.outside.plain.sasl.jaas.config": f'{PLAIN_LOGIN} required user_ann="{ANN}";',
        "listener.name.bearers.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.bearers.oauthbearer.sasl.jaas.config": f"{OAUTHBEARER_LOGIN} required;",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": authority.pkcs12("server", STORE),
        "ssl.keystore.password": STORE,
        "ssl.key.password": STORE,
        "ssl.truststore.type": "JKS",
        "ssl.truststore.location": authority.trusted_jks,
        "ssl.truststore.password": TRUST_PASSWORD,
        "delegation.token.master.key": TOKEN_KEY,
        "http.web.config.file": web,
        "journal.dir": directory / "journal",
        "log.level": "debug",
        "log.authorizer.level": "debug",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ann",
    }


class Clients:
    """Clients that log in, with right secrets and wrong ones."""

    def __init__(self, authority: Authority, ports: dict[str, int]) -> None:
        self._tls = TlsSettings(None, TrustStore(StoreType.PEM, str(authority.trusted_pem)))
        self._ports = ports

    def ask(self, listener: str, mechanism: str, jaas: str, question: bytes) -> bytes | None:
        """The answer; None if the login fails."""
        secured = BrokerSecurity("SASL_SSL", self._tls, mechanism, Secret(jaas))
        dialer = SecuredDialer(TowardsBrokers(secured, time.monotonic, lambda *_: None))
        endpoint = Endpoint(listener, "127.0.0.1", self._ports[listener], "SASL_SSL")

        async def once() -> bytes | None:
            connection = BrokerConnection(dialer, endpoint)
            try:
                return await connection.ask(question, timeout_s=10)
            except Broken:
                return None
            finally:
                connection.drop()

        return asyncio.run(once())

    def plain(self, user: str, password: str, question: bytes) -> bytes | None:
        """By PLAIN."""
        jaas = f'{PLAIN_LOGIN} required username="{user}" password="{password}";'
        return self.ask("OUTSIDE", "PLAIN", jaas, question)

    def scram(self, user: str, password: str, question: bytes = LIST_GROUPS) -> bytes | None:
        """By SCRAM."""
        jaas = f'{MODULE} required username="{user}" password="{password}";'
        return self.ask("INSIDE", "SCRAM-SHA-512", jaas, question)

    def send_raw(self, listener: str, *frames: bytes) -> None:
        """Send bytes, and ignore the result."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

        with (
            socket.create_connection(("127.0.0.1", self._ports[listener]), timeout=10) as plain,
            context.wrap_socket(plain) as connection,
        ):
            for frame in frames:
                connection.sendall(len(frame).to_bytes(4, "big") + frame)
                connection.recv(4096)


def get(replica: Replica, path: str, password: str) -> str:
    """A page with its headers, even a refusal; empty without an answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{replica.http_port}{path}")
    request.add_header("Authorization", "Basic " + base64.b64encode(f"watch:{password}".encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return f"{answer.headers}{answer.read().decode()}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.headers}{error.read().decode()}"
    except OSError:
        return ""


def diagnosed(replica: Replica, directory: Path) -> dict[str, str]:
    """What `diagnose` finds out about a replica, by file."""
    http, archive = directory / "client.yml", directory / "diagnosis.tar.gz"
    http.write_text(f"basic_auth: {{username: watch, password: {WEB}}}\n")
    arguments = [f"--config={replica.config}", f"--http.config.file={http}", f"--out={archive}"]
    more = [f"--log={replica.process.log_file}", f"--url=http://127.0.0.1:{replica.http_port}", "--output=json"]
    answer = CliRunner().invoke(main, ["diagnose", *arguments, *more])
    assert (answer.exit_code, json.loads(answer.stdout)["failures"]) == (0, {}), answer.output
    with tarfile.open(archive) as opened:
        files = {member.name.partition("/")[2]: opened.extractfile(member) for member in opened.getmembers()}
        found = {f"diagnosis {name}": file.read().decode() for name, file in files.items() if file is not None}
    assert f"{replica.broker_id} is the id of this replica, which runs already" in found["diagnosis checks.json"]
    return found


def test_no_secret_turns_up_anywhere(zookeeper: str, tmp_path: Path) -> None:
    authority, ports = Authority(tmp_path / "authority"), free_ports(3)
    given = settings(authority, tmp_path, ports)
    clients = Clients(authority, dict(zip(("INSIDE", "OUTSIDE", "BEARERS"), ports, strict=True)))
    with zookeeper_client(zookeeper) as client:
        salted = pbkdf2_hmac("sha512", BOB.encode(), b"salt", 4096)
        config = {"version": 1, "config": {"SCRAM-SHA-512": credential(MECHANISMS[2], b"salt", salted, 4096)}}
        client.create(UserConfigAddress("bob").path, json.dumps(config).encode(), makepath=True)
        client.ensure_path("/config/changes")
    with Replica(zookeeper, tmp_path, **given) as ours:
        wait_until(lambda: '"phase":"active"' in get(ours, "/leader", WEB), "it led")
        assert clients.plain("ann", ANN, LIST_GROUPS) is not None
        assert clients.plain("ann", WRONG, LIST_GROUPS) is None
        assert clients.plain("eve", WRONG, LIST_GROUPS) is None
        assert clients.scram("bob", BOB) is not None
        assert clients.scram("bob", BOB, DESCRIBE_LOG_DIRS) is not None
        assert clients.scram("bob", WRONG) is None
        clients.send_raw("OUTSIDE", handshake("PLAIN"), authenticate(f"\0ann\0{WRONG}\0more"))
        clients.send_raw("OUTSIDE", handshake("PLAIN"), authenticate(WRONG))
        clients.send_raw("BEARERS", handshake("OAUTHBEARER"), authenticate(f"n,,\x01auth=Bearer {FORGED}\x01\x01"))
        altered = clients.plain("ann", ANN, encode_passwords(1, (Password("new", 2, 4096, b"salt", SALTED),)))
        assert altered is not None
        with zookeeper_client(zookeeper) as client:
            assert CREDENTIAL in client.get(UserConfigAddress("new").path)[0].decode()
        pages = {path: get(ours, path, WEB) for path in ("/", "/metrics", "/leader", "/readyz", "/livez", "/nothing")}
        pages["refused"] = get(ours, "/leader", WRONG)
        assert pages["refused"].startswith("401")
        assert ours.process.pid is not None
        os.kill(ours.process.pid, signal.SIGUSR1)
        bundle = diagnosed(ours, tmp_path)
        processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        ours.process.stop()

    journal = "".join(path.read_text() for path in sorted((tmp_path / "journal").iterdir()))
    log = ours.process.log_file.read_text()
    assert "failed login" in pages["/metrics"]
    assert "SIGUSR1 received" in log
    assert "Principal = User:bob is Denied operation = Describe from host = 127.0.0.1 on resource = Cluster:" in log
    assert "for request = ALTER_USER_SCRAM_CREDENTIALS with resourceRefCount = 1 based on rule super user" in log
    assert journal
    shown = {"log": log, "journal": journal, "processes": processes, **pages, **bundle}
    assert [found for where, text in shown.items() for found in leaks(where, text)] == []


def handshake(mechanism: str) -> bytes:
    """SaslHandshake."""
    return b"\0\x11\0\1\0\0\0\1\xff\xff" + len(mechanism).to_bytes(2, "big") + mechanism.encode()


def authenticate(token: str) -> bytes:
    """SaslAuthenticate."""
    data = token.encode()
    return b"\0\x24\0\0\0\0\0\2\xff\xff" + len(data).to_bytes(4, "big") + data
