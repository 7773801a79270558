"""Delegation tokens: with which credential does the holder of a token log in, and who owns it?

ZooKeeper keeps no secret of a token. Its password for SCRAM is its HMAC with `delegation.token.master.key`, which all
brokers share.

Source: KIP-48; Kafka's DelegationTokenManager and DelegationTokenCache.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache
from secrets import token_bytes

from controller.security.mechanisms.scram import TokenCredential, Tokens
from controller.settings.security import Secret
from zk_layout.znodes.delegation_tokens import Token
from zk_layout.znodes.scram import Credential, Mechanism, credential_of

_KEPT = 10_000


def password_of(token_id: str, master_key: Secret) -> str:
    """The password that the holder of a token was given with it.

    >>> password_of("id", Secret("key"))[:8]
    'aSA7IkWy'
    """
    return b64encode(hmac.digest(master_key.reveal().encode(), token_id.encode(), "sha512")).decode()


def tokens_of(
    mechanism: Mechanism,
    master_key: Secret | None,
    tokens: Callable[[str], Token | None],
    now_ms: Callable[[], int],
) -> Tokens:
    """How `ScramServer` finds tokens: none without a master key, and none that has expired.

    Shape:
        `tokens` gives the token of an id, as ZooKeeper has it. Make this once for a listener: it caches the
        credentials, which take thousands of rounds of HMAC to make.
    """

    @lru_cache(maxsize=_KEPT)
    def credential(token_id: str, key: Secret) -> Credential:
        password = password_of(token_id, key).encode()
        return credential_of(mechanism, password, token_bytes(26), mechanism.least_iterations)

    def found(token_id: str) -> TokenCredential | None:
        token = None if master_key is None else tokens(token_id)
        if token is None or master_key is None:
            return None
        expires_at_ms = min(token.expiry_timestamp, token.max_timestamp)
        if expires_at_ms < now_ms():
            return None
        return TokenCredential(token.owner_name, credential(token_id, master_key), expires_at_ms)

    return found
