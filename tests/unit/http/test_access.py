"""Who may read the HTTP port, and what changes while it is open?"""

from __future__ import annotations

import asyncio
import base64
import shutil
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bcrypt
import pytest
import yaml

from controller.http import server
from controller.http.access import HttpAccess, http_access
from controller.http.web_config import WebAccess
from controller.runtime.supervision import Troubles
from controller.security.failures import UnusableSecurity
from controller.settings.http import KEY
from tests.unit.connections.certificates import clients, make_identity
from tests.unit.http.serving import LOADING, serving
from tests.unit.settings.given import settings

DEPLOY = Path(__file__).parents[3] / "deploy"
PASSWORD, OTHER = "horse-staple", "other-secret"


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LOOK_EVERY_S", 0.02)


def hashed(password: str, cost: int = 4) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost, b"2a")).decode()


def write(
    folder: Path, *, users: dict[str, str] | None = None, tls: Mapping[str, object] | None = None, cost: int = 4
) -> Path:
    """A file with these users, by password, and with TLS unless it is None."""
    content: dict[str, object] = {}
    if users is not None:
        content["basic_auth_users"] = {user: hashed(password, cost) for user, password in users.items()}
    if tls is not None:
        pem = folder / "server.pem"
        if not pem.exists():
            make_identity(pem)
        content["tls_server_config"] = {"cert_file": "server.pem", "key_file": "server.pem", **tls}
    path = folder / "web.yml"
    path.write_text(yaml.safe_dump(content))
    return path


def status(
    url: str, context: ssl.SSLContext | None = None, user: str = "", password: str = PASSWORD
) -> tuple[int, str]:
    """Status and text; 0 if the connection fails."""
    request = urllib.request.Request(url)
    if user:
        request.add_header("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())
    handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=10) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


def asked(access: HttpAccess, ask: Callable[[str], object]) -> object:
    """The outcome of asking a process with these readers; `ask` gets the address without a scheme."""

    async def story() -> object:
        async with serving(LOADING, access=access) as served:
            return await asyncio.to_thread(ask, served.url.removeprefix("http://"))

    return asyncio.run(story())


def test_only_a_user_with_the_right_password_may_read(tmp_path: Path) -> None:
    access = HttpAccess(write(tmp_path, users={"ann": PASSWORD}))

    def ask(at: str) -> object:
        asking = [("", ""), ("ann", OTHER), ("bob", PASSWORD), ("ann", PASSWORD + "x" * 100), ("ann", PASSWORD)]
        return [status(f"http://{at}/leader", None, *who)[0] for who in (*asking, asking[-1])]

    assert asked(access, ask) == [401, 401, 401, 401, 200, 200]


def asking_from(source: str, at: str, user: str, password: str) -> int:
    """The status that a client with this local address gets."""
    host, _, port = at.rpartition(":")
    credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
    try:
        with socket.create_connection((host, int(port)), 60, (source, 0)) as connection:
            connection.sendall(
                f"GET /leader HTTP/1.1\r\nHost: {at}\r\nAuthorization: Basic {credentials}\r\n\r\n".encode()
            )
            return int(connection.recv(100).split()[1])
    except (OSError, IndexError):
        return 0


def attacked(access: HttpAccess, ask: Callable[[str], object]) -> object:
    """The outcome of asking while 24 threads at 127.0.0.1 try passwords."""

    def beside(at: str) -> object:
        is_over = threading.Event()

        def guess() -> None:
            while not is_over.is_set():
                asking_from("127.0.0.1", at, "ann", OTHER)

        with ThreadPoolExecutor(24) as guessing:
            for _ in range(24):
                guessing.submit(guess)
            time.sleep(1.0)
            try:
                return ask(at)
            finally:
                is_over.set()

    return asked(access, beside)


def test_a_client_admitted_before_does_not_wait_for_those_that_try_passwords(tmp_path: Path) -> None:
    path = write(tmp_path, users={"ann": PASSWORD}, cost=12)
    access = HttpAccess(path)
    assert access.admits("Basic " + base64.b64encode(f"ann:{PASSWORD}".encode()).decode(), None)

    def ask(at: str) -> object:
        """At the attackers' address, its connection may be closed to make room for theirs, and it asks again."""
        began = time.monotonic()
        while (found := asking_from("127.0.0.1", at, "ann", PASSWORD)) == 0:
            assert time.monotonic() - began < 5.0
        return found, time.monotonic() - began < 5.0

    assert attacked(access, ask) == (200, True)


def test_an_address_that_tries_passwords_delays_no_other(tmp_path: Path) -> None:
    access = HttpAccess(write(tmp_path, users={"ann": PASSWORD}, cost=11))

    def ask(at: str) -> object:
        began = time.monotonic()
        return asking_from("127.0.0.2", at, "ann", PASSWORD), time.monotonic() - began < 15.0

    assert attacked(access, ask) == (200, True)


