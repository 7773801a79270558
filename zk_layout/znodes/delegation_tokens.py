"""Until when is a delegation token good: `/delegation_token/tokens/<token id>`?

Source: KIP-48; Kafka's DelegationTokenInfoZNode and DelegationTokenManager.expireTokens.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from zk_layout.codec import decode_json, json_decoder

ROOT = "/delegation_token/tokens"
CHANGES = "/delegation_token/token_changes"
CHANGE = f"{CHANGES}/token_change_"
"""What brokers watch; a sequential znode here names the token that they shall look at again."""


class TokenTimes(Struct, frozen=True, rename="camel"):
    """The ends of a token's life; the rest of its znode does not matter here.

    Units:
        Milliseconds since 1970. `max_timestamp` is the end that no renewal can put off.
    """

    expiry_timestamp: Annotated[int, Meta(ge=-1)]
    max_timestamp: Annotated[int, Meta(ge=-1)]


_decoder = json_decoder(TokenTimes)


def decode(data: bytes) -> TokenTimes:
    """The ends of a token's life.

    Raises:
        Undecodable: not a token's JSON.
    """
    return decode_json(_decoder, data)


def is_expired(times: TokenTimes, now_ms: int) -> bool:
    """Whether nobody can log in with it any more.

    >>> is_expired(TokenTimes(expiry_timestamp=1000, max_timestamp=5000), 1001)
    True
    >>> is_expired(TokenTimes(expiry_timestamp=1000, max_timestamp=5000), 1000)
    False
    """
    return min(times.expiry_timestamp, times.max_timestamp) < now_ms
