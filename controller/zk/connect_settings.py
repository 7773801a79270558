"""With which ZooKeeper do we speak, and how?"""

from __future__ import annotations

from msgspec import Struct

from controller.settings import Settings
from controller.settings.security import ZooKeeperSecurity


class ZooKeeperSettings(Struct, frozen=True):
    """How to speak to ZooKeeper.

    `connect` is Kafka's `zookeeper.connect`: hosts, and perhaps a chroot behind them. `max_in_flight` bounds
    the unanswered requests. `request_limit_bytes` is ZooKeeper's jute.maxbuffer.
    """

    connect: str
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int = 30_000
    max_in_flight: int = 64
    request_limit_bytes: int = 1_048_575
    security: ZooKeeperSecurity = ZooKeeperSecurity()


def way_to_zookeeper(settings: Settings) -> ZooKeeperSettings:
    """How this process connects to ZooKeeper."""
    return ZooKeeperSettings(
        settings.text("zookeeper.connect"),
        settings.number("zookeeper.session.timeout.ms"),
        settings.number("zookeeper.connection.timeout.ms"),
        settings.number("zookeeper.max.in.flight.requests"),
        request_limit_bytes=settings.number("jute.maxbuffer"),
        security=settings.zookeeper,
    )
