"""Which client gets in by which mechanism, at our controller and at a broker? `python -m tests.clients.secured`.

Each client is asked twice at each node: as somebody who may come in, and as somebody who may not. Who is in must be
who it says, for a request follows that only this user may make.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from hashlib import pbkdf2_hmac
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.java import SMALL_SERVER
from controller.lab.ports import free_ports
from controller.lab.tools import KafkaTools
from controller.lab.zookeeper import zookeeper_client
from controller.security.jaas import OAUTHBEARER_LOGIN, PLAIN_LOGIN, SCRAM_LOGIN
from tests.clients.operations import without_addresses
from tests.clients.programs import Client, Unavailable, go, java, node, python
from tests.clients.running import UNSUPPORTED, Plan, carry_out
from tests.cluster.certificates import Authority
from tests.cluster.replica import Replica
from tests.cluster.secured import MAPPING, kerberos_login, stores, trust
from tests.equipment.kdc import REALM, Kdc
from zk_layout.znodes.configs import UserConfigAddress
from zk_layout.znodes.scram import MECHANISMS, credential

KAFKA = "3.9.1"
CERTIFICATE = "SSL"
WAYS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", CERTIFICATE)
OURS, BROKER = "our controller", "a broker"
_SASL = ("SASL_SSL", "SASL_PLAINTEXT")
_OPERATIONS = ("describe_cluster", "validate_only")
_PASSWORD = "alice-s3cret"
_TIMEOUT_S = 20.0

CLIENTS: tuple[tuple[Client, frozenset[str]], ...] = (
    (Client("Java AdminClient", "2.8.2", java("2.8.2")), frozenset()),
    (Client("Java AdminClient", "4.1.1", java("4.1.1")), frozenset()),
    (
        Client("confluent-kafka", "2.16.1", python("confluent.py", "confluent-kafka==2.16.1")),
        frozenset({"GSSAPI"}),
    ),
    (
        Client("kafka-python", "3.0.12", python("kafka_python.py", "kafka-python==3.0.12", "gssapi==1.12.0")),
        frozenset(),
    ),
    (Client("kafkajs", "2.2.4", node("kafkajs.js")), frozenset({"GSSAPI"})),
    (Client("franz-go", "1.22.2", go("franz")), frozenset({"GSSAPI"})),
    (Client("sarama", "1.61.1", go("sarama")), frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"})),
)
"""And what of it each of them has not by itself: its library, or the build that its registry has."""

_HEAD = """\
# Clients on secured listeners

<!-- Made by `make clients-secured`. -->

Which client logs in by which mechanism, at our controller and at a broker of Kafka {kafka}, on {day}:
`make clients-secured` runs it and makes this page. Each client asks for the cluster, and then for a topic that is only
checked; only one user may do that, so that whoever is in is also who it says. It does so over SASL_SSL and over
SASL_PLAINTEXT, and with a certificate over SSL. On SASL_PLAINTEXT and on SSL it tries as somebody else, too: with a
wrong password, a token without the scope, a Kerberos principal that no rule names, or the certificate of an authority
that nobody trusts.

- `✓`: it is let in by both nodes over each protocol, and refused by both as somebody else.
- `–`: its library, or the build in its registry, has not got the mechanism.
"""


_REFUSED = """\
## Who is refused

Hears the same from both nodes, except:

