"""Which settings does this node show to clients that describe it as a broker?"""

from __future__ import annotations

from controller.core.messages.replies import BrokerConfig, ConfigSource
from controller.settings.table import SETTINGS
from controller.settings.values import HIDDEN, Values


def own_configs(values: Values, protocol: str) -> dict[str, BrokerConfig]:
    """The settings in force that Kafka has too, and the protocol in force.

    Kafka UI derives the cluster's version and features from its controller's settings.
    """
    hidden = dict.fromkeys(values.written, HIDDEN)
    texts = {**values.shown(), **hidden, "inter.broker.protocol.version": protocol}
    return {
        one.key: BrokerConfig(
            None if texts[one.key] in ("", HIDDEN) else texts[one.key],
            ConfigSource.DEFAULT if values.by_key[one.key] == one.default else ConfigSource.STATIC_BROKER,
            is_sensitive=texts[one.key] == HIDDEN,
        )
        for one in SETTINGS
        if one.is_kafkas
    }
