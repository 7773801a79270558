"""Which brokers are registered?"""

from __future__ import annotations

from msgspec import Struct

from zk_layout.ids import BrokerEpoch
from zk_layout.znodes.brokers import Registration


class Broker(Struct, frozen=True):
    """A registered broker; its epoch is the czxid of its registration."""

    registration: Registration
    epoch: BrokerEpoch