| client | mechanism | our controller | a broker |
| --- | --- | --- | --- |
"""


class Person(Struct, frozen=True):
    """Somebody on one way in: what a client program is told, and properties for Java."""

    security: Mapping[str, str]
    file: Path


class Outcome(Struct, frozen=True):
    """What one client saw of one node; without `refused` it was let in."""

    client: str
    way: str
    protocol: str
    node: str
    is_welcome: bool
    refused: str | None


class Stage:
    """Two brokers and our controller, each with every kind of listener, and those who come there."""

    def __init__(self, directory: Path, kdc: Kdc) -> None:
        self.directory, self.kdc = directory, kdc
        self.authority, self.strangers = Authority(directory / "stores"), Authority(directory / "strangers")
        self._service = kdc.keytab("kafka/localhost")
        self._keytabs = {True: kdc.keytab("alice"), False: kdc.keytab("mallory")}
        self.ports: dict[str, dict[str, int]] = {}
        self.people = {
            (way, protocol, good): self._person(way, protocol, is_welcome=good)
            for way in WAYS
            for protocol in protocols(way)
            for good in (True, False)
        }

    def settings(self, name: str) -> dict[str, Any]:
        """Of a node: the listener between brokers is open, and on each other one everybody must say who it is."""
        ports = self.ports.setdefault(name, dict(zip(("INSIDE", *_SASL, CERTIFICATE), free_ports(4), strict=True)))
        names = {"INSIDE": "INSIDE", "SASL_SSL": "ENCRYPTED", "SASL_PLAINTEXT": "OPEN", CERTIFICATE: "MUTUAL"}
        found: dict[str, Any] = {
            "listeners": ",".join(f"{names[kind]}://127.0.0.1:{port}" for kind, port in ports.items()),
            "advertised.listeners": ",".join(f"{names[kind]}://localhost:{port}" for kind, port in ports.items()),
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,ENCRYPTED:SASL_SSL,OPEN:SASL_PLAINTEXT,MUTUAL:SSL",
            "inter.broker.listener.name": "INSIDE",
            "listener.name.mutual.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": MAPPING,
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice;User:kafka",
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1](alice),RULE:[2:$1](kafka)",
            **stores(self.authority, name),
        }
        modules = {
            "plain": f'{PLAIN_LOGIN} required user_alice="{_PASSWORD}";',
            "scram-sha-256": f"{SCRAM_LOGIN} required;",
            "scram-sha-512": f"{SCRAM_LOGIN} required;",
            "oauthbearer": f'{OAUTHBEARER_LOGIN} required unsecuredValidatorRequiredScope="kafka" '
            'unsecuredLoginStringClaim_sub="broker";',
            "gssapi": kerberos_login("kafka/localhost", self._service),
        }
        for listener in ("encrypted", "open"):
            prefix = f"listener.name.{listener}"
            found[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(way for way in WAYS if way != CERTIFICATE)
            found |= {f"{prefix}.{mechanism}.sasl.jaas.config": text for mechanism, text in modules.items()}
        return found

    def address(self, node: str, protocol: str) -> str:
        """Where a listener of a node is."""
        return f"localhost:{self.ports[node][protocol]}"

    def _person(self, way: str, protocol: str, *, is_welcome: bool) -> Person:
        of = self.authority if is_welcome else self.strangers
        password = _PASSWORD if is_welcome else "guessed"
        certificate, key = of.pem_files("alice")
        keytab = self._keytabs[is_welcome]
        scope = 'unsecuredLoginListClaim_scope="|kafka"' if is_welcome else ""
        user = f'username="alice" password="{password}"'
        modules = {
            "PLAIN": f"{PLAIN_LOGIN} required {user};",
            "OAUTHBEARER": f'{OAUTHBEARER_LOGIN} required unsecuredLoginStringClaim_sub="alice" {scope};',
            "GSSAPI": kerberos_login(keytab.stem, keytab),
        }
        properties: dict[str, Any] = {"security.protocol": protocol, **trust(self.authority)}
        if way == CERTIFICATE:
            properties |= {**stores(of, "alice"), **trust(self.authority)}
        else:
            properties |= {
                "sasl.mechanism": way,
                "sasl.jaas.config": modules.get(way, f"{SCRAM_LOGIN} required {user};"),
                "sasl.kerberos.service.name": "kafka",
            }
        file = self.directory / f"{way}-{protocol}-{is_welcome}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        security = {
            "protocol": protocol,
            "mechanism": way,
            "authority": str(self.authority.trusted_pem),
            "certificate": str(certificate),
            "key": str(key),
            "user": keytab.stem if way == "GSSAPI" else "alice",
            "password": password,
            "token": _token(is_welcome),
            "keytab": str(keytab),
            "realm": REALM,
            "file": str(file),
        }
        return Person(security, file)


def protocols(way: str) -> tuple[str, ...]:
    """Over which a way leads."""
    return (CERTIFICATE,) if way == CERTIFICATE else _SASL


def _token(has_scope: bool) -> str:
    """One that nobody has signed, good until 2100."""
    claims: dict[str, Any] = {"sub": "alice", "iat": 1_700_000_000, "exp": 4_102_444_800}
    if has_scope:
        claims["scope"] = ["kafka"]
    parts = ({"alg": "none"}, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


@contextmanager
def stage(directory: Path) -> Iterator[Stage]:
    """Brokers that our controller leads."""
    with Kdc(directory / "kdc") as kdc:
        made = Stage(directory, kdc)
        options = (f"-Djava.security.krb5.conf={kdc.krb5_conf}",)
        settings = ClusterSettings(version=KAFKA, broker_ids=(1, 2), java_options=(*SMALL_SERVER, *options))
        cluster = LocalCluster(settings, progress=_say)
        names = {1: BROKER, 2: "another broker"}
        for number, broker in cluster.brokers.items():
            broker.properties.update(made.settings(names[number]))
        try:
            cluster.zookeeper.start()
            _let_alice_in(cluster)
            cluster.start_brokers(cluster.brokers)
            own = {**made.settings(OURS), "inter.broker.protocol.version": "3.9", "new_cluster": False}
            with _kerberos(kdc), Replica(cluster.zookeeper_connect, directory, 901, **own) as ours:
                ours.await_phase("active", 60)
                yield made
        finally:
            cluster.kill()


@contextmanager
def _kerberos(kdc: Kdc) -> Iterator[None]:
    """What this process starts meanwhile knows this Kerberos server, Java too."""
    os.environ["KRB5_CONFIG"] = str(kdc.krb5_conf)
    os.environ["JDK_JAVA_OPTIONS"] = f"-Djava.security.krb5.conf={kdc.krb5_conf}"
    try:
        yield
    finally:
        del os.environ["KRB5_CONFIG"], os.environ["JDK_JAVA_OPTIONS"]


def _let_alice_in(cluster: LocalCluster) -> None:
    def salted(digest: str) -> bytes:
        return pbkdf2_hmac(digest, _PASSWORD.encode(), b"salt", 4096)

    config = {m.name: credential(m, b"salt", salted(m.digest), 4096) for m in MECHANISMS.values()}
    with zookeeper_client(cluster.zookeeper_connect) as zookeeper:
        zookeeper.ensure_path("/config/users")
        zookeeper.create(UserConfigAddress("alice").path, json.dumps({"version": 1, "config": config}).encode())


Ask = Callable[[Stage, str, Person], str | None]
"""What one client sees of a node as somebody: None where it is let in, or why it is not."""


def _by_program(argv: tuple[str, ...], env: Mapping[str, str], made: Stage, node: str, who: Person) -> str | None:
    protocol = who.security["protocol"]
    plan = Plan(made.address(node, protocol), "secured", _OPERATIONS, (1, 2), _TIMEOUT_S, security=who.security)
    told = carry_out(argv, env, plan)
    return next((_in_words(said) for said in told.values() if isinstance(said, dict) and "error" in said), None)


def _in_words(said: Mapping[str, Any]) -> str:
    message = _constant(str(said.get("message", "")))
    return f"{said['error']}: {message}" if message else str(said["error"])


def _constant(text: str) -> str:
    """Without what differs from one run to the next."""
    text = re.sub(r"^\[.*?\] ERROR |[0-9A-F]{8,}:(?=error)", "", " ".join(text.split()))
    return without_addresses(text)


def _by_tool(tools: KafkaTools, made: Stage, node: str, who: Person) -> str | None:
    at = made.address(node, who.security["protocol"])
    ran = tools.run("kafka-topics", "--bootstrap-server", at, "--command-config", str(who.file), "--list")
    if ran.exit_code == 0:
        return None
    lines = [line for line in ran.output.splitlines() if "rror" in line]
    return _constant(lines[-1] if lines else ran.output)


def ask_all(made: Stage, ask: Ask, title: str, without: frozenset[str]) -> list[Outcome]:
    """Everything that one client sees."""
    calls = [
        (way, protocol, node, good)
        for (way, protocol, good) in made.people
        for node in (OURS, BROKER)
        if way not in without and (good or protocol != "SASL_SSL")
    ]

    def one(call: tuple[str, str, str, bool]) -> Outcome:
        way, protocol, node, good = call
        return Outcome(title, way, protocol, node, good, ask(made, node, made.people[way, protocol, good]))

    with ThreadPoolExecutor(4) as beside:
        return list(beside.map(one, calls))


def troubles(outcomes: list[Outcome]) -> list[str]:
    """Who was not let in though welcome, or let in though not."""
    return [
        f"{seen.client}, {seen.way} over {seen.protocol} at {seen.node}: {seen.refused or 'somebody else is let in'}"
        for seen in outcomes
        if (seen.refused is None) != seen.is_welcome
    ]


def page(outcomes: list[Outcome], clients: Mapping[str, frozenset[str]], absent: Mapping[str, str]) -> str:
    """The whole page."""
    titles = ("certificate" if way == CERTIFICATE else way for way in WAYS)
    lines = [f"| client | {' | '.join(titles)} |", "| --- " * (1 + len(WAYS)) + "|"]
    for title, without in clients.items():
        cells = (
            UNSUPPORTED if way in without else _cell([s for s in outcomes if (s.client, s.way) == (title, way)])
            for way in WAYS
        )
        lines.append(f"| {title} | {' | '.join(cells)} |")
    day = datetime.now(UTC).date().isoformat()
    parts = [_HEAD.format(kafka=KAFKA, day=day), "\n".join(lines) + "\n"]
    if found := troubles(outcomes):
        parts.append("Not as expected:\n\n" + "".join(f"- {trouble}\n" for trouble in found))
    parts += [f"Not run: {title}: {why}.\n" for title, why in absent.items()]
    parts.append(_refusals(outcomes))
    return "\n".join(parts)


def _cell(seen: list[Outcome]) -> str:
    bad = [s for s in seen if (s.refused is None) != s.is_welcome]
    if not seen:
        return ""
    return "✓" if not bad else "✗ at " + " and ".join(sorted({s.node for s in bad}))


def _refusals(outcomes: list[Outcome]) -> str:
    """Where somebody else is told something else by us than by a broker."""
    told = {(s.client, s.way, s.node): s.refused for s in outcomes if not s.is_welcome}
    differing = [
        f"| {client} | {way} | {_short(ours)} | {_short(told[client, way, BROKER])} |"
        for (client, way, node), ours in told.items()
        if node == OURS and ours != told[client, way, BROKER]
    ]
    if not differing:
        return "## Who is refused\n\nEverybody hears the same from both nodes.\n"
    return _REFUSED + "\n".join(differing) + "\n"


def _short(text: str | None) -> str:
    whole = " ".join((text or "let in").replace("|", "/").split())
    return whole if len(whole) <= 200 else whole[:200] + "…"


@click.command()
@click.option("--clients", "words", default="", help="Only those whose name contains one of these words.")
@click.option("--output", type=click.Path(path_type=Path), help="Renew this page.")
def main(words: str, output: Path | None) -> None:
    """A table client by mechanism."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing stays behind
    wanted = [word.strip().lower() for word in words.split(",") if word.strip()]
    asking: dict[str, Ask] = {}
    without: dict[str, frozenset[str]] = {f"kafka-topics {KAFKA}": frozenset()}
    absent: dict[str, str] = {}
    for client, lacking in CLIENTS:
        if wanted and not any(word in client.title.lower() for word in wanted):
            continue
        try:
            program = client.make_ready()
        except Unavailable as why:
            absent[client.title] = str(why)
            continue
        asking[client.title] = partial(_by_program, program.argv, program.env)
        without[client.title] = lacking
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as directory, stage(Path(directory)) as made:
        if not wanted or any(word in "kafka-topics" for word in wanted):
            tools = KafkaTools(KAFKA, (f"-Djava.security.krb5.conf={made.kdc.krb5_conf}",))
            asking[f"kafka-topics {KAFKA}"] = partial(_by_tool, tools)
        for title, ask in asking.items():
            _say(title)
            outcomes += ask_all(made, ask, title, without[title])
            for trouble in troubles([o for o in outcomes if o.client == title]):
                _say(f"  {trouble}")
    told = page(outcomes, {title: without[title] for title in without if title in asking}, absent)
    click.echo(told)
    if output:
        output.write_text(told, encoding="utf-8")
    sys.exit(1 if troubles(outcomes) else 0)


def _say(what: str) -> None:
    sys.stderr.write(what + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
