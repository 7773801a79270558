"""Who stands for election, and with which settings?"""

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
    """This process's identity in ZooKeeper, and how it connects.

    Shape:
        `protocol` is `inter.broker.protocol.version` as written; auto: it is determined from the brokers. `given` are
        the keys that the operator has set; nothing is taken from the brokers for them.

    Units:
        `request_timeout_s` is Kafka's `request.timeout.ms`. `challenge_timeout_s`: 0 if no leader is challenged.
    """

    own_id: BrokerId
    registration: Registration
    zookeeper: ZooKeeperSettings
    protocol: str
    request_timeout_s: float
    given: frozenset[str]
    challenge_timeout_s: float = 0.0


def claim_of(values: Values, listening: Listening, zookeeper: ZooKeeperSettings) -> ClaimSettings:
    """Build it from the keys about this replica."""
    return ClaimSettings(
        own_id=BrokerId(values.number("broker.id")),
        registration=Registration(listening.advertised, values.text("broker.rack") or None),
        zookeeper=zookeeper,
        protocol=values.text("inter.broker.protocol.version"),
        request_timeout_s=values.seconds("request.timeout.ms"),
        given=values.given,
        challenge_timeout_s=values.seconds("controller.challenge.timeout.ms"),
    )


def candidacy_of(values: Values, zookeeper: ZooKeeperSettings) -> CandidacySettings:
    """Which holder a claim may replace, and when."""
    return CandidacySettings(TakeOver(values.text("controller.takeover")), zookeeper.session_timeout_ms / 1000)
