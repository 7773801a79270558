"""Who writes and reads all the while, and what do they remember?"""

from __future__ import annotations

import itertools
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Struct

from controller.demo.clients import KafkaConsumer, KafkaError, KafkaProducer, TopicPartition
from tests.chaos.ledger import Judgement, Ledger, Partition
from tests.chaos.silences import Silences

_RECORD = struct.Struct(">IQ")
_PADDING = bytes(88)
_PAUSE_S = 0.01
_DELIVERED_WITHIN_MS = 120_000
# Below the sessions' time-out, so that what is measured is the cluster and not the patience of a client.
_ANSWERED_WITHIN_MS = 5_000
_READ_WITHIN_S = 300.0
_ENDS_WITHIN_S = 150.0


class LoadSettings(Struct, frozen=True):
    """How much is written.

    Units:
        `rate` is records a second over all partitions of both topics.
    """

    rate: int = 200
    partitions: int = 6
    plain_topic: str = "chaos-plain"
    idempotent_topic: str = "chaos-idempotent"


class Load:
    """Two producers with acks=all, one of them idempotent, a topic each, and a consumer of both."""

    def __init__(self, bootstrap_servers: Sequence[str], settings: LoadSettings) -> None:
        self.settings = settings
        self._bootstrap_servers = list(bootstrap_servers)
        self.partitions: tuple[Partition, ...] = tuple(
            (topic, p)
            for topic in (settings.plain_topic, settings.idempotent_topic)
            for p in range(settings.partitions)
        )
        self._ledgers = {partition: Ledger() for partition in self.partitions}
        self.silences = {partition: Silences(time.monotonic()) for partition in self.partitions}
        self.began = time.monotonic()
        self._producers = itertools.count()
        self._idempotent: set[int] = set()
        self._end = threading.Event()
        self._has_all = threading.Event()
        self._threads: list[threading.Thread] = []
        self.trouble: list[str] = []

    @property
    def acknowledged(self) -> int:
        """How many records were acknowledged so far."""
        return sum(ledger.acknowledged for ledger in self._ledgers.values())

    def start(self) -> None:
        """Write and read from now on."""
        self.began = time.monotonic()
        self.silences = {partition: Silences(self.began) for partition in self.partitions}
        work: dict[str, Callable[[], None]] = {
            "plain producer": partial(self._keep_producing, self.settings.plain_topic, is_idempotent=False),
            "idempotent producer": partial(self._keep_producing, self.settings.idempotent_topic, is_idempotent=True),
            "consumer": self._keep_consuming,
        }
        for name, what in work.items():
            thread = threading.Thread(target=self._guarded, args=(name, what), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Write no more; wait until every record is acknowledged or given up, and the consumer has read to the end."""
        self._end.set()
        *producers, consumer = self._threads
        for thread in producers:
            thread.join(_ENDS_WITHIN_S)
        self._has_all.set()
        consumer.join(_ENDS_WITHIN_S)
        self.trouble += [f"the {thread.name} does not end" for thread in self._threads if thread.is_alive()]

    def judge(self) -> Judgement:
        """Read everything once more, and compare."""
        try:
            logs = self._read_all()
        except (KafkaError, OSError) as error:
            self.trouble.append(f"what was written cannot be read: {error}")
            return Judgement(self.acknowledged)
        judgements = (ledger.judge(logs[p], frozenset(self._idempotent)) for p, ledger in self._ledgers.items())
        return sum(judgements, Judgement())

    def _guarded(self, name: str, work: Callable[[], None]) -> None:
        while True:
            try:
                work()
            except (KafkaError, OSError):
                if self._end.wait(1.0):
                    return
            except Exception as error:
                self.trouble.append(f"the {name} ended: {type(error).__name__}: {error}")
                return
            else:
                return

    def _keep_producing(self, topic: str, *, is_idempotent: bool) -> None:
        """One producer after the other: one that has failed for good is replaced."""
        while not self._end.is_set():
            number = next(self._producers)
            if is_idempotent:
                self._idempotent.add(number)
            producer = KafkaProducer(
                bootstrap_servers=self._bootstrap_servers,
                acks="all",
                enable_idempotence=is_idempotent,
                # Without sequence numbers only one batch at a time keeps the order.
                max_in_flight_requests_per_connection=5 if is_idempotent else 1,
                delivery_timeout_ms=_DELIVERED_WITHIN_MS,
                request_timeout_ms=_ANSWERED_WITHIN_MS,
                metadata_max_age_ms=5_000,
                reconnect_backoff_max_ms=1_000,
                linger_ms=5,
            )
            try:
                self._produce(producer, number, topic)
            finally:
                with suppress(KafkaError, OSError):
                    producer.close(timeout=5)

    def _produce(self, producer: Any, number: int, topic: str) -> None:
        failed = threading.Event()
        in_turn = itertools.cycle(range(self.settings.partitions))
        began, sent = time.monotonic(), 0
        while not (self._end.wait(_PAUSE_S) or failed.is_set()):
            due = int((time.monotonic() - began) * self.settings.rate / 2)
            for partition in itertools.islice(in_turn, due - sent):
                self._send(producer, (number, sent), (topic, partition), failed)
                sent += 1
        with suppress(KafkaError):
            producer.flush(timeout=_DELIVERED_WITHIN_MS / 1000 if self._end.is_set() else 10)

    def _send(self, producer: Any, record: tuple[int, int], partition: Partition, failed: threading.Event) -> None:
        try:
            future = producer.send(partition[0], _RECORD.pack(*record) + _PADDING, partition=partition[1])
        except ValueError:  # kafka-python does not wait for a partition that is missing from what a broker lists
            self._ledgers[partition].withhold()
            return
        future.add_callback(partial(self._was_acknowledged, record, partition))
        future.add_errback(partial(self._was_refused, partition, failed))

    def _was_acknowledged(self, record: tuple[int, int], partition: Partition, metadata: Any) -> None:
        now = time.monotonic()
        self._ledgers[partition].acknowledge(*record, metadata.offset, now - self.began)
        self.silences[partition].acknowledge(now)

    def _was_refused(self, partition: Partition, failed: threading.Event, _: object) -> None:
        self._ledgers[partition].refuse()
        failed.set()

    def _keep_consuming(self) -> None:
        consumer = self._consumer()
        partitions = [TopicPartition(topic, p) for topic, p in self.partitions]
        try:
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            heard = time.monotonic()
            while not (self._has_all.is_set() and time.monotonic() - heard > 3):
                for partition, offset, record in _records(consumer.poll(timeout_ms=200, max_records=2000)):
                    self._ledgers[partition].consume(offset, *record)
                    heard = time.monotonic()
        finally:
            with suppress(KafkaError, OSError):
                consumer.close()

    def _read_all(self) -> dict[Partition, dict[int, tuple[int, int]]]:
        logs: dict[Partition, dict[int, tuple[int, int]]] = {partition: {} for partition in self.partitions}
        consumer = self._consumer()
        partitions = [TopicPartition(topic, p) for topic, p in self.partitions]
        try:
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            ends = consumer.end_offsets(partitions)
            deadline = time.monotonic() + _READ_WITHIN_S
            while any(consumer.position(tp) < end for tp, end in ends.items()):
                if time.monotonic() > deadline:
                    self.trouble.append("not all partitions can be read to their end")
                    break
                for partition, offset, record in _records(consumer.poll(timeout_ms=500, max_records=10_000)):
                    logs[partition][offset] = record
        finally:
            with suppress(KafkaError, OSError):
                consumer.close()
        return logs

    def _consumer(self) -> Any:
        return KafkaConsumer(
            bootstrap_servers=self._bootstrap_servers,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            request_timeout_ms=_ANSWERED_WITHIN_MS,
            metadata_max_age_ms=5_000,
            reconnect_backoff_max_ms=1_000,
        )


def _records(polled: Mapping[Any, Sequence[Any]]) -> list[tuple[Partition, int, tuple[int, int]]]:
    return [
        ((tp.topic, tp.partition), record.offset, _RECORD.unpack_from(record.value))
        for tp, records in polled.items()
        for record in records
    ]
