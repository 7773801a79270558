"""What does a plan's file say of how it was made, and does the cluster still look like that?

The part `plan` of the file is no part of Kafka's format, whose tools skip it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from math import floor, log10

import msgspec
from msgspec import Struct

from zk_layout.ids import PartitionId, Replicas, TopicName, TopicPartition

_DIGITS = 2


class Before(Struct, frozen=True):
    """One partition as it was when the plan was made.

    Units:
        `size_bytes` is rounded to two digits: what grows a little meanwhile is not another plan.
    """

    topic: TopicName
    partition: PartitionId
    replicas: Replicas
    size_bytes: int

    @property
    def at(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


class Certificate(Struct, frozen=True):
    """How a plan was made, and from what.

    Shape:
        `hash` covers all the others, and the targets. `topic_ids` lacks topics without an id.
    """

    goal: str
    options: dict[str, object]
    topic_ids: dict[TopicName, str]
    before: tuple[Before, ...]
    moved_bytes: int
    least_bytes: int
    hash: str = ""


def sealed(certificate: Certificate, targets: Mapping[TopicPartition, Replicas]) -> Certificate:
    """The certificate with its hash."""
    return msgspec.structs.replace(certificate, hash=hash_of(certificate, targets))


def hash_of(certificate: Certificate, targets: Mapping[TopicPartition, Replicas]) -> str:
    """The hash over how the plan was made, from what, and what it is."""
    whole = [
        msgspec.structs.replace(certificate, hash=""),
        [[at.topic, at.partition, replicas] for at, replicas in sorted(targets.items())],
    ]
    return sha256(msgspec.json.encode(whole, order="sorted")).hexdigest()[:32]


def rounded(size_bytes: int) -> int:
    """A size in two digits.

    >>> rounded(0), rounded(17), rounded(123_456_789)
    (0, 17, 120000000)
    """
    if size_bytes <= 0:
        return 0
    unit: int = 10 ** max(0, floor(log10(size_bytes)) - _DIGITS + 1)
    return size_bytes // unit * unit


def differences(
    certificate: Certificate,
    targets: Mapping[TopicPartition, Replicas],
    current: Mapping[TopicPartition, Replicas],
    topic_ids: Mapping[TopicName, str],
) -> dict[TopicPartition, str]:
    """What has changed since the plan was made, by partition; `current` lacks partitions that are gone."""
    found = {}
    for before in certificate.before:
        reason = _difference(before, targets.get(before.at), current.get(before.at))
        known, now = certificate.topic_ids.get(before.topic), topic_ids.get(before.topic)
        if known is not None and now is not None and known != now:
            reason = "the topic was deleted and created again"
        if reason is not None:
            found[before.at] = reason
    return found


def _difference(before: Before, target: Replicas | None, current: Replicas | None) -> str | None:
    if current is None:
        return "it does not exist any more"
    if current == before.replicas:
        return None
    if current == target:
        return "it has the replicas of the plan already"
    return f"it had the replicas {_listed(before.replicas)}, and has {_listed(current)}"


def _listed(replicas: Replicas) -> str:
    return ",".join(map(str, replicas))
