"""Users, tokens and keys for tests of logins."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from controller.security.jaas import OAUTHBEARER_LOGIN, PLAIN_LOGIN
from controller.security.listener_mechanisms import Sources, listener_mechanisms
from controller.security.login import Login, Mechanisms
from controller.security.mechanisms.delegation_tokens import password_of
from controller.security.mechanisms.scram import BY_NAME
from controller.settings.security import SaslSettings, Secret
from zk_layout.znodes.delegation_tokens import Token
from zk_layout.znodes.scram import Credential, credential_of

NOW_MS = 1_700_000_000_000
PASSWORD = "horse staple,=é"
MASTER_KEY = Secret("master")
TOKEN = Token("t0ken", "User%3Aann", NOW_MS + 60_000, NOW_MS + 90_000)
EXPIRED = Token("late", "User%3Aann", NOW_MS - 1, NOW_MS + 90_000)
TOKEN_PASSWORD = password_of("t0ken", MASTER_KEY)
ALL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
JAAS = {
    "PLAIN": Secret(f'{PLAIN_LOGIN} required username="x" password="y" user_ann="{PASSWORD}" user_bob="b";'),
    "OAUTHBEARER": Secret(f'{OAUTHBEARER_LOGIN} required unsecuredValidatorRequiredScope="read write";'),
}
CREDENTIALS: dict[tuple[str, str], Credential] = {
    (name, user): credential_of(BY_NAME[name], PASSWORD.encode(), b"salt", 4096)
    for name in BY_NAME
    for user in ("ann", "bob", "c,=d")
}


class Clock:
    def __init__(self) -> None:
        self.ms = NOW_MS

    def __call__(self) -> int:
        return self.ms


def mechanisms(clock: Callable[[], int], **changed: Any) -> Mechanisms:
    sources: dict[str, Any] = {
        "now_ms": clock,
        "users": lambda mechanism, user: CREDENTIALS.get((mechanism, user)),
        "tokens": {"t0ken": TOKEN, "late": EXPIRED}.get,
        "master_key": MASTER_KEY,
    }
    settings = SaslSettings(enabled_mechanisms=ALL, jaas=JAAS)
    return listener_mechanisms(settings, Sources(**sources | changed))


def login(max_reauth_ms: int = 0, clock: Callable[[], int] | None = None, **changed: Any) -> Login:
    clock = clock or Clock()
    return Login(mechanisms(clock, **changed), clock, max_reauth_ms)


def unsecured(**claims: Any) -> str:
    def part(value: Any) -> str:
        return base64.b64encode(json.dumps(value).encode()).decode().rstrip("=")

    usual = {"sub": "ann", "exp": NOW_MS // 1000 + 30, "iat": NOW_MS // 1000, "scope": ["read", "write"]}
    return f"{part({'alg': 'none'})}.{part(usual | claims)}."


def bearer(token: str, identity: str = "") -> bytes:
    return f"n,{identity and 'a=' + identity},\x01auth=Bearer {token}\x01\x01".encode()