def test_an_address_may_fail_ten_times_a_minute(tmp_path: Path) -> None:
    access = HttpAccess(write(tmp_path, users={"ann": PASSWORD}))

    def ask(at: str) -> object:
        tried = [asking_from("127.0.0.1", at, "ann", f"guess {number}") for number in range(11)]
        here = [asking_from("127.0.0.1", at, "ann", PASSWORD), status(f"http://{at}/livez", None, "ann", OTHER)[0]]
        elsewhere = asking_from("127.0.0.2", at, "ann", PASSWORD)
        return tried, here, elsewhere, asking_from("127.0.0.1", at, "ann", PASSWORD)

    assert asked(access, ask) == ([401] * 10 + [429], [429, 200], 200, 200)


def test_what_was_found_right_is_forgotten_with_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, users={"ann": PASSWORD})
    access, header = HttpAccess(path), "Basic " + base64.b64encode(f"ann:{PASSWORD}".encode()).decode()

    assert not access.knows(header, None)
    assert access.admits(header, None)
    assert access.knows(header, None)
    assert access.renew() is False
    write(tmp_path, users={"ann": OTHER})
    assert access.renew()
    assert not access.knows(header, None)


def test_probes_need_no_password_and_read_no_text(tmp_path: Path) -> None:
    access = HttpAccess(write(tmp_path, users={"ann": PASSWORD}))

    def ask(at: str) -> object:
        paths = ("livez", "readyz")
        return [status(f"http://{at}/{path}") for path in paths], status(f"http://{at}/readyz", None, "ann")

    assert asked(access, ask) == ([(200, ""), (503, "")], (503, "loading: won the election\n"))


def test_with_tls_nothing_is_said_in_plain_text(tmp_path: Path) -> None:
    access = HttpAccess(write(tmp_path, tls={}))
    trusting = clients(tmp_path / "server.pem")

    assert asked(access, lambda at: (status(f"https://{at}/leader", trusting)[0], status(f"http://{at}/leader"))) == (
        200,
        (0, ""),
    )


def test_only_a_verified_certificate_may_read_and_only_of_an_allowed_name(tmp_path: Path) -> None:
    verified = {"client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "server.pem"}
    access = HttpAccess(write(tmp_path, tls=verified))
    shows, hides = (clients(tmp_path / "server.pem", shows_it=it) for it in (True, False))
    stranger = ssl.create_default_context(cafile=tmp_path / "server.pem")
    stranger.load_cert_chain(make_identity(tmp_path / "stranger.pem", "stranger"))

    def ask(at: str) -> object:
        return [status(f"https://{at}/leader", one)[0] for one in (shows, hides, stranger)]

    assert access.has_authentication
    assert asked(access, ask) == [200, 0, 0]

    allowed = HttpAccess(write(tmp_path, tls={**verified, "client_allowed_sans": ["127.0.0.1"]}))
    assert asked(allowed, ask) == [200, 0, 0]
    others = HttpAccess(write(tmp_path, tls={**verified, "client_allowed_sans": ["prometheus.example"]}))
    assert asked(others, ask) == [401, 0, 0]


def test_users_and_certificates_are_renewed_with_the_file_and_what_is_damaged_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, users={"ann": PASSWORD}, tls={})
    old = clients(tmp_path / "server.pem")
    make_identity(tmp_path / "new.pem")
    new = clients(tmp_path / "new.pem")

    async def story() -> None:
        async with serving(LOADING, access=HttpAccess(path)) as served:
            url = served.url.replace("http", "https") + "/leader"

            async def becomes(expected: int, context: ssl.SSLContext, user: str, password: str) -> None:
                async with asyncio.timeout(10):
                    while (await asyncio.to_thread(status, url, context, user, password))[0] != expected:
                        await asyncio.sleep(0.02)

            await becomes(200, old, "ann", PASSWORD)
            shutil.copy(tmp_path / "new.pem", tmp_path / "server.pem")
            await becomes(0, old, "ann", PASSWORD)
            await becomes(200, new, "ann", PASSWORD)
            write(tmp_path, users={"bob": OTHER}, tls={})
            await becomes(401, new, "ann", PASSWORD)
            await becomes(200, new, "bob", OTHER)
            for damaged in ("basic_auth_users: [", "", yaml.safe_dump({"basic_auth_users": {"bob": hashed(OTHER)}})):
                path.write_text(damaged)
                await asyncio.sleep(0.2)
                await becomes(401, new, "ann", PASSWORD)
                await becomes(200, new, "bob", OTHER)

    asyncio.run(story())


