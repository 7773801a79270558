"""Who stands for election, and what does it need for that?"""

from __future__ import annotations

from msgspec import Struct

from controller.core.candidacy.candidacy import CandidacySettings
from controller.core.candidacy.phases import TakeOver
from controller.settings.listening import Listening
from controller.settings.values import Values
from controller.settings.zookeeper import ZooKeeperSettings
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Registration


class ClaimSettings(Struct, frozen=True):
    """Who this process is in ZooKeeper, and how it goes there.

    Shape:
        `protocol` is `inter.broker.protocol.version` as it is written; auto: it is found out from the brokers. `given`
        are the keys that the operator has set; nothing is taken from the brokers for them.

    Units:
        `request_timeout_s` is Kafka's `request.timeout.ms`.
    """

    own_id: BrokerId
    registration: Registration
    zookeeper: ZooKeeperSettings
    protocol: str
    request_timeout_s: float
    given: frozenset[str]


def claim_of(values: Values, listening: Listening, zookeeper: ZooKeeperSettings) -> ClaimSettings:
    """What the keys about this replica come to."""
    return ClaimSettings(
        own_id=BrokerId(values.number("broker.id")),
        registration=Registration(listening.advertised, values.text("broker.rack") or None),
        zookeeper=zookeeper,
        protocol=values.text("inter.broker.protocol.version"),
        request_timeout_s=values.seconds("request.timeout.ms"),
        given=values.given,
    )


def candidacy_of(values: Values, zookeeper: ZooKeeperSettings) -> CandidacySettings:
    """Whom a claim may replace, and when."""
    return CandidacySettings(TakeOver(values.text("controller.takeover")), zookeeper.session_timeout_ms / 1000)
