"""Which SCRAM users and delegation tokens does ZooKeeper hold now, whether or not this process leads?

Read in every session and followed until it ends, because a standby has listeners too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from controller.core.messages.effects import Notice
from controller.core.messages.events import Event, Loaded, Observed, ReadAllowed, ReadRefused
from controller.following.session_reader import SessionReader
from controller.runtime.supervision import Troubles
from controller.zk.bridge import Bridge
from controller.zk.reader import Reader
from zk_layout import catalog
from zk_layout.catalog import Address
from zk_layout.codec import Malformed, Undecodable, one_line
from zk_layout.facts import Fact
from zk_layout.watched import CREDENTIALS
from zk_layout.znodes import delegation_tokens
from zk_layout.znodes.configs import Config, UserConfigAddress
from zk_layout.znodes.delegation_tokens import DelegationTokenAddress, Token
from zk_layout.znodes.quotas import DEFAULT
from zk_layout.znodes.scram import MECHANISMS, Credential, parse_credential

_BY_NAME: Final = {mechanism.name: mechanism for mechanism in MECHANISMS.values()}


class Credentials:
    """The users and tokens read in one session. No error text contains a credential."""

    def __init__(self) -> None:
        self._users: dict[str, dict[str, Credential]] = {}
        self._tokens: dict[str, Token] = {}
        self.refused: set[str] = set()

    def user(self, mechanism: str, name: str) -> Credential | None:
        """The credential that verifies a user's password."""
        return self._users.get(name, {}).get(mechanism)

    def token(self, token_id: str) -> Token | None:
        """The delegation token with this id."""
        return self._tokens.get(token_id)

    def apply(self, fact: Fact) -> str | None:
        """Apply a fact; return what is wrong with it, if anything."""
        match fact.address:
            case UserConfigAddress(user) if user != DEFAULT:
                return self._apply_user(unquote(user), fact.value)
            case DelegationTokenAddress(token_id):
                return self._apply_token(token_id, fact.value)
            case _:
                return None

    def _apply_user(self, name: str, value: Any) -> str | None:
        self._users.pop(name, None)
        if isinstance(value, Malformed):
            return value.reason
        if not isinstance(value, Config):
            return None
        found, wrong = {}, None
        for mechanism in _BY_NAME.keys() & value.config.keys():
            try:
                found[mechanism] = parse_credential(_BY_NAME[mechanism], value.config[mechanism])
            except ValueError as error:
                wrong = str(error)
        if found:
            self._users[name] = found
        return wrong

    def _apply_token(self, token_id: str, value: Any) -> str | None:
        self._tokens.pop(token_id, None)
        if isinstance(value, Malformed):
            return value.reason
        if isinstance(value, Token):
            self._tokens[token_id] = value
        return None


class CredentialsFollower(SessionReader[Credentials]):
    """Answers from the last complete read; before the first one, no user is known.

    Callers that need certainty wait for `is_ready`. The last session's users stay valid until the next session has read
    everything.
    """

    part = "following users"

    def __init__(
        self,
        bridge: Callable[[], Bridge],
        notice: Callable[[Notice], None] = lambda _: None,
        troubles: Troubles | None = None,
    ) -> None:
        """`bridge` returns the current connection to ZooKeeper; `notice` receives each unreadable znode once."""
        super().__init__(bridge, notice, troubles)
        self._credentials = Credentials()
        self._is_ready = asyncio.Event()

    async def is_ready(self) -> None:
        """Wait until everything has been read once."""
        await self._is_ready.wait()

    def user(self, mechanism: str, name: str) -> Credential | None:
        """The credential that verifies a user's password with a mechanism such as SCRAM-SHA-512."""
        return self._credentials.user(mechanism, name)

    def token(self, token_id: str) -> Token | None:
        """The delegation token with this id."""
        return self._credentials.token(token_id)

    def _begin(self, bridge: Bridge) -> tuple[Credentials, Reader]:
        found = Credentials()
        hear = partial(self._hear, found)
        return found, Reader(bridge, hear, notice=self._notice, what=CREDENTIALS, decode=_decoded)

    async def _load(self, found: Credentials) -> None:
        self._credentials = found
        self._is_ready.set()

    def _unread(self, found: Credentials) -> Collection[str]:
        return found.refused

    def _hear(self, found: Credentials, event: Event) -> None:
        match event:
            case Observed(facts):
                for fact in facts:
                    path, reason = fact.address.path, found.apply(fact)
                    self._name(path, None if reason is None else Notice("malformed znode", f"{path}: {reason}"))
            case ReadRefused(path, reason, _):
                found.refused.add(path)
                text = f"{reason}; users in it cannot log in until it can be read"
                self._name(path, Notice("unreadable znode", text))
            case ReadAllowed(path):
                found.refused.discard(path)
                self._name(path, None)
            case Loaded():
                pass  # `load` returns
            case _:
                raise TypeError(f"unexpected event: {event}")


def _decoded(address: Address, data: bytes) -> Any:
    """Decode as the catalog does, but keep a token's owner."""
    if not isinstance(address, DelegationTokenAddress):
        return catalog.decode(address, data)
    try:
        return delegation_tokens.decode_token(data)
    except Undecodable as error:
        return Malformed(one_line(str(error)), len(data))