@pytest.mark.parametrize(
    "odd",
    [
        'tls_server_config: {cert_file: "a\\0b", key_file: "a\\0b"}',
        "[" * 1000,
        "basic_auth_users: {? [a, b] : x}",
        "basic_auth_users: 2001-99-99",
    ],
)
def test_after_whatever_was_written_there_a_revoked_password_stops_counting(tmp_path: Path, odd: str) -> None:
    path, troubles = write(tmp_path, users={"ann": PASSWORD}), Troubles()

    async def story() -> None:
        async with serving(LOADING, access=HttpAccess(path, troubles)) as served:

            async def becomes(expected: int, user: str) -> None:
                async with asyncio.timeout(10):
                    while (await asyncio.to_thread(status, served.url + "/leader", None, user))[0] != expected:
                        await asyncio.sleep(0.02)

            await becomes(200, "ann")
            path.write_text(odd)
            async with asyncio.timeout(10):
                while not troubles.now():
                    await asyncio.sleep(0.02)
            await becomes(200, "ann")
            write(tmp_path, users={"bob": PASSWORD})
            await becomes(401, "ann")
            assert troubles.now() == ()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("basic_auth_users: [", "not YAML in line 1"),
        ("basic_auth_user: {}", "unknown field `basic_auth_user`"),
        ("tls_server_config: {cert_file: 'a\0b', key_file: a}", "not YAML"),
        ('tls_server_config: {cert_file: "a\\0b", key_file: a}', "no file can have this name"),
        ("[" * 1000, "not usable YAML (RecursionError)"),
        (f"basic_auth_users: {{ann: $2b$99${'.' * 53}}}", "is not hashed with bcrypt (cost 4 to 16)"),
        ("basic_auth_users: {ann: horse-staple}", "basic_auth_users.ann is not hashed with bcrypt"),
        ("tls_server_config: {cert_file: a.pem}", "cert_file and key_file are needed"),
        ("tls_server_config: {cert_file: a.pem, key_file: a.pem}", "No such file or directory"),
        ("tls_server_config: {cert_file: web.yml, key_file: web.yml}", "no certificate or key in PEM"),
        ("tls_server_config: {cert_file: s.pem, key_file: s.pem, min_version: TLS10}", "expected one of TLS12, TLS13"),
        (
            "tls_server_config: {cert_file: s.pem, key_file: s.pem, client_auth_type: RequireAnyClientCert}",
            "expected one",
        ),
        ("tls_server_config: {cert_file: s.pem, key_file: s.pem, cipher_suites: [ROT13]}", "cipher_suites"),
        (
            "tls_server_config: {cert_file: s.pem, key_file: s.pem, client_auth_type: RequireAndVerifyClientCert}",
            "needs client_ca_file",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_and_no_secret(tmp_path: Path, text: str, reason: str) -> None:
    make_identity(tmp_path / "s.pem")
    (tmp_path / "web.yml").write_text(text)

    with pytest.raises(UnusableSecurity) as caught:
        WebAccess(tmp_path / "web.yml")

    assert reason in str(caught.value)
    assert "http.web.config.file=" in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_the_example_can_be_used(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "web-config.yml", tmp_path)
    for name in ("http.crt", "http.key"):
        make_identity(tmp_path / "both.pem").rename(tmp_path / name)
    shutil.copy(tmp_path / "http.key", tmp_path / "http.crt")
    found = WebAccess(tmp_path / "web-config.yml")

    assert found.context is not None
    credentials = base64.b64encode(b"prometheus:change-me").decode()
    assert found.admits(f"Basic {credentials}", None)
    assert not found.admits("Bearer token", None)
    assert not found.admits("Basic !", None)


def test_the_port_is_local_without_tls_and_users_unless_it_is_opened_on_purpose(tmp_path: Path) -> None:
    with pytest.raises(UnusableSecurity, match=r"add TLS .* and users .*http.open=true"):
        http_access(settings({"http.host": "0.0.0.0"}).http)
    half = write(tmp_path, users={"ann": PASSWORD})
    with pytest.raises(UnusableSecurity, match=r"add TLS \(tls_server_config\) to .*; or listen on"):
        http_access(settings({"http.host": "0.0.0.0", KEY: str(half)}).http)
    other_half = write(tmp_path, tls={})
    with pytest.raises(UnusableSecurity, match=r"add users"):
        http_access(settings({"http.host": "::", KEY: str(other_half)}).http)

    whole = write(tmp_path, users={"ann": PASSWORD}, tls={})
    for allowed in (
        {"http.host": "127.0.0.1"},
        {"http.host": "::1"},
        {"http.host": "localhost"},
        {"http.host": "0.0.0.0", "http.port": "0"},
        {"http.host": "0.0.0.0", "http.open": "true"},
        {"http.host": "0.0.0.0", KEY: str(whole)},
    ):
        http_access(settings(allowed).http)
