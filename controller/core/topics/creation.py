"""What is written for a topic that is to be created, and which topics are being created?

The topic's settings come first, then its assignment: brokers read the settings when they create the logs.

Source: Kafka's AdminZkClient.createTopicWithAssignment.
"""

from __future__ import annotations

from msgspec import structs

from controller.core.clients.open_requests import Item, denied
from controller.core.messages.effects import Create, Set, Write
from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import TopicConfig, TopicCreated
from controller.core.messages.requests import CreateTopics, NewTopic
from controller.core.state.topic_names import look_of
from controller.core.steps.invariants import NOTHING, Held, gate
from controller.core.steps.step import Step
from controller.core.topics import create_topics
from controller.core.topics.create_topics import Plan
from controller.core.transactions.proposal import Atom
from controller.core.turn.shared import Shared
from zk_layout.ids import ABSENT, TopicName
from zk_layout.znodes.configs import Config, TopicConfigAddress
from zk_layout.znodes.topics import Topic, TopicAddress


class TopicCreation:
    """Decides about topics that do not exist yet."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._begun: dict[str, dict[TopicName, None]] = {}

    def consider(self, item: Item, wanted: NewTopic, step: Step, out: Outbox) -> None:
        """Refuse a topic that nobody may have, or let the step create it."""
        shared = self._shared
        alike = self._alike(step.name)
        most_bytes = shared.sizes.most_data_bytes(TopicAddress(step.name).path)
        outcome = create_topics.refuse_unstorable(
            wanted.partition_count, wanted.replication_factor, most_bytes
        ) or create_topics.consider(wanted, alike, shared.settings.defaults, shared.cluster, shared.random)
        if not isinstance(outcome, Refusal):
            outcome = create_topics.refuse_unjudged(step.name, shared.settings.creation_policy) or outcome
        request = shared.requests.request(item.call)
        if isinstance(outcome, Refusal):
            shared.requests.settle(item, denied(item, outcome), out)
        elif isinstance(request, CreateTopics) and request.is_validation_only:
            shared.requests.settle(item, _shown(wanted, _possible(step.name, outcome)), out)
        elif (exceeded := self._charge(item, outcome, out)) is not None:
            shared.requests.settle(item, denied(item, exceeded), out)
        else:
            step.accepted.append(item)
            step.atoms = (self._atom(step.name, outcome),)
            look = look_of(step.name)
            if look is not None:
                self._begun.setdefault(look, {})[step.name] = None

    def _charge(self, item: Item, plan: Plan, out: Outbox) -> Refusal | None:
        return self._shared.quotas.charge(item.call, item.index, len(plan.assignments), out.now)

    def ended(self, name: TopicName) -> None:
        """A step of a topic is written, or refused."""
        look = look_of(name)
        begun = self._begun.get(look) if look is not None else None
        if look is not None and begun is not None:
            begun.pop(name, None)
            if not begun:
                del self._begun[look]

    def created(self, wanted: NewTopic) -> TopicCreated:
        """The answer once the topic is written."""
        topic = self._shared.cluster.topics.get(wanted.name)
        configs = tuple(TopicConfig(name, value) for name, value in wanted.configs if value is not None)
        if topic is None or not topic.partitions:
            return _shown(wanted, TopicCreated(wanted.name, configs=configs))
        factor = len(next(iter(topic.partitions.values())).assignment.replicas)
        count = len(topic.partitions)
        created = TopicCreated(wanted.name, ErrorCode.NONE, None, topic.topic_id, count, factor, configs)
        return _shown(wanted, created)

    def _alike(self, name: TopicName) -> set[TopicName]:
        """Topics that look the same in metrics, also those whose creation is under way."""
        look = look_of(name)
        if look is None:
            return set()
        return {*self._begun.get(look, ()), *self._shared.cluster.alike.get(look, ())}

    def _atom(self, name: TopicName, plan: Plan) -> Atom:
        shared = self._shared
        for number, assignment in plan.assignments.items():
            gate(name, number, NOTHING, Held(assignment), "asked for a new topic")
        topic = Topic(plan.assignments, shared.random.topic_id() if shared.settings.assigns_topic_ids else None)
        config, version = Config(plan.config), shared.cluster.config_version(name)
        address = TopicConfigAddress(name)
        settings: Write = Create(address, config) if version in (None, ABSENT) else Set(address, config, version)
        counts = f"{len(plan.assignments)} partitions of {plan.replication_factor} replicas"
        return Atom((settings, Create(TopicAddress(name), topic)), (f"asked to create topic {name}: {counts}",))


def _shown(wanted: NewTopic, result: TopicCreated) -> TopicCreated:
    """What the client may see of an answer.

    Source: Kafka's ZkAdminManager.maybePopulateMetadataAndConfigs.
    """
    if wanted.shows_configs:
        return result
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return structs.replace(result, partition_count=-1, replication_factor=-1, configs=None, configs_error=error)


def _possible(name: TopicName, plan: Plan) -> TopicCreated:
    count, configs = len(plan.assignments), tuple(TopicConfig(*config) for config in plan.config.items())
    return TopicCreated(name, ErrorCode.NONE, None, None, count, plan.replication_factor, configs)
