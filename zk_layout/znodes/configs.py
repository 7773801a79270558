"""Which settings were changed for a topic at run time: `/config/topics/<topic>`?

Source: Kafka's ConfigEntityZNode.
"""

from __future__ import annotations

from msgspec import Struct

from zk_layout.codec import decode_json, encode_json, json_decoder
from zk_layout.ids import TopicName


class TopicConfigAddress(Struct, frozen=True, gc=False):
    """The settings of one topic."""

    topic: TopicName

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return f"/config/topics/{self.topic}"


class Config(Struct, frozen=True):
    """Settings by name; every value is a string."""

    config: dict[str, str]


_decoder = json_decoder(Config)


def decode(data: bytes) -> Config:
    """The settings that differ from the defaults.

    Raises:
        Undecodable: not a config's JSON.
    """
    return decode_json(_decoder, data)


def encode(config: Config) -> bytes:
    """As brokers and tools write it."""
    return encode_json({"version": 1, "config": config.config})
