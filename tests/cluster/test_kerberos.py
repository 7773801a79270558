"""We lead brokers with Kerberos as a native controller does; the Kerberos server is a real one."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from controller.brokers.dialing import SecuredDialer
from controller.connections.broker import BrokerConnection, Unreachable
from controller.security.failures import UnusableSecurity
from controller.security.listener_mechanisms import Sources, listener_mechanisms
from controller.security.login import Login
from controller.security.towards_brokers import TowardsBrokers
from controller.server.listener import ListenerSettings
from controller.server.service import ListenerAccess
from controller.settings.security import BrokerSecurity, SaslSettings, Secret
from tests.cluster.replica import wait_until
from tests.cluster.secured import VERSIONS, Client, by_ticket, kerberos_login, replica, running, with_ticket
from tests.cluster.secured_walk import Walk
from tests.equipment.kdc import REALM, Kdc
from tests.unit.server.clients import serving
from zk_layout.znodes.brokers import Endpoint

pytest.importorskip("gssapi", reason="the Python package gssapi is not installed: make kerberos", exc_type=ImportError)


LOGIN = "listener.name.inside.gssapi.sasl.jaas.config"


def logs_in(address: str, keytab: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a client other than Java's can log in."""
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(keytab))
    monkeypatch.setenv("KRB5CCNAME", f"MEMORY:{keytab}")
    try:
        admin = KafkaAdminClient(
            bootstrap_servers=address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="GSSAPI",
            request_timeout_ms=4000,
            bootstrap_timeout_ms=4000,
        )
    except KafkaError:
        return False
    admin.close()
    return True


@asynccontextmanager
async def ways_in(us: dict[str, Any], them: dict[str, Any]) -> AsyncIterator[tuple[SecuredDialer, Endpoint]]:
    """A listener of ours with these settings, and our own client connection to it."""
    sasl = SaslSettings(("GSSAPI",), {"GSSAPI": Secret(them[LOGIN])}, them)
    sources = Sources(lambda: 0, lambda *_: None, lambda _: None, default_realm=REALM)
    access = ListenerAccess(None, partial(Login, listener_mechanisms(sasl, sources), lambda: 0))
    security = BrokerSecurity("SASL_PLAINTEXT", None, "GSSAPI", Secret(us[LOGIN]), us)
    dialer = SecuredDialer(TowardsBrokers(security, time.monotonic, lambda *_: None))
    async with serving(listeners=[ListenerSettings("INSIDE", "127.0.0.1", 0, access=access)]) as server:
        yield dialer, Endpoint("INSIDE", "localhost", server.ports["INSIDE"], "SASL_PLAINTEXT")


def outcome(us: dict[str, Any], them: dict[str, Any]) -> str:
    """Empty, or the reason why the login fails."""

    async def story() -> None:
        async with ways_in(us, them) as (dialer, endpoint):
            connection = BrokerConnection(dialer, endpoint)
            try:
                await connection.versions(10.0)
            finally:
                connection.drop()

    try:
        asyncio.run(story())
    except (Unreachable, UnusableSecurity) as error:
        return str(error)
    return ""


def test_who_is_not_let_in_hears_why(kdc: Kdc, tmp_path: Path) -> None:
    brokers, other = by_ticket(kdc.keytab("kafka/localhost")), kdc.keytab("mallory")

    def as_(principal: str, keytab: Path = other) -> dict[str, Any]:
        return {**brokers, LOGIN: kerberos_login(principal, keytab)}

    assert outcome(brokers, brokers) == ""
    assert "the broker refuses the login: Authentication failed" in outcome(as_("mallory"), brokers)
    assert "no ticket for the broker" in outcome(as_("ghost"), brokers)
    assert "keyTab" in outcome(as_("mallory", tmp_path / "none.keytab"), brokers)
    assert "not found in Kerberos database" in outcome({**brokers, "sasl.kerberos.service.name": "http"}, brokers)
    carol = kdc.keytab("carol")
    kdc.stop()
    assert "no ticket for the broker" in outcome(as_("carol", carol), brokers)


def test_one_ticket_is_enough_until_it_ends(kdc: Kdc) -> None:
    own = by_ticket(kdc.keytab("kafka/localhost"))

    def fetched() -> int:
        return kdc.process.output_since_start().count(b"TGS_REQ")

    assert [outcome(own, own) for _ in range(3)] == [""] * 3
    assert fetched() == 1

    kdc.krb5_conf.write_text(f"[libdefaults]\n  ticket_lifetime = 1s\n{kdc.krb5_conf.read_text()}")
    short = by_ticket(kdc.keytab("kafka/other"))
    short[LOGIN] = kerberos_login("kafka/other", kdc.directory / "kafka-other.keytab")
    assert outcome(short, own) == ""
    before = fetched()
    time.sleep(1.5)
    assert outcome(short, own) == ""
    assert fetched() > before


def test_nothing_else_waits_while_no_kerberos_server_answers(kdc: Kdc) -> None:
    """The library waits for the server, for seconds."""
    own = by_ticket(kdc.keytab("kafka/localhost"))

    async def story() -> float:
        async with ways_in(own, own) as (dialer, endpoint):
            connecting = asyncio.create_task(dialer.open_connection(endpoint))
            longest, until = 0.0, time.monotonic() + 1.0
            while (began := time.monotonic()) < until:
                await asyncio.sleep(0.01)
                longest = max(longest, time.monotonic() - began)
            assert not connecting.done()
            connecting.cancel()
            return longest

    kdc.process.signal(signal.SIGSTOP)
    try:
        assert asyncio.run(story()) < 0.5
    finally:
        kdc.process.signal(signal.SIGCONT)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.timeout(400)
def test_brokers_with_kerberos_are_led(version: str, kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = kdc.keytab("kafka/localhost")
    keytabs = {name: kdc.keytab(name) for name in ("alice", "bob", "mallory")}
    own = by_ticket(service)
    with (
        running(version, own, f"-Djava.security.krb5.conf={kdc.krb5_conf}") as cluster,
        replica(cluster, tmp_path, own) as ours,
    ):
        ours.await_phase("active", 60)
        assert logs_in(f"localhost:{ours.port}", keytabs["alice"], monkeypatch)
        # A principal that no rule names cannot log in anywhere.
        assert not logs_in(f"localhost:{ours.port}", keytabs["mallory"], monkeypatch)
        refused = Client(cluster, tmp_path, "mallory", with_ticket(keytabs["mallory"])).create(ours.address, "orders")
        assert "Authentication failed" in refused.output, refused.output
        wait_until(lambda: ours.measure("clients_disconnected_total", reason="failed login") >= 2, "both were counted")

        Walk(cluster, ours, tmp_path, lambda name: with_ticket(keytabs[name])).run()
        assert [line for line in ours.complaints() if line["level"] == "error"] == []
