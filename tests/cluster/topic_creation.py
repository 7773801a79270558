"""How does a client make a broker create a topic?"""

from __future__ import annotations

from controller.core.messages.requests import DescribeCluster, TopicReference
from controller.demo.znodes import Znodes
from controller.lab.kafka_broker import KafkaBroker
from tests.equipment.any_request import ask
from zk_layout.ids import TopicName


def ask_about(broker: KafkaBroker, topic: str) -> None:
    """Send a Metadata request, which makes a broker create the topic; the controller creates nothing on it."""
    ask(broker.address, DescribeCluster((TopicReference(TopicName(topic)),)), version=1, timeout_s=30)


def ask_for(broker: KafkaBroker, topic: str, znodes: Znodes) -> bool:
    """Ask about a topic; return whether it exists now. Brokers refuse to create one until they know enough others."""
    ask_about(broker, topic)
    return topic in znodes.children("/brokers/topics")
