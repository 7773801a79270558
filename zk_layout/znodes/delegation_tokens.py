"""Until when is a delegation token good: `/delegation_token/tokens/<token id>`?

Source: KIP-48; Kafka's DelegationTokenInfoZNode and DelegationTokenManager.expireTokens.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from urllib.parse import unquote_plus

from msgspec import Meta, Struct

from zk_layout.bounds import INT64_MAX
from zk_layout.codec import Undecodable, encode_json, excerpt, json_decoder

ROOT = "/delegation_token/tokens"
CHANGES = "/delegation_token/token_changes"


class DelegationTokenAddress(Struct, frozen=True, gc=False):
    """One token."""

    token: str

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return f"{ROOT}/{self.token}"


class DelegationTokenChangeAddress(Struct, frozen=True, gc=False):
    """What brokers watch: a sequential znode here names a token to look at again. ZooKeeper adds the number."""

    path: ClassVar[str] = f"{CHANGES}/token_change_"  # what its name begins with


class TokenTimes(Struct, frozen=True, rename="camel"):
    """The ends of a token's life; the rest of its znode does not matter here.

    Units:
        Milliseconds since 1970. `max_timestamp` is the end that no renewal can put off.
    """

    expiry_timestamp: Annotated[int, Meta(ge=-1, le=INT64_MAX)]
    max_timestamp: Annotated[int, Meta(ge=-1, le=INT64_MAX)]


class Token(Struct, frozen=True, rename="camel"):
    """One token as those who log in with it need it.

    Shape:
        `owner` is a principal, such as "User:ann", in the letters that Kafka allows in ZooKeeper: see `owner_name`.
    """

    token_id: str
    owner: str
    expiry_timestamp: Annotated[int, Meta(ge=-1, le=INT64_MAX)]
    max_timestamp: Annotated[int, Meta(ge=-1, le=INT64_MAX)]

    @property
    def owner_name(self) -> str:
        """Whose token it is, without the kind of principal.

        >>> Token("abc", "User%3Aann", 1, 1).owner_name
        'ann'
        """
        return unquote_plus(self.owner).partition(":")[2]


class TokenChange(Struct, frozen=True):
    """The token that has changed."""

    token: str


decode = json_decoder(TokenTimes)
"""The ends of a token's life."""


decode_token = json_decoder(Token)
"""The token with its owner."""


def encode(times: TokenTimes) -> bytes:
    """The ends of a token's life alone; only tests write tokens."""
    return encode_json({"expiryTimestamp": times.expiry_timestamp, "maxTimestamp": times.max_timestamp})


def decode_change(data: bytes) -> TokenChange:
    """The token that has changed.

    Raises:
        Undecodable: not text.
    """
    try:
        return TokenChange(data.decode())
    except UnicodeDecodeError as error:
        raise Undecodable(f"not UTF-8: {excerpt(data)}") from error


def encode_change(change: TokenChange) -> bytes:
    """The token's id, as Kafka writes it.

    >>> encode_change(TokenChange("abc"))
    b'abc'
    """
    return change.token.encode()


def is_expired(times: TokenTimes, now_ms: int) -> bool:
    """Whether nobody can log in with it any more.

    >>> is_expired(TokenTimes(expiry_timestamp=1000, max_timestamp=5000), 1001)
    True
    >>> is_expired(TokenTimes(expiry_timestamp=1000, max_timestamp=5000), 1000)
    False
    """
    return min(times.expiry_timestamp, times.max_timestamp) < now_ms
