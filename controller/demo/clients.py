"""Which classes of kafka-python does the demo use? Imported in one place, without the warnings of its import."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # Python 3.11 deprecates the way in which kafka-python reads its schemas.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.errors import KafkaError

__all__ = [
    "ConfigResource",
    "ConfigResourceType",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "TopicPartition",
]
