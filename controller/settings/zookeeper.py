"""Which ZooKeeper do we use, and how?"""

from __future__ import annotations

from msgspec import Struct

from controller.settings.security import ZooKeeperSecurity
from controller.settings.values import Values


class ZooKeeperSettings(Struct, frozen=True):
    """How to connect to ZooKeeper.

    `connect` is Kafka's `zookeeper.connect`: hosts, and perhaps a chroot behind them. `max_in_flight` bounds the
    unanswered requests. `request_limit_bytes` is ZooKeeper's jute.maxbuffer.
    """

    connect: str
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int = 30_000
    max_in_flight: int = 64
    request_limit_bytes: int = 1_048_575
    security: ZooKeeperSecurity = ZooKeeperSecurity()


def zookeeper_of(values: Values, security: ZooKeeperSecurity) -> ZooKeeperSettings:
    """Build it from the keys `zookeeper.…`."""
    return ZooKeeperSettings(
        values.text("zookeeper.connect"),
        values.number("zookeeper.session.timeout.ms"),
        values.number("zookeeper.connection.timeout.ms"),
        values.number("zookeeper.max.in.flight.requests"),
        request_limit_bytes=values.number("jute.maxbuffer"),
        security=security,
    )
