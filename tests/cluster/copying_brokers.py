"""Brokers over sockets, without data, to which each added replica takes the same time to copy."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kazoo.client import KazooClient

from controller.core.messages.commands import LeaderAndIsr, PartitionView, UpdateMetadata
from controller.core.messages.requests import IsrProposal, TopicReference
from controller.demo.simulated_story import SimulatedBrokers
from controller.lab.simulated_broker import SimulatedBroker, SimulatedSettings
from controller.wire.apis import ApiKey
from controller.wire.broker_side import ReceivedCommand, decode_command, encode_acknowledgement
from controller.wire.requests import decode_header
from zk_layout.ids import BrokerId, Replicas, TopicPartition


class CopyingBroker(SimulatedBroker):
    """Asks for the replicas that are added to what it leads to be in sync, `copy_s` after it first heard of them.

    With the next epoch of a leader it asks again, as brokers do.
    """

    def __init__(self, broker: BrokerId, zookeeper: KazooClient, copy_s: float) -> None:
        super().__init__(SimulatedSettings(broker, counts_only=True), zookeeper)
        self._copy_s = copy_s
        self._views: dict[TopicPartition, PartitionView] = {}
        self._copying: dict[TopicPartition, Replicas] = {}
        self._arrived: dict[TopicPartition, Replicas] = {}

    def _answer(self, frame: bytes) -> bytes:
        key = decode_header(frame).api_key
        if key == ApiKey.STOP_REPLICA:
            return encode_acknowledgement(decode_command(frame))  # one that is not read would confirm no deletion
        if key == ApiKey.LEADER_AND_ISR:
            self._lead(decode_command(frame))
        elif key == ApiKey.UPDATE_METADATA and self.model.controller not in self._brokers:
            self._find_controller(decode_command(frame))
        return super()._answer(frame)

    def _find_controller(self, received: ReceivedCommand) -> None:
        assert isinstance(received.command, UpdateMetadata)
        self.model.controller = received.controller
        self._brokers = {broker.broker: broker.endpoints[0] for broker in received.command.brokers}

    def _lead(self, received: ReceivedCommand) -> None:
        self.model.controller = received.controller
        assert isinstance(received.command, LeaderAndIsr)
        for view in (*received.command.partitions, *received.command.new):
            at = TopicPartition(view.topic, view.partition)
            missing = tuple(replica for replica in view.adding if replica not in view.isr)
            if view.leader != self.settings.broker or not missing:
                self._copying.pop(at, None)
                self._arrived.pop(at, None)
                continue
            self._views[at] = view
            if self._arrived.get(at) == missing:
                self._ask_for(at, missing)  # what was asked for in the former epoch is refused
            elif self._copying.get(at) != missing:
                self._copying[at] = missing
                asyncio.get_running_loop().call_later(self._copy_s, self._copied, at, missing)

    def _copied(self, at: TopicPartition, replicas: Replicas) -> None:
        if self._copying.get(at) == replicas:
            self._arrived[at] = replicas
            self._ask_for(at, replicas)

    def _ask_for(self, at: TopicPartition, replicas: Replicas) -> None:
        view = self._views[at]
        assert view.topic_id is not None
        self._names[view.topic_id] = view.topic
        self._changes[at] = IsrProposal(
            TopicReference(topic_id=view.topic_id),
            view.partition,
            view.leader_epoch,
            view.partition_epoch,
            (*view.isr, *replicas),
        )
        self._stirred.set()


class CopyingBrokers(SimulatedBrokers):
    """Some of them."""

    def __init__(self, zookeeper_connect: str, ids: Sequence[int], copy_s: float) -> None:
        """Nothing runs yet."""
        super().__init__(zookeeper_connect, ids, counts_only=True, session_timeout_s=60.0)
        self._copy_s = copy_s

    def _broker(self, settings: SimulatedSettings, zookeeper: KazooClient) -> CopyingBroker:
        return CopyingBroker(settings.broker, zookeeper, self._copy_s)
