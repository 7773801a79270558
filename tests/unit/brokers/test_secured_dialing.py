"""A connection to a secured listener is opened encrypted and logged in, or says why not."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from controller.brokers.dialing import PlaintextDialer, SecuredDialer, Security, Streams
from controller.connections.broker import BrokerConnection, Unreachable
from controller.security.client_login import ClientLogin
from controller.security.jaas import OAUTHBEARER_LOGIN, PLAIN_LOGIN, SCRAM_LOGIN, parse_jaas
from controller.security.tokens.token_sources import HANDLER, URL
from controller.security.towards_brokers import TowardsBrokers
from controller.server.listener import ListenerSettings
from controller.server.service import ListenerAccess
from controller.settings.security import BrokerSecurity, Secret
from controller.wire.apis import ApiKey
from tests.unit.connections.certificates import clients, make_identity, servers
from tests.unit.security.given import PASSWORD, login
from tests.unit.security.identity_provider import serving as serving_tokens
from tests.unit.security.identity_provider import signed
from tests.unit.server.clients import serving
from tests.unit.server.test_tls_listener import Tls
from zk_layout.znodes.brokers import Endpoint

ENDPOINT = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
MODULES = {"PLAIN": PLAIN_LOGIN, "SCRAM-SHA-256": SCRAM_LOGIN, "SCRAM-SHA-512": SCRAM_LOGIN}


class Counting(SecuredDialer):
    dials = 0

    async def open_connection(self, endpoint: Endpoint) -> Streams:
        self.dials += 1
        return await super().open_connection(endpoint)


class Us:
    """Our identity at a broker."""

    def __init__(
        self, protocol: str, mechanism: str = "PLAIN", password: str = PASSWORD, trusted: Path | None = None
    ) -> None:
        self.protocol, self.mechanism = protocol, mechanism
        self._password, self._trusted = password, trusted

    def context(self) -> ssl.SSLContext | None:
        if not self.protocol.endswith("SSL"):
            return None
        return ssl.create_default_context() if self._trusted is None else clients(self._trusted)

    def login(self, host: str) -> ClientLogin | None:
        if not self.protocol.startswith("SASL"):
            return None
        text = f'{MODULES.get(self.mechanism, "x.Y")} required username="ann" password="{self._password}";'
        return ClientLogin(self.mechanism, parse_jaas(Secret(text)), host=host)


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_identity(tmp_path_factory.mktemp("identity") / "identity.pem")


def outcome(us: Security, listens: str, identity: Path, clock: Callable[[], int] | None = None) -> str:
    """Empty, or why no connection came about."""

    async def story() -> None:
        tls = Tls(servers(identity)) if listens.endswith("SSL") else None
        access = ListenerAccess(tls, partial(login, 0, clock) if listens.startswith("SASL") else None)
        async with serving(listeners=[ListenerSettings("INSIDE", "127.0.0.1", 0, access=access)]) as server:
            endpoint = Endpoint("INSIDE", "127.0.0.1", server.ports["INSIDE"], listens)
            connection = BrokerConnection(SecuredDialer(us), endpoint)
            try:
                assert ApiKey.METADATA in await connection.versions(5.0)
            finally:
                connection.drop()

    try:
        asyncio.run(story())
    except Unreachable as error:
        return str(error)
    return ""


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MODULES)
def test_who_knows_the_password_is_let_in(protocol: str, mechanism: str, identity: Path) -> None:
    assert outcome(Us(protocol, mechanism, trusted=identity), protocol, identity) == ""


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_the_end_of_a_secured_connection_is_noticed_between_requests(protocol: str, identity: Path) -> None:
    async def story() -> None:
        tls = Tls(servers(identity)) if protocol.endswith("SSL") else None
        access = ListenerAccess(tls, partial(login, 0, None) if protocol.startswith("SASL") else None)
        async with serving(listeners=[ListenerSettings("INSIDE", "127.0.0.1", 0, access=access)]) as server:
            endpoint = Endpoint("INSIDE", "127.0.0.1", server.ports["INSIDE"], protocol)
            connection = BrokerConnection(SecuredDialer(Us(protocol, trusted=identity)), endpoint)
            for _ in range(2):
                await connection.versions(5.0)
                assert not await connection.ends_within(0.02)
            assert connection.openings == 1
        assert await connection.ends_within(30.0)
        assert not connection.is_open

    asyncio.run(story())


def test_a_certificate_is_enough_without_a_login(identity: Path) -> None:
    assert outcome(Us("SSL", trusted=identity), "SSL", identity) == ""


@pytest.mark.parametrize(
    ("us", "says"),
    [
        (
            partial(Us, "SASL_PLAINTEXT", password="guessed"),
            "PLAIN: the broker refuses the login: Authentication failed: Invalid username or password",
        ),
        (partial(Us, "SASL_PLAINTEXT", "SCRAM-SHA-256", "guessed"), "SCRAM-SHA-256: the broker refuses the login"),
        (partial(Us, "SASL_SSL"), "certificate verify failed"),
        (partial(Us, "SSL"), "certificate verify failed"),
        (partial(Us, "PLAINTEXT"), "uses SASL_PLAINTEXT but this controller is configured for PLAINTEXT"),
    ],
)
def test_why_a_connection_does_not_come_about_is_said(us: partial[Us], says: str, identity: Path) -> None:
    made = us()
    listens = "SASL_PLAINTEXT" if made.protocol == "PLAINTEXT" else made.protocol

    failure = outcome(made, listens, identity)

    assert says in failure
    assert "guessed" not in failure


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ('unsecuredLoginStringClaim_sub="ann" unsecuredLoginListClaim_scope=",read,write"', ""),
        ('unsecuredLoginStringClaim_sub="ann"', "OAUTHBEARER: the broker refuses the login: "),
    ],
)
def test_who_has_a_token_is_let_in(options: str, says: str, identity: Path) -> None:
    module = Secret(f"{OAUTHBEARER_LOGIN} required {options};")
    us = TowardsBrokers(BrokerSecurity("SASL_PLAINTEXT", None, "OAUTHBEARER", module), time.monotonic, print)

    failure = outcome(us, "SASL_PLAINTEXT", identity, clock=lambda: round(time.time() * 1000))

    assert says in failure if says else failure == ""


def test_nothing_else_waits_while_a_token_is_fetched() -> None:
    async def story() -> None:
        with serving_tokens() as provider:
            provider.gives(signed(time.time() + 600))
            provider.may_answer.clear()
            options = {URL: provider.url, HANDLER: ENDPOINT}
            module = Secret(f'{OAUTHBEARER_LOGIN} required clientId="c" clientSecret="{PASSWORD}";')
            security = BrokerSecurity("SASL_PLAINTEXT", None, "OAUTHBEARER", module, options)
            dialer = SecuredDialer(TowardsBrokers(security, time.monotonic, print))
            access = ListenerAccess(None, login)
            async with serving(listeners=[ListenerSettings("INSIDE", "127.0.0.1", 0, access=access)]) as server:
                endpoint = Endpoint("INSIDE", "127.0.0.1", server.ports["INSIDE"], "SASL_PLAINTEXT")
                connecting = [asyncio.create_task(dialer.open_connection(endpoint)) for _ in range(5)]
                while not provider.is_asked.is_set():
                    await asyncio.sleep(0.001)  # on the same loop
                assert not any(one.done() for one in connecting)
                provider.may_answer.set()
                for said in await asyncio.gather(*connecting, return_exceptions=True):
                    assert "the broker refuses the login" in str(said)  # which takes unsigned tokens only
            assert len(provider.asked) == 1

    asyncio.run(story())


def test_where_logins_end_the_next_request_goes_over_a_connection_of_its_own() -> None:
    async def story() -> list[bool]:
        access = ListenerAccess(None, partial(login, 1000))
        async with serving(listeners=[ListenerSettings("INSIDE", "127.0.0.1", 0, access=access)]) as server:
            endpoint = Endpoint("INSIDE", "127.0.0.1", server.ports["INSIDE"], "SASL_PLAINTEXT")
            dialer = Counting(Us("SASL_PLAINTEXT"))
            connection = BrokerConnection(dialer, endpoint)
            was_open = []
            for _ in range(2):
                await connection.versions(5.0)
                was_open.append(connection.is_open)
                await asyncio.sleep(0.9)
                was_open.append(connection.is_open)
            assert dialer.dials == 2
            connection.drop()
            return was_open

    assert asyncio.run(story()) == [True, False, True, False]


def test_who_answers_nonsense_or_nothing_is_no_broker() -> None:
    async def story(answer: bytes) -> str:
        async def says(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(answer)
            writer.close()

        async with await asyncio.start_server(says, "127.0.0.1", 0) as server:
            endpoint = Endpoint("INSIDE", "127.0.0.1", server.sockets[0].getsockname()[1], "SASL_PLAINTEXT")
            with pytest.raises(ConnectionError) as caught:
                await SecuredDialer(Us("SASL_PLAINTEXT")).open_connection(endpoint)
            return str(caught.value)

    assert "hung up during the login" in asyncio.run(story(b""))
    assert "does not speak Kafka" in asyncio.run(story(b"HTTP/1.1 400 Bad Request\r\n"))
    assert "the answer to a login is malformed" in asyncio.run(story(b"\0\0\0\6" + bytes(6)))


def test_a_secured_listener_is_not_spoken_to_in_plain_text() -> None:
    with pytest.raises(ConnectionError, match="uses SASL_SSL but this controller is configured for PLAINTEXT"):
        asyncio.run(PlaintextDialer().open_connection(Endpoint("INSIDE", "127.0.0.1", 1, "SASL_SSL")))
