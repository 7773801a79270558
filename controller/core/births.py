"""Which topics are about to be created, and what is to be written for each?

The topic's settings come first, then its assignment: brokers read the settings when they create the logs.

Source: Kafka's AdminZkClient.createTopicWithAssignment.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from msgspec import Struct, field

from controller.core import topic_names
from controller.core.admin import create_topics
from controller.core.admin.create_topics import Birth, Defaults
from controller.core.asks import Asks, Item, denied, unknown
from controller.core.cluster import Cluster
from controller.core.dice import Dice
from controller.core.draft import Atom
from controller.core.effects import Create, Set, Write
from controller.core.errors import ErrorCode, Refusal
from controller.core.replies import Result, TopicCreated
from controller.core.requests import CreateTopics, NewTopic
from zk_layout.ids import TopicName
from zk_layout.znodes.configs import Config, TopicConfigAddress
from zk_layout.znodes.topics import Topic, TopicAddress


class Conception(Struct):
    """What was decided about a name that no topic has.

    Shape:
        `settled` are parts of requests that are answered at once, `accepted` is the one that is answered when brokers
        know the topic that `atom` creates, `postponed` are those that wait for it.
    """

    settled: list[tuple[Item, Result]] = field(default_factory=list)
    accepted: list[Item] = field(default_factory=list)
    postponed: list[Item] = field(default_factory=list)
    atom: Atom | None = None


class Births:
    """Decides about topics that do not exist yet."""

    def __init__(self, cluster: Cluster, asks: Asks, dice: Dice, defaults: Defaults, *, gives_ids: bool) -> None:
        """Nothing is being created."""
        self._cluster = cluster
        self._asks = asks
        self._dice = dice
        self._defaults = defaults
        self._gives_ids = gives_ids
        self._begun: dict[str, set[TopicName]] = {}

    def consider(self, name: TopicName, items: Iterable[Item], busy: Container[TopicName]) -> Conception:
        """Decide what was asked about a name; `busy` are the topics with a step in flight, new ones among them."""
        conception = Conception()
        for item in items:
            if conception.accepted:
                conception.postponed.append(item)
            elif not isinstance(item.wanted, NewTopic):
                conception.settled.append((item, unknown(item, self._cluster)))
            else:
                self._conceive(name, item, item.wanted, busy, conception)
        return conception

    def _conceive(
        self, name: TopicName, item: Item, wish: NewTopic, busy: Container[TopicName], conception: Conception
    ) -> None:
        outcome = create_topics.consider(wish, self._alike(name, busy), self._defaults, self._cluster, self._dice)
        request = self._asks.request(item.ask)
        if isinstance(outcome, Refusal):
            conception.settled.append((item, denied(item, outcome)))
        elif isinstance(request, CreateTopics) and request.is_validation_only:
            conception.settled.append((item, _possible(name, outcome)))
        else:
            conception.accepted.append(item)
            conception.atom = self._atom(name, outcome)
            look = topic_names.look_of(name)
            if look is not None:
                self._begun.setdefault(look, set()).add(name)

    def _alike(self, name: TopicName, busy: Container[TopicName]) -> set[TopicName]:
        """Topics that look the same in metrics, also those whose creation is in flight."""
        look = topic_names.look_of(name)
        if look is None:
            return set()
        begun = {other for other in self._begun.pop(look, ()) if other in busy}
        if begun:
            self._begun[look] = begun
        return begun | self._cluster.alike.get(look, set())

    def _atom(self, name: TopicName, birth: Birth) -> Atom:
        topic = Topic(birth.assignments, self._dice.topic_id() if self._gives_ids else None)
        config, held = Config(birth.config), self._cluster.stray_configs.get(name)
        address = TopicConfigAddress(name)
        settings: Write = Create(address, config) if held is None else Set(address, config, held)
        counts = f"{len(birth.assignments)} partitions of {birth.replication_factor} replicas"
        return Atom((settings, Create(TopicAddress(name), topic)), (f"asked to create topic {name}: {counts}",))


def _possible(name: TopicName, birth: Birth) -> TopicCreated:
    count, configs = len(birth.assignments), tuple(birth.config.items())
    return TopicCreated(name, ErrorCode.NONE, None, None, count, birth.replication_factor, configs)
