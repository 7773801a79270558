"""What is told through ZooKeeper: changed ISRs, failed log directories, changed settings?

Source: Kafka's IsrChangeNotificationSequenceZNode and LogDirEventNotificationSequenceZNode.
"""

from __future__ import annotations

from msgspec import Struct

from zk_layout.bounds import Broker, Partition
from zk_layout.codec import Undecodable, encode_json, excerpt, json_decoder
from zk_layout.ids import TopicName, TopicPartition

ISR_CHANGES = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"
CONFIG_CHANGES = "/config/changes"


class IsrChangeAddress(Struct, frozen=True, gc=False):
    """One notification of a leader whose inter.broker.protocol.version is below 2.7."""

    name: str

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return f"{ISR_CHANGES}/{self.name}"


class LogDirEventAddress(Struct, frozen=True, gc=False):
    """One notification of a broker that lost a log directory."""

    name: str

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return f"{LOG_DIR_EVENTS}/{self.name}"


class ConfigChangeAddress(Struct, frozen=True, gc=False):
    """One notification of whoever changed settings. Brokers delete it after a while."""

    name: str

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return f"{CONFIG_CHANGES}/{self.name}"


class IsrChange(Struct, frozen=True):
    """The partitions whose leader wrote a new ISR into the state znode."""

    partitions: tuple[TopicPartition, ...]


class LogDirEvent(Struct, frozen=True):
    """The broker that lost a log directory."""

    broker: Broker


class ConfigChange(Struct, frozen=True):
    """Of whom settings were changed: "topics/orders", "brokers/<default>", "users/ann" …"""

    entity_path: str

    @property
    def topic(self) -> TopicName | None:
        """The topic, if it is one.

        >>> ConfigChange("topics/orders").topic, ConfigChange("brokers/1").topic
        ('orders', None)
        """
        kind, _, name = self.entity_path.partition("/")
        return TopicName(name) if kind == "topics" and name else None


class _ConfigChangeJson(Struct):
    entity_path: str = ""
    entity_type: str = ""
    entity_name: str = ""


class _PartitionJson(Struct):
    topic: TopicName
    partition: Partition


class _IsrChangeJson(Struct):
    partitions: tuple[_PartitionJson, ...]


_isr_change_decoder = json_decoder(_IsrChangeJson)


_config_change_decoder = json_decoder(_ConfigChangeJson)


def decode_config_change(data: bytes) -> ConfigChange:
    """Of whom settings were changed; version 1 has type and name in two fields.

    >>> decode_config_change(b'{"version":1,"entity_type":"topics","entity_name":"orders"}').topic
    'orders'

    Raises:
        Undecodable: not JSON, or nobody is named.
    """
    json = _config_change_decoder(data)
    path = json.entity_path or f"{json.entity_type}/{json.entity_name}"
    if path == "/":
        raise Undecodable(f"neither entity_path nor entity_type in {excerpt(data)}")
    return ConfigChange(path)


def encode_config_change(change: ConfigChange) -> bytes:
    """Version 2.

    >>> encode_config_change(ConfigChange("topics/orders"))
    b'{"version":2,"entity_path":"topics/orders"}'
    """
    return encode_json({"version": 2, "entity_path": change.entity_path})


def decode_isr_change(data: bytes) -> IsrChange:
    """The partitions named.

    Raises:
        Undecodable: not JSON with a list `partitions`.
    """
    json = _isr_change_decoder(data)
    return IsrChange(tuple(TopicPartition(p.topic, p.partition) for p in json.partitions))


def encode_isr_change(change: IsrChange) -> bytes:
    """As old leaders write it."""
    partitions = [{"topic": p.topic, "partition": p.partition} for p in change.partitions]
    return encode_json({"version": 1, "partitions": partitions})


decode_log_dir_event = json_decoder(LogDirEvent)
"""The broker."""


def encode_log_dir_event(event: LogDirEvent) -> bytes:
    """As brokers write it; event 1 is a failed directory, the only kind."""
    return encode_json({"version": 1, "broker": event.broker, "event": 1})
