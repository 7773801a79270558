"""A cluster as its brokers and its controller report it.

Brokers in ZooKeeper mode do not forward reassignments, so those requests go to the controller that Metadata names; when
it changes or does not answer, the new one is looked for until the timeout.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import kafka.errors
import tenacity
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import (
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from controller.reassign import messages
from controller.reassign.client_properties import ClientSettings
from controller.reassign.cluster import (
    NOTHING_ADDED,
    Added,
    Answered,
    Configured,
    Directories,
    Edge,
    Kind,
    Listing,
    Mode,
    Move,
    Node,
    PartitionState,
    Settings,
)
from controller.reassign.plans import Replica
from controller.reassign.refusals import Refused, Unreachable
from controller.reassign.throttles import FOLLOWER_RATE
from controller.security.tokens.own_token import NoToken
from controller.wire.tagged import controller_of, progress_of, status_of
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition

CLIENT_ID = "kafka-zk-controller-reassign"
_NONE, _REQUEST_TIMED_OUT, _NOT_CONTROLLER, _REPLICA_NOT_AVAILABLE, _NO_REASSIGNMENT = 0, 7, 41, 9, 85
_UNKNOWN_TOPIC = frozenset({3, 100})
_SET, _DELETE = 0, 1
_SOON_MS, _SILENT_S = 3_000, 30.0
_UNLIMITED = 2**63 - 1
_NO_ID = UUID(int=0)
_DEFAULT_CONFIG = 5
_MESSAGES = {
    -1: "The server experienced an unexpected error when processing the request.",
    3: "This server does not host this topic-partition.",
    29: "Topic authorization failed.",
    31: "Cluster authorization failed.",
    39: "Replica assignment is invalid.",
    40: "Configuration is invalid.",
    56: "Disk error when trying to access log file on the disk.",
    57: "The user-specified log directory is not found in the broker config.",
    60: "A partition reassignment is in progress.",
    85: "No partition reassignment is in progress.",
}

T = TypeVar("T")


class _Elsewhere(Exception):
    """The node asked is no longer the controller."""


class KafkaCluster:
    """Everything over the Kafka protocol, starting from any broker."""

    has_log_dirs = True

    def __init__(self, bootstrap_servers: str, settings: ClientSettings, client_id: str = CLIENT_ID) -> None:
        """Connect.

        Raises:
            Unreachable: no broker answers, or none accepts us.
        """
        self._timeout_ms = settings.timeout_ms
        self._troubles = _Troubles()
        self._is_sasl = settings.security_protocol.startswith("SASL")
        arguments = {"client_id": client_id, **settings.arguments}
        os.environ.update(settings.environment)
        _demand_token(arguments)
        self._net = NetworkSelector(**arguments)
        try:
            self._manager = KafkaConnectionManager(
                self._net,
                bootstrap_servers=bootstrap_servers.split(","),
                receive_message_max_bytes=2**31 - 1,
                **arguments,
            )
        except (ValueError, kafka.errors.KafkaError) as error:
            raise Unreachable(f"--bootstrap-server {bootstrap_servers}: {error}") from None
        self._net.start()
        self._named = bootstrap_servers
        self._silent_until: dict[BrokerId, float] = {}
        self._bootstrap()

    def nodes(self) -> dict[BrokerId, Node]:
        """Every node in Metadata."""
        found = self._patiently(lambda: self._metadata(()), "the brokers")
        ours = found.controller_id if self._is_led_by_ours() else None
        return {b.node_id: Node(b.host, b.port, b.rack, is_controller=b.node_id == ours) for b in found.brokers}

    def _is_led_by_ours(self) -> bool:
        """Only the controller can tell; if none answers, no node counts as ours."""
        try:
            return self.listing(()).controller is not None
        except (Refused, Unreachable):
            return False

    def topics(self, names: Collection[TopicName] | None) -> dict[TopicName, dict[PartitionId, PartitionState]]:
        """As the next best broker knows them."""
        if names is not None and not names:
            return {}
        found = self._patiently(lambda: self._metadata(names), "the topics")
        refused = [t for t in found.topics if t.error_code and t.error_code not in _UNKNOWN_TOPIC and not t.partitions]
        if refused:
            raise Refused("\n".join(f"{t.name}: {_reason(t.error_code, None)}" for t in refused))
        return {
            TopicName(t.name): {
                p.partition_index: PartitionState(tuple(p.replica_nodes), tuple(p.isr_nodes), p.leader_id)
                for p in sorted(t.partitions, key=lambda p: int(p.partition_index))
            }
            for t in found.topics
            if t.error_code not in _UNKNOWN_TOPIC
        }

    def topic_ids(self, names: Collection[TopicName]) -> dict[TopicName, str]:
        """As the next best broker knows them."""
        if not names:
            return {}
        found = self._patiently(lambda: self._metadata(names), "the topics")
        return {TopicName(t.name): str(t.topic_id) for t in found.topics if t.topic_id and t.topic_id != _NO_ID}

    def listing(self, partitions: Collection[TopicPartition] | None = None, request_id: int | None = None) -> Listing:
        """As the controller knows it."""
        wanted = None if partitions is None else _by_topic(partitions)
        answer = self._ask_controller(lambda: messages.list_request(wanted, self._timeout_ms, request_id))
        _demand_no_error(answer)
        moves = {
            TopicPartition(TopicName(topic.name), PartitionId(p.partition_index)): Move(
                tuple(p.replicas),
                tuple(p.adding_replicas),
                tuple(p.removing_replicas),
                messages.understood(progress_of, p),
            )
            for topic in answer.topics
            for p in topic.partitions
        }
        return Listing(moves, messages.understood(controller_of, answer), messages.understood(status_of, answer))

    def alter(
        self,
        targets: Mapping[TopicPartition, Replicas | None],
        mode: Mode | None = None,
        added: Added = NOTHING_ADDED,
    ) -> Answered:
        """Repeats the request after a lost answer: the same target twice is harmless, and a cancellation that finds
        nothing is done."""
        asked, fields = 0, messages.added_fields(added, targets, "" if mode is None else mode.value)

        def request() -> Any:
            nonlocal asked
            asked += 1
            return messages.alter_request(targets, self._timeout_ms, fields)

        answer = self._ask_controller(request)
        _demand_no_error(answer)
        refused = {
            TopicPartition(TopicName(t.name), PartitionId(p.partition_index)): _reason(p.error_code, p.error_message)
            for t in answer.responses
            for p in t.partitions
            if p.error_code != _NONE and not (p.error_code == _NO_REASSIGNMENT and asked > 1)
        }
        return Answered(refused, messages.request_id_of(answer))

    def configure(self, changes: Mapping[Configured, Settings]) -> dict[Configured, str]:
        """Each broker is asked for its own settings, any broker for those of topics."""
        by_node: dict[BrokerId | None, list[Configured]] = {}
        for of in changes:
            by_node.setdefault(BrokerId(int(of.name)) if of.kind is Kind.BROKER else None, []).append(of)
        failed: dict[Configured, str] = {}
        for node, owners in by_node.items():
            try:
                answer = self._patiently(
                    partial(self._send_configs, owners, changes, node),
                    "the brokers" if node is None else f"broker {node}",
                )
            except Unreachable as error:
                failed |= dict.fromkeys(owners, str(error))
                continue
            failed |= {
                Configured(Kind(r.resource_type), r.resource_name): _reason(r.error_code, r.error_message)
                for r in answer.responses
                if r.error_code != _NONE
            }
        return failed

    def throttles(self, brokers: Collection[BrokerId]) -> dict[BrokerId, int]:
        """Each broker is asked for its own; one that may not be asked counts as having none."""
        found: dict[BrokerId, int] = {}
        for broker in brokers:
            try:
                answer = self._send(messages.settings_request(broker, [FOLLOWER_RATE]), broker)
            except kafka.errors.KafkaError:
                continue
            for rate in (c.value for r in answer.results for c in r.configs if c.name == FOLLOWER_RATE and c.value):
                if rate.isdecimal() and int(rate) < _UNLIMITED:
                    found[broker] = int(rate)
        return found

    def described(self, broker: BrokerId) -> dict[str, str | None]:
        """What a broker has set otherwise than by default; None for what it does not disclose.

        Raises:
            Refused, Unreachable: it does not let us ask, or does not answer.
        """
        answer = self._patiently(lambda: self._send(messages.settings_request(broker), broker), f"broker {broker}")
        (result,) = answer.results
        if result.error_code != _NONE:
            raise Refused(f"broker {broker}: {_reason(result.error_code, result.error_message)}")
        return {one.name: one.value for one in result.configs if one.config_source != _DEFAULT_CONFIG}

    def directories(self, replicas: Collection[Replica]) -> dict[Replica, Directories]:
        """Asks brokers for these replicas only; leaves out brokers that do not answer."""
        found: dict[Replica, Directories] = {}
        for broker, its in _by_broker(replicas).items():
            try:
                answer = self._send(_log_dirs_request(its), broker)
            except kafka.errors.KafkaError:
                continue
            found |= dict.fromkeys(its, Directories()) | _directories(broker, answer)
        return {replica: found[replica] for replica in replicas if replica in found}

    def offsets(self, replicas: Collection[Replica], edge: Edge) -> dict[Replica, int]:
        """Asks each broker about its own replicas, whether they lead, are in sync, or neither.

        A broker that does not answer soon is left alone for a while: who watches moves would wait for it at each look.
        """
        found: dict[Replica, int] = {}
        for broker, its in _by_broker(replicas).items():
            if time.monotonic() < self._silent_until.get(broker, 0.0):
                continue
            try:
                answer = self._send(messages.offsets_request(its, edge), broker, _SOON_MS)
            except kafka.errors.KafkaError:
                self._silent_until[broker] = time.monotonic() + _SILENT_S
                continue
            found |= messages.offsets_of(broker, answer)
        return found

    def move_directories(self, targets: Mapping[Replica, str]) -> dict[Replica, str | None]:
        """One request a broker."""
        answers: dict[Replica, str | None] = {}
        for broker, its in _by_broker(targets).items():
            answer = self._patiently(
                partial(self._send_moves, its, targets, broker),
                f"broker {broker}",
            )
            for topic in answer.results:
                for p in topic.partitions:
                    replica = Replica(broker, TopicName(topic.topic_name), PartitionId(p.partition_index))
                    if p.error_code != _REPLICA_NOT_AVAILABLE:
                        answers[replica] = None if p.error_code == _NONE else _reason(p.error_code, None)
        return answers

    def close(self) -> None:
        """Disconnect."""
        self._troubles.end()
        self._manager.close()
        self._net.close()

    def _bootstrap(self) -> None:
        try:
            self._manager.bootstrap(self._timeout_ms)
        except kafka.errors.KafkaError as error:
            reason = self._troubles.last or str(error)
            if self._is_sasl and "disconnected" in reason:
                reason += "; brokers close the connection like this on a wrong user, password or mechanism"
            self.close()
            raise Unreachable(
                f"no broker answers at {self._named} within {self._timeout_ms / 1000:g} s ({reason}); check the "
                "address, security.protocol and credentials"
            ) from None

    def _metadata(self, topics: Collection[TopicName] | None) -> Any:
        """Also gives the connections every node's address."""
        wanted = None
        if topics is not None:
            wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(topics)]
        answer = self._send(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), None)
        self._manager.cluster.update_metadata(answer)
        return answer

    def _ask_controller(self, request: Callable[[], Any]) -> Any:
        def once() -> Any:
            controller = self._metadata(()).controller_id
            if controller < 0:
                raise _Elsewhere("no controller is known")
            answer = self._send(request(), controller)
            if answer.error_code in (_NOT_CONTROLLER, _REQUEST_TIMED_OUT):
                raise _Elsewhere(f"node {controller} answered: {_reason(answer.error_code, answer.error_message)}")
            return answer

        return self._patiently(once, "the controller")

    def _patiently(self, once: Callable[[], T], whom: str) -> T:
        """Retry until the timeout; errors that cannot go away are not retried."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_may_pass),
            wait=tenacity.wait_exponential(multiplier=0.05, max=1.0),
            stop=tenacity.stop_after_delay(self._timeout_ms / 1000),
            reraise=True,
        )
        try:
            return retrying(once)
        except (kafka.errors.KafkaError, _Elsewhere) as error:
            raise Unreachable(f"{whom} did not answer: {error or type(error).__name__}") from None

    def _send_configs(
        self, owners: Collection[Configured], changes: Mapping[Configured, Settings], node: BrokerId | None
    ) -> Any:
        return self._send(_configs_request(owners, changes), node)

    def _send_moves(self, replicas: Collection[Replica], targets: Mapping[Replica, str], broker: BrokerId) -> Any:
        return self._send(_move_request(replicas, targets), broker)

    def _send(self, request: Any, node: BrokerId | None, timeout_ms: int | None = None) -> Any:
        async def sending() -> Any:
            return await self._manager.send(request, node_id=node, request_timeout_ms=timeout_ms)

        return self._manager.run(sending)


class _Troubles(logging.Handler):
    """Why connections failed: kafka-python only logs it and tries again.

    The timeout of the last attempt says less than the reason of an earlier one.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last: str | None = None
        self._logger = logging.getLogger("kafka")
        self._logger.addHandler(self)
        self._logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Store the record instead of showing it."""
        text = record.getMessage()
        is_reason = "failed" in text.lower() and "Unable to bootstrap" not in text
        if is_reason and (self.last is None or "timed out" not in text):
            self.last = text.splitlines()[0]

    def end(self) -> None:
        """Remove the log handler."""
        self._logger.removeHandler(self)
        self._logger.propagate = True


def _demand_token(arguments: Mapping[str, Any]) -> None:
    """Without this check, the client library reports a missing token as a refused connection."""
    provider = arguments.get("sasl_oauth_token_provider")
    try:
        if provider is not None:
            provider.token()
    except NoToken as failure:
        raise Unreachable(f"OAUTHBEARER: {failure.reason}") from None


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, _Elsewhere):
        return True
    lasting = (kafka.errors.AuthorizationError, kafka.errors.SaslAuthenticationFailedError)
    return isinstance(error, kafka.errors.KafkaError) and not isinstance(error, lasting)


def _demand_no_error(answer: Any) -> None:
    if answer.error_code != _NONE:
        raise Refused(_reason(answer.error_code, answer.error_message))


def _reason(code: int, message: str | None) -> str:
    """The server's text, otherwise that of Kafka's clients for the code."""
    if message:
        return message
    known = kafka.errors.for_code(code)
    return _MESSAGES.get(code) or str(known.description or known.__name__)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[TopicName, list[int]]:
    found: dict[TopicName, list[int]] = {}
    for at in partitions:
        found.setdefault(at.topic, []).append(at.partition)
    return found


def _by_broker(replicas: Iterable[Replica]) -> dict[BrokerId, list[Replica]]:
    found: dict[BrokerId, list[Replica]] = {}
    for replica in replicas:
        found.setdefault(replica.broker, []).append(replica)
    return found


def _configs_request(owners: Collection[Configured], changes: Mapping[Configured, Settings]) -> Any:
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource
    return IncrementalAlterConfigsRequest(
        resources=[
            kind(
                resource_type=of.kind.value,
                resource_name=of.name,
                configs=[
                    kind.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
                    for key, value in changes[of].items()
                ],
            )
            for of in owners
        ],
        validate_only=False,
    )


def _log_dirs_request(replicas: Collection[Replica]) -> Any:
    topics: dict[TopicName, list[int]] = {}
    for replica in replicas:
        topics.setdefault(replica.topic, []).append(replica.partition)
    kind = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(topics=[kind(topic=topic, partitions=its) for topic, its in topics.items()])


def _directories(broker: BrokerId, answer: Any) -> dict[Replica, Directories]:
    found: dict[Replica, Directories] = {}
    for directory in answer.results:
        for topic in directory.topics:
            for p in topic.partitions:
                replica = Replica(broker, TopicName(topic.name), PartitionId(p.partition_index))
                seen = found.get(replica, Directories())
                if p.is_future_key:
                    found[replica] = Directories(seen.current, directory.log_dir, seen.size_bytes)
                else:
                    found[replica] = Directories(directory.log_dir, seen.future, p.partition_size)
    return found


def _move_request(replicas: Collection[Replica], targets: Mapping[Replica, str]) -> Any:
    paths: dict[str, dict[TopicName, list[int]]] = {}
    for replica in replicas:
        paths.setdefault(targets[replica], {}).setdefault(replica.topic, []).append(replica.partition)
    kind = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    return AlterReplicaLogDirsRequest(
        dirs=[
            kind(path=path, topics=[kind.AlterReplicaLogDirTopic(name=t, partitions=ps) for t, ps in topics.items()])
            for path, topics in paths.items()
        ]
    )
