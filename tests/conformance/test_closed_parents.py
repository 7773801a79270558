"""Is a chroot usable whose parents are closed? Kafka's brokers use one since 2.8.1."""

from __future__ import annotations

import asyncio

import pytest
from kazoo.security import ACL, ANYONE_ID_UNSAFE, OPEN_ACL_UNSAFE, Permissions

from controller.zk import preparation
from controller.zk.answers import Refused
from tests.conformance.adapter_world import connected, someone
from zk_layout.watched import PERSISTENT

CLOSED = [ACL(Permissions.READ | Permissions.ADMIN, ANYONE_ID_UNSAFE)]


async def _create_parents(connect: str) -> None:
    async with connected(connect) as bridge:
        await preparation.create_parents(bridge)


@pytest.mark.parametrize("chroot", ["/open", "/closed-too/open"])
def test_what_is_missing_in_an_open_chroot_is_created_below_closed_parents(zookeeper: str, chroot: str) -> None:
    with someone(zookeeper) as client:
        client.create(f"/closed{chroot}/brokers/ids", makepath=True)
        closed = ["/closed", *(["/closed/closed-too"] if "too" in chroot else [])]
        for path in closed:
            client.set_acls(path, CLOSED)

        asyncio.run(_create_parents(f"{zookeeper}/closed{chroot}"))

        assert [path for path in PERSISTENT if not client.exists(f"/closed{chroot}{path}")] == []
        for path in closed:
            client.set_acls(path, OPEN_ACL_UNSAFE)  # so that the test's znodes can be deleted


def test_a_closed_parent_inside_is_named(zookeeper: str) -> None:
    with someone(zookeeper) as client:
        client.create("/config")
        client.set_acls("/config", CLOSED)

        with pytest.raises(Refused, match="/config/"):
            asyncio.run(_create_parents(zookeeper))

        client.set_acls("/config", OPEN_ACL_UNSAFE)
