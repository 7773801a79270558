"""Who may log in, whoever leads: SCRAM users and delegation tokens, as ZooKeeper has them now.

Read in every session of this process, and followed as long as it lasts, because a standby has listeners, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

from controller.core.messages.effects import Notice, ReadAgain
from controller.core.messages.events import Event, Loaded, Observed, ReadAllowed, ReadRefused
from controller.runtime.supervision import Troubles, supervised
from controller.zk.answers import SessionEnded
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

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0
PART: Final = "following users"

_BY_NAME: Final = {mechanism.name: mechanism for mechanism in MECHANISMS.values()}


class Credentials:
    """What was read of users and tokens in one session; the text of no error shows a credential."""

    def __init__(self) -> None:
        """Nobody is known."""
        self._users: dict[str, dict[str, Credential]] = {}
        self._tokens: dict[str, Token] = {}
        self.refused: set[str] = set()

    def user(self, mechanism: str, name: str) -> Credential | None:
        """What a user's password is checked by."""
        return self._users.get(name, {}).get(mechanism)

    def token(self, token_id: str) -> Token | None:
        """A delegation token."""
        return self._tokens.get(token_id)

    def apply(self, fact: Fact) -> str | None:
        """Take over what was read; what is wrong with it, if anything is."""
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


class CredentialsFollower:
    """Answers by what was read last. Before everything was read once, nobody is known.

    Whoever has to be sure waits for `is_ready`. When a session ends, what was known in it counts until the next one has
    read everything.
    """

    def __init__(
        self,
        bridge: Callable[[], Bridge],
        notice: Callable[[Notice], None] = lambda _: None,
        troubles: Troubles | None = None,
    ) -> None:
        """Nobody is known. `bridge` is the present way to ZooKeeper; `notice` hears what cannot be read, once."""
        self._troubles = troubles or Troubles()
        self._bridge = bridge
        self._notice = notice
        self._named: dict[str, str] = {}
        self._credentials = Credentials()
        self._is_ready = asyncio.Event()

    async def is_ready(self) -> None:
        """Wait until everything was read once."""
        await self._is_ready.wait()

    def user(self, mechanism: str, name: str) -> Credential | None:
        """What a user's password is checked by, for a mechanism such as SCRAM-SHA-512."""
        return self._credentials.user(mechanism, name)

    def token(self, token_id: str) -> Token | None:
        """A delegation token."""
        return self._credentials.token(token_id)

    async def follow(self) -> None:
        """For as long as this process lives; whatever goes wrong is tried again, and costs nothing else."""
        # The end of a session is said by whoever cannot do without it.
        await supervised(PART, self._follow_once, self._troubles, again_after_s=FIRST_WAIT_S, expected=(SessionEnded,))

    async def _follow_once(self) -> None:
        """In one session, to its end."""
        found = Credentials()
        reader = Reader(self._bridge(), lambda event: self._hear(found, event), what=CREDENTIALS, decode=_decoded)
        try:
            await reader.load()
            self._credentials = found
            self._is_ready.set()
            self._troubles.right(PART)
            reading, wait_s = asyncio.ensure_future(reader.wait()), FIRST_WAIT_S
            while not reading.done():
                await asyncio.wait([reading], timeout=wait_s)
                if found.refused:  # a change of ZooKeeper's own ACLs sets no watch off
                    reader.read_again(ReadAgain(tuple(found.refused)))
                wait_s = min(2 * wait_s, LONGEST_WAIT_S) if found.refused else FIRST_WAIT_S
            reading.result()
        finally:
            reader.stop()

    def _hear(self, found: Credentials, event: Event) -> None:
        match event:
            case Observed(facts):
                for fact in facts:
                    self._name_malformed(fact.address.path, found.apply(fact))
            case ReadRefused(path, reason, _):
                found.refused.add(path)
                if self._is_news(path, reason):
                    text = f"{reason}; who is in it cannot log in until it can be read"
                    self._notice(Notice("unreadable znode", text))
            case ReadAllowed(path):
                found.refused.discard(path)
                self._named.pop(path, None)
            case Loaded():
                pass  # `load` returns
            case _:
                raise TypeError(f"{event} is nothing that is read")

    def _name_malformed(self, path: str, reason: str | None) -> None:
        if reason is None:
            self._named.pop(path, None)
        elif self._is_news(path, reason):
            self._notice(Notice("malformed znode", f"{path}: {reason}"))

    def _is_news(self, path: str, reason: str) -> bool:
        """Whether it was not said before; once it is mended, it can be news again."""
        is_news = self._named.get(path) != reason
        self._named[path] = reason
        return is_news


def _decoded(address: Address, data: bytes) -> Any:
    """As the catalog does, but a token with its owner."""
    if not isinstance(address, DelegationTokenAddress):
        return catalog.decode(address, data)
    try:
        return delegation_tokens.decode_token(data)
    except Undecodable as error:
        return Malformed(one_line(str(error)), len(data))
