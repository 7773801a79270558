"""How is a secured listener built from its settings, and which of them are refused?"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from controller.brokers.dialing import ListenerDialer
from controller.commands.common import MISUSED
from controller.commands.run import run
from controller.connections.broker import BrokerConnection
from controller.preflight.own_listeners import OwnListenerDialer
from controller.process import listener_security
from controller.security.failures import AuthenticationFailed, UnusableSecurity
from controller.security.jaas import OAUTHBEARER_LOGIN, PLAIN_LOGIN, SCRAM_LOGIN
from controller.security.tokens.key_sets import KeySource
from controller.server.listener import ListenerSettings, Server
from controller.settings import BadSettings, Settings
from controller.wire.apis import ApiKey
from tests.fuzz.stores import pairs, pem
from tests.unit.connections.certificates import make_identity
from tests.unit.security.given import CREDENTIALS, PASSWORD
from tests.unit.settings.given import settings
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint
from zk_layout.znodes.scram import Credential


class Users:
    async def is_ready(self) -> None:
        pass

    def user(self, mechanism: str, name: str) -> Credential | None:
        return CREDENTIALS.get((mechanism, name))

    def token(self, token_id: str) -> None:
        return None


def written(store: Path, password: str = PASSWORD, **more: str) -> Settings:
    """Listeners of every protocol, and ann who logs in at brokers."""
    return settings(
        {
            "listeners": "INSIDE://127.0.0.1:1,CERTAIN://127.0.0.1:2,PLAIN://127.0.0.1:3,OPEN://127.0.0.1:4",
            "listener.security.protocol.map": "INSIDE:SASL_SSL,CERTAIN:SSL,PLAIN:SASL_PLAINTEXT,OPEN:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.plain.plain.sasl.jaas.config": f'{PLAIN_LOGIN} required user_ann="{PASSWORD}";',
            "listener.name.inside.scram-sha-512.sasl.jaas.config": (
                f'{SCRAM_LOGIN} required username="ann" password="{password}";'
            ),
            "listener.name.certain.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(store),
            **{key.replace("__", "."): text for key, text in more.items()},
        }
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_identity(tmp_path_factory.mktemp("store") / "identity.pem")


async def reached(found: Settings, listener: str, *, by_ourselves: bool = False) -> str:
    """Why a connection to a server with these settings fails; empty if its server answers."""
    ways = listener_security.listener_access(found.listening, Users())
    listening = [ListenerSettings(at.listener, at.host, 0, access=ways[at.listener]) for at in found.listening.bound]
    server = Server(BrokerId(901), listening)
    await server.start()
    tls = {name: secured.tls for name, secured in found.listening.security.items() if secured.tls is not None}
    dialer = OwnListenerDialer(tls, {"INSIDE"}) if by_ourselves else listener_security.dialer_of(found.listening)
    protocol = found.listening.security[listener].protocol
    connection = BrokerConnection(dialer, Endpoint(listener, "127.0.0.1", server.ports[listener], protocol))
    try:
        assert ApiKey.METADATA in await connection.versions(5.0)
    except Exception as error:
        return str(error)
    finally:
        connection.drop()
        await server.close()
    return ""


@pytest.mark.parametrize("listener", ["INSIDE", "CERTAIN", "OPEN"])
def test_a_client_with_the_same_settings_is_admitted(listener: str, store: Path) -> None:
    assert asyncio.run(reached(written(store), listener)) == ""


@pytest.mark.parametrize("listener", ["INSIDE", "CERTAIN", "PLAIN", "OPEN"])
def test_our_own_doors_are_heard_at_without_a_login(listener: str, store: Path) -> None:
    assert asyncio.run(reached(written(store, "guessed"), listener, by_ourselves=True)) == ""


def test_a_client_with_a_wrong_password_is_refused(store: Path) -> None:
    why = asyncio.run(reached(written(store, "guessed"), "INSIDE"))

    assert "SCRAM-SHA-512: the broker refuses the login" in why
    assert "guessed" not in why


def test_a_listener_without_credentials_is_not_connected_to(store: Path) -> None:
    dialer = listener_security.dialer_of(written(store).listening)

    assert isinstance(dialer, ListenerDialer)
    assert not dialer.reaches(Endpoint("PLAIN", "h", 1, "SASL_PLAINTEXT"))
    assert dialer.reaches(Endpoint("INSIDE", "h", 1, "SASL_SSL"))
    assert not dialer.reaches(Endpoint("INSIDE", "h", 1, "PLAINTEXT"))
    assert dialer.reaches(Endpoint("ELSEWHERE", "h", 1))


def test_what_can_be_used_is_found_good_and_wants_users_of_zookeeper(store: Path) -> None:
    listener_security.check(written(store))

    assert listener_security.wants_users(written(store).listening)
    assert not listener_security.wants_users(settings().listening)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            {"listener__name__certain__ssl__keystore__location": "/no/such.pem"},
            "listener CERTAIN: ssl.keystore.location=/no/such.pem: No such file or directory",
        ),
        (
            {"listener__name__plain__plain__sasl__jaas__config": f'{PLAIN_LOGIN} required user_ann="horse'},
            "listener PLAIN: plain.sasl.jaas.config: JAAS config entry not terminated by semi-colon",
        ),
        (
            {"listener__name__certain__ssl__principal__mapping__rules": "RULE:^CN"},
            "listener CERTAIN: ",
        ),
    ],
)
def test_every_unusable_setting_is_reported_at_once_without_a_secret(
    more: dict[str, str], why: str, store: Path
) -> None:
    with pytest.raises(BadSettings) as caught:
        listener_security.check(written(store, **more))

    (only,) = caught.value.problems
    assert only.startswith(why)
    assert "horse" not in only


@pytest.mark.parametrize(("kind", "why"), [("short", "its key as too short"), ("sha1", "signed with SHA-1")])
def test_a_store_that_openssl_refuses_is_an_invalid_configuration(tmp_path: Path, kind: str, why: str) -> None:
    (tmp_path / "weak.pem").write_bytes(pem(pairs()[kind]))
    words = [
        "zookeeper.connect=127.0.0.1:1",
        "broker.id=901",
        "listeners=SSL://127.0.0.1:1",
        "security.inter.broker.protocol=SSL",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={tmp_path / 'weak.pem'}",
    ]

    result = CliRunner().invoke(run, [part for word in words for part in ("--set", word)])

    assert result.exit_code == MISUSED
    assert why in result.output
    assert result.output.count("\n") == 2


def test_tokens_are_judged_by_the_keys_at_an_address(store: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text('{"keys": []}')
    found = written(
        store,
        listener__name__plain__sasl__enabled__mechanisms="OAUTHBEARER",
        listener__name__plain__oauthbearer__sasl__jaas__config=f"{OAUTHBEARER_LOGIN} required;",
        sasl__oauthbearer__jwks__endpoint__url=keys.as_uri(),
    )
    access = listener_security.listener_access(found.listening, Users())["PLAIN"]
    assert access.login is not None
    login = access.login()
    login.handshake("OAUTHBEARER")

    answered = login.authenticate(b"n,,\x01auth=Bearer eyJhbGciOiJSUzI1NiJ9.e30.AAAA\x01\x01")
    assert b"invalid_token" in answered.auth_bytes
    with pytest.raises(AuthenticationFailed, match="no known key matches"):
        login.authenticate(b"\x01")


def test_keys_are_fetched_and_what_was_good_stays(tmp_path: Path) -> None:
    said: list[str] = []
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [{"kid": "1"}, "none"]}))
    url = "sasl.oauthbearer.jwks.endpoint.url"
    source = KeySource(
        {url: keys.as_uri(), "sasl.oauthbearer.jwks.endpoint.refresh.ms": "20"}, lambda what, _: said.append(what)
    )
    until(lambda: source("1") == ({"kid": "1"},))
    keys.write_text("nonsense")
    until(lambda: bool(said))

    assert source("1") == ({"kid": "1"},)
    keys.write_text(json.dumps({"keys": [{"kid": "2"}]}))
    until(lambda: source("2") == ({"kid": "2"},))
    with pytest.raises(UnusableSecurity, match="must start with one of"):
        KeySource({url: "gopher://x"}, lambda *_: None)


def test_a_key_set_is_trusted_by_the_options_of_the_listeners_login_module(store: Path) -> None:
    trusting = 'ssl.truststore.type=PEM ssl.truststore.location="/no"'
    found = written(
        store,
        listener__name__plain__sasl__enabled__mechanisms="OAUTHBEARER",
        listener__name__plain__oauthbearer__sasl__jaas__config=f"{OAUTHBEARER_LOGIN} required {trusting};",
        listener__name__plain__sasl__oauthbearer__jwks__endpoint__url="https://idp/keys",
    )

    with pytest.raises(BadSettings, match=r"listener PLAIN: sasl\.jaas\.config: ssl\.truststore\.location"):
        listener_security.check(found)


def until(is_so: object) -> None:
    assert callable(is_so)
    end = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_unsigned_tokens_are_warned_of(store: Path) -> None:
    found = written(
        store,
        listener__name__plain__sasl__enabled__mechanisms="OAUTHBEARER",
        listener__name__plain__oauthbearer__sasl__jaas__config=f"{OAUTHBEARER_LOGIN} required;",
    )

    with capture_logs() as said:
        listener_security.listener_access(found.listening, Users())

    (warning,) = said
    assert (warning["log_level"], warning["listener"]) == ("warning", "PLAIN")
