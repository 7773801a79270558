"""Does a real ZooKeeper accept our login, and do the znodes that we create have the right owner?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from msgspec.structs import replace

from controller.lab.zookeeper import ZooKeeperServer
from controller.settings.security import Secret, ZooKeeperSecurity
from controller.settings.zookeeper import ZooKeeperSettings
from controller.zk import preparation
from controller.zk.answers import ConnectionState, TurnedAway
from controller.zk.bridge import Bridge
from controller.zk.client import client_of
from controller.zk.rights import Granted, Right, granted
from tests.conformance.adapter_world import until
from tests.secured_zookeeper import SecuredZooKeeper, jaas, running

KAFKA = ZooKeeperSecurity(jaas=jaas("kafka"), sets_acl=True)
ALL = 31


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> SecuredZooKeeper:
    return SecuredZooKeeper(tmp_path_factory.mktemp("secured"))


@pytest.fixture(scope="module")
def server(secured: SecuredZooKeeper) -> Iterator[ZooKeeperServer]:
    with running(secured) as server:
        yield server


def bridge_of(connect: str, security: ZooKeeperSecurity) -> Bridge:
    return Bridge(ZooKeeperSettings(connect, 10_000, 20_000, security=security))


def acls(client: KazooClient, path: str) -> set[tuple[str, str, int]]:
    return {(one.id.scheme, one.id.id, one.perms) for one in client.get_acls(path)[0]}


def prepared(connect: str, security: ZooKeeperSecurity) -> dict[str, set[tuple[str, str, int]]]:
    """The owners of the znodes that we create before brokers start."""

    async def prepare() -> None:
        bridge = bridge_of(connect, security)
        await bridge.start()
        try:
            await preparation.create_parents(bridge)
        finally:
            await bridge.stop()

    asyncio.run(prepare())
    client = client_of(connect, security)
    client.start()
    try:
        return {
            path: acls(client, path)
            for path in ("/", "/consumers", "/brokers/ids", "/config/users", "/config/topics", "/kafka_zk_controller")
        }
    finally:
        client.stop()
        client.close()


def turned_away(connect: str, security: ZooKeeperSecurity) -> str:
    """The error for a refused login, which takes less than a time-out."""

    async def knock() -> None:
        await bridge_of(connect, security).start()

    began = time.monotonic()
    with pytest.raises(TurnedAway) as caught:
        asyncio.run(knock())
    assert time.monotonic() - began < 10
    return str(caught.value)


def test_what_is_created_belongs_to_who_has_logged_in(server: ZooKeeperServer, secured: SecuredZooKeeper) -> None:
    ours, readers = ("sasl", "kafka", ALL), ("world", "anyone", 1)

    for connect, security in (
        (f"{server.connect}/plain", KAFKA),
        (f"{secured.secure}/tls", replace(KAFKA, tls=secured.tls())),
    ):
        assert prepared(connect, security) == {
            "/": {ours, readers},
            "/consumers": {("world", "anyone", ALL)},
            "/brokers/ids": {ours, readers},
            "/config/users": {ours},
            "/config/topics": {ours, readers},
            "/kafka_zk_controller": {ours, readers},
        }


def test_a_certificate_is_an_identity(server: ZooKeeperServer, secured: SecuredZooKeeper) -> None:
    assert server.port
    found = prepared(f"{secured.secure}/mutual", ZooKeeperSecurity(secured.tls("broker"), sets_acl=True))

    assert found["/config/users"] == {("x509", "CN=broker,O=lab", ALL)}


def test_without_set_acl_everything_is_open(server: ZooKeeperServer) -> None:
    found = prepared(f"{server.connect}/open", replace(KAFKA, sets_acl=False))

    assert set(map(frozenset, found.values())) == {frozenset({("world", "anyone", ALL)})}


def test_who_is_turned_away_hears_why(server: ZooKeeperServer, secured: SecuredZooKeeper) -> None:
    wrong = replace(KAFKA, jaas=jaas("kafka", "wr0ng"))
    assert turned_away(server.connect, wrong).endswith("127.0.0.1 refuses the login: user or password is wrong")

    said = turned_away(secured.secure, replace(KAFKA, tls=replace(secured.tls(), trust_store=None)))
    assert "TLS with 127.0.0.1:" in said
    assert "the server's certificate is not trusted: self-signed certificate in certificate chain" in said

    expired = replace(secured.tls(), key_store=secured.keys("broker", has_expired=True))
    assert "certificate" in turned_away(secured.secure, replace(KAFKA, tls=expired))

    closed = replace(
        secured.tls("broker"), enabled_protocols=("TLSv1.2",), cipher_suites=("TLS_RSA_WITH_AES_128_CBC_SHA",)
    )
    assert "TLS with" in turned_away(secured.secure, replace(KAFKA, tls=closed))


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_thousands_of_answers_come_over_tls(server: ZooKeeperServer, secured: SecuredZooKeeper, protocol: str) -> None:
    assert server.port
    security = replace(KAFKA, tls=replace(secured.tls(), enabled_protocols=(protocol,)))
    names = [f"/many-{protocol}-{n}" for n in range(600)]

    async def story() -> None:
        bridge = bridge_of(secured.secure, security)
        await bridge.start()
        try:
            await asyncio.gather(*(preparation.create_missing(bridge, name) for name in names))
            for _ in range(3):
                found = await asyncio.gather(*(bridge.get(name) for name in names))
                assert all(node is not None for node, _ in found)
            await asyncio.sleep(4)  # pings
            assert (await bridge.get(names[0]))[0] is not None
        finally:
            await bridge.stop()

    asyncio.run(story())


def rights(connect: str, path: str, security: ZooKeeperSecurity) -> Granted:
    async def ask() -> Granted:
        bridge = bridge_of(connect, security)
        await bridge.start()
        try:
            found = await granted(bridge, path)
        finally:
            await bridge.stop()
        assert found is not None
        return found

    return asyncio.run(ask())


def test_whose_rights_are_ours(server: ZooKeeperServer, secured: SecuredZooKeeper) -> None:
    every = Right.READ | Right.WRITE | Right.CREATE | Right.DELETE | Right.ADMIN
    prepared(f"{server.connect}/whose", KAFKA)
    ours = rights(f"{server.connect}/whose", "/brokers/ids", KAFKA)
    assert (ours.surely, ours.anyone, ours.others) == (every, Right.READ, ())

    others = rights(f"{server.connect}/whose", "/brokers/ids", replace(KAFKA, jaas=jaas("other")))
    assert (others.surely, others.others) == (Right.READ, ("sasl:kafka",))

    by_certificate = ZooKeeperSecurity(secured.tls("broker"), sets_acl=True)
    prepared(f"{secured.secure}/whose-x509", by_certificate)
    assert rights(f"{secured.secure}/whose-x509", "/config/users", by_certificate).surely == every


def test_a_digest_is_an_identity(server: ZooKeeperServer) -> None:
    ann = ZooKeeperSecurity(digest=Secret("ann:ann-s3cret"))
    client = client_of(server.connect, ann)
    client.start()
    try:
        made = client.get_acls("/")[0]
        assert made
        from kazoo.security import make_acl, make_digest_acl

        acl = [make_digest_acl("ann", "ann-s3cret", all=True), make_acl("world", "anyone", read=True)]
        client.create("/of-ann", b"", acl=acl)
        client.set("/of-ann", b"x")
    finally:
        client.stop()
        client.close()

    assert Right.WRITE in rights(server.connect, "/of-ann", ann).surely
    bob = rights(server.connect, "/of-ann", ZooKeeperSecurity(digest=Secret("bob:ann-s3cret")))
    assert (bob.surely, bob.others) == (Right.READ, ("digest:ann",))


def test_a_session_that_is_not_let_in_again_is_given_up_and_another_begins(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    secured = SecuredZooKeeper(tmp_path_factory.mktemp("changing"))
    users = secured.directory / "server.jaas"
    before = users.read_text()

    async def story(server: ZooKeeperServer) -> None:
        bridge = Bridge(ZooKeeperSettings(server.connect, 4_000, security=KAFKA))
        states: list[ConnectionState] = []
        await bridge.start()
        session = bridge.session
        bridge.state_listeners.append(states.append)
        try:
            users.write_text(before.replace("kafka-zk-s3cret", "another"))
            await asyncio.to_thread(server.restart)
            await until(lambda: ConnectionState.LOST in states)
            assert states == [ConnectionState.SUSPENDED, ConnectionState.LOST]
            users.write_text(before)
            await asyncio.to_thread(server.restart)
            await until(lambda: states[-1] is ConnectionState.CONNECTED)
            assert bridge.session not in (0, session)
            await preparation.create_missing(bridge, "/after")
        finally:
            await bridge.stop()

    with running(secured) as server:
        asyncio.run(story(server))


def test_a_server_without_users_says_so(zookeeper: str) -> None:
    assert turned_away(zookeeper, KAFKA).endswith("the server has no users for SASL logins")


def test_a_server_that_wants_a_login_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    strict = SecuredZooKeeper(
        tmp_path_factory.mktemp("strict"), **{"enforce.auth.enabled": "true", "enforce.auth.schemes": "sasl"}
    )
    with running(strict) as server:
        said = turned_away(server.connect, ZooKeeperSecurity())
        assert said.endswith("ZooKeeper wants a login by SASL (zookeeper.sasl.jaas.config)")
        assert prepared(server.connect, KAFKA)


def test_a_server_whose_certificate_has_expired_is_not_trusted(tmp_path_factory: pytest.TempPathFactory) -> None:
    secured = SecuredZooKeeper(tmp_path_factory.mktemp("expired"))
    secured.keys("zookeeper", has_expired=True)  # instead of the normal content
    with running(secured):
        said = turned_away(secured.secure, replace(KAFKA, tls=secured.tls()))

    assert said.endswith("the server's certificate is not trusted: certificate has expired")
