"""Does a replica with this id run already, and is it the one with these settings?

Its znode in ZooKeeper says so and, before it has found that it may lead, its HTTP port.
"""

from __future__ import annotations

import asyncio
import socket
from datetime import datetime
from typing import Any

from msgspec import Struct

from controller.http import client
from controller.process.replica_znode import http_address
from controller.settings import Settings
from controller.zk.answers import Refused
from controller.zk.bridge import Bridge
from zk_layout import catalog
from zk_layout.znodes.replicas import Replica, ReplicaAddress

_EVERY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


class Running(Struct, frozen=True):
    """A replica that runs: its state and its place, as text. `is_here`: it is the one with these settings."""

    state: str
    place: str
    is_here: bool


async def find(bridge: Bridge, settings: Settings, *, has_port: bool) -> Running | None:
    """The running replica with this id. Where this process `has_port`, none on this host can have the same settings
    unless it has just stopped.

    Raises:
        SessionEnded: the session has ended.
    """
    here = http_address(settings.http.address)
    if (known := await _announced(bridge, settings)) is not None:
        is_here = known.host == socket.gethostname() and known.http == here and (bool(here) or not has_port)
        place = f"{known.host or 'an unknown host'}{f' ({known.http})' if known.http else ''}"
        return Running(_state(known.phase, known.since_ms / 1000), place, is_here)
    if has_port or not here:
        return None
    return await asyncio.to_thread(asked, settings)


async def _announced(bridge: Bridge, settings: Settings) -> Replica | None:
    address = ReplicaAddress(settings.claim.own_id)
    try:
        node, _ = await bridge.get(address.path)
    except Refused:
        return None
    found = None if node is None else catalog.decode(address, node.data)
    return found if isinstance(found, Replica) else None


def asked(settings: Settings) -> Running | None:
    """The replica that answers at the HTTP port of these settings; one that wants TLS or a user is not recognised."""
    where = http_from_here(settings)
    try:
        found: dict[str, Any] = client.ask(f"http://{where}/leader")
    except (OSError, ValueError):
        return None
    if found.get("broker") != settings.claim.own_id or not isinstance(found.get("since"), int | float):
        return None
    return Running(_state(str(found.get("phase")), found["since"]), where, is_here=True)


def http_from_here(settings: Settings) -> str:
    """Where this host reaches the HTTP port of these settings; empty without one."""
    host, port = settings.http.address
    return http_address((_EVERY_INTERFACE.get(host, host), port))


def _state(phase: str, since_s: float) -> str:
    return f"{phase} since {datetime.fromtimestamp(since_s).astimezone().isoformat(' ', 'seconds')}"
