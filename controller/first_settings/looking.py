"""What does ZooKeeper show of the cluster that a new replica joins? Writes nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from controller.first_settings.choosing import TOWARDS_ZOOKEEPER
from controller.first_settings.found import ClusterSeen
from controller.security.failures import UnusableSecurity
from controller.security.tls.stores import UnusableStore
from controller.settings import BadSettings, load
from controller.settings.providers import concerns_providers
from controller.settings.zookeeper import ZooKeeperSettings
from controller.zk import inspection, preparation
from controller.zk.answers import Disconnected, Refused, SessionEnded
from controller.zk.bridge import Bridge

_CONNECTED_WITHIN_MS: Final = 10_000
_WITHIN_S: Final = 30.0


def look(values: Mapping[str, str]) -> ClusterSeen:
    """What the ZooKeeper of these settings shows; `trouble` says why it shows nothing."""
    needed = {key: text for key, text in values.items() if key in TOWARDS_ZOOKEEPER or concerns_providers(key)}
    given = [f"{key}={text}" for key, text in {**needed, "broker.id": "0", "zookeeper.set.acl": "false"}.items()]
    try:
        return asyncio.run(_look(load(None, given, os.environ).zookeeper))
    except BadSettings as error:
        return ClusterSeen(trouble="; ".join(error.problems))
    except (UnusableStore, UnusableSecurity, Disconnected, SessionEnded, Refused) as error:
        return ClusterSeen(trouble=str(error))
    except TimeoutError:
        return ClusterSeen(trouble=f"ZooKeeper did not answer within {_WITHIN_S:g} s")


async def _look(settings: ZooKeeperSettings) -> ClusterSeen:
    bridge = Bridge(replace(settings, connection_timeout_ms=_CONNECTED_WITHIN_MS))
    await bridge.start()
    try:
        async with asyncio.timeout(_WITHIN_S):
            return await seen_at(bridge)
    finally:
        await bridge.stop()


async def seen_at(bridge: Bridge) -> ClusterSeen:
    """What ZooKeeper shows on this connection.

    Raises:
        Refused: ZooKeeper does not let us list the brokers.
        SessionEnded: the session has ended.
    """
    if (found := await inspection.nothing_here(bridge)) is not None:
        return ClusterSeen(trouble=f"no Kafka cluster is at {bridge.settings.connect}: {found}")
    registrations, taken = await asyncio.gather(preparation.registrations(bridge), inspection.ids_taken(bridge))
    return ClusterSeen(registrations, taken)
