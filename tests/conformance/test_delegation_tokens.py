"""Expired delegation tokens are deleted and the brokers told; nothing else is, and nothing by a deposed controller."""

import asyncio
import json

from kazoo.client import KazooClient

from controller.core.effects import Measured, Notice
from controller.zk.token_expiry import TokenExpiry
from tests.conformance.adapter_world import connected, someone
from zk_layout.ids import ZnodeVersion

TOKENS, CHANGES = "/delegation_token/tokens", "/delegation_token/token_changes"
NOW_MS = 1_000_000


def token(client: KazooClient, name: str, expires_ms: int, ends_ms: int) -> None:
    """As Kafka's DelegationTokenManager writes it."""
    data = {
        "version": 3,
        "owner": "User:ann",
        "tokenRequester": "User:ann",
        "renewers": [],
        "issueTimestamp": 0,
        "maxTimestamp": ends_ms,
        "expiryTimestamp": expires_ms,
        "tokenId": name,
    }
    client.create(f"{TOKENS}/{name}", json.dumps(data).encode())


def prepare(client: KazooClient) -> None:
    client.create("/controller_epoch", b"1")
    client.ensure_path(TOKENS)
    client.ensure_path(CHANGES)


def test_expired_tokens_are_deleted_and_named_to_the_brokers(zookeeper: str) -> None:
    async def story() -> None:
        heard: list[Measured | Notice] = []
        with someone(zookeeper) as other:
            prepare(other)
            token(other, "good", NOW_MS + 1, NOW_MS + 1)
            token(other, "not-renewed", NOW_MS - 1, NOW_MS + 1)
            token(other, "at-its-end", NOW_MS + 1, NOW_MS - 1)
            other.create(f"{TOKENS}/torn", b'{"version":3')
            async with connected(zookeeper) as bridge:
                expiry = TokenExpiry(bridge, ZnodeVersion(0), heard.append, heard.append)

                assert await expiry.expire(NOW_MS)

            assert sorted(other.get_children(TOKENS)) == ["good", "torn"]
            told = sorted(other.get(f"{CHANGES}/{name}")[0] for name in other.get_children(CHANGES))
            assert told == [b"at-its-end", b"not-renewed"]
            assert all(name.startswith("token_change_0") for name in other.get_children(CHANGES))
            assert heard.count(Measured("delegation_tokens_expired")) == 2
            (notice,) = (n for n in heard if isinstance(n, Notice))
            assert notice.kind == "malformed znode"
            assert notice.text.startswith(f"{TOKENS}/torn: ")

    asyncio.run(story())


def test_a_deposed_controller_deletes_nothing(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            prepare(other)
            token(other, "expired", NOW_MS - 1, NOW_MS - 1)
            other.set("/controller_epoch", b"2")
            async with connected(zookeeper) as bridge:
                assert not await TokenExpiry(bridge, ZnodeVersion(0), print, print).expire(NOW_MS)
            assert other.get_children(TOKENS) == ["expired"]
            assert other.get_children(CHANGES) == []

    asyncio.run(story())


def test_a_cluster_without_tokens_has_nothing_to_expire(zookeeper: str) -> None:
    async def story() -> None:
        async with connected(zookeeper) as bridge:
            assert await TokenExpiry(bridge, ZnodeVersion(0), print, print).expire(NOW_MS)

    asyncio.run(story())
