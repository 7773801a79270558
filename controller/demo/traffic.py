"""Which records did the brokers acknowledge, and are they all there?"""

from __future__ import annotations

import itertools
import random
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Self

from msgspec import Struct

from controller.demo.clients import KafkaConsumer, KafkaError, KafkaProducer, TopicPartition

_NUMBER = struct.Struct(">Q")
_PAUSE_S = 0.02
_SETTLE_WITHIN_S = 60.0
_READ_WITHIN_S = 90.0
# A consumer may take this long to find a partition's new leader.
_LAST_RECORD_WITHIN_S = 30.0


class TrafficSettings(Struct, frozen=True):
    """How much is produced during the demo, and whether brokers recognize what is sent twice.

    Units:
        `rate` is records a second, over all partitions.
    """

    rate: int = 200
    size_bytes: int = 200
    is_idempotent: bool = False


class Traffic:
    """Numbered records, produced with acks=all and consumed throughout; keeps the number of each acknowledged one.

    None may be missing. Unless the producer is idempotent, a record may exist twice.
    """

    def __init__(
        self, bootstrap_servers: str, topic: str, partitions: int, settings: TrafficSettings | None = None
    ) -> None:
        self._settings = settings or TrafficSettings()
        self._bootstrap_servers = bootstrap_servers.split(",")
        self._topic = topic
        self._partitions = [TopicPartition(topic, p) for p in range(partitions)]
        self._numbers = itertools.count()
        self._end = threading.Event()
        self._all_sent = threading.Event()
        self._threads: list[threading.Thread] = []
        self.acknowledged: set[int] = set()
        self.refused: dict[int, str] = {}
        self.consumed: set[int] = set()
        self.longest_silence_s = 0.0
        self.trouble: str | None = None

    def fill(self, sizes_bytes: Mapping[int, int], record_bytes: int = 16_000) -> None:
        """Write this much into each partition, and wait until it is acknowledged."""
        payload = random.randbytes(record_bytes - _NUMBER.size)
        todo = {p: max(1, size // record_bytes) for p, size in sizes_bytes.items()}
        with self._producer(linger_ms=20, batch_size=256 * 1024) as producer:
            for turn in range(max(todo.values())):
                for partition, count in todo.items():
                    if turn < count:
                        self._send(producer, partition, payload)
            producer.flush(timeout=_SETTLE_WITHIN_S)

    def start(self) -> None:
        """Start producing and consuming."""
        for name, work in (("producer", self._keep_producing), ("consumer", self._keep_consuming)):
            thread = threading.Thread(target=self._guarded, args=(name, work), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Stop producing, and wait until the last record is acknowledged and consumed."""
        self._end.set()
        for thread in self._threads:
            thread.join(_SETTLE_WITHIN_S)
            if thread.is_alive():
                self.trouble = self.trouble or f"the {thread.name} does not end"

    def read_all(self) -> set[int]:
        """The numbers of all records that a new consumer finds in the topic."""
        found: set[int] = set()
        with self._consumer() as consumer:
            consumer.assign(self._partitions)
            consumer.seek_to_beginning(*self._partitions)
            ends = consumer.end_offsets(self._partitions)
            deadline = time.monotonic() + _READ_WITHIN_S
            while any(consumer.position(tp) < end for tp, end in ends.items()):
                if time.monotonic() > deadline:
                    break
                found.update(_numbers_in(consumer.poll(timeout_ms=500, max_records=5000)))
        return found

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _guarded(self, name: str, work: Any) -> None:
        try:
            work()
        except Exception as error:
            self.trouble = f"the {name} ended: {type(error).__name__}: {error}"

    def _keep_producing(self) -> None:
        try:
            self._produce_until_the_end()
        finally:
            self._all_sent.set()

    def _produce_until_the_end(self) -> None:
        payload = random.randbytes(self._settings.size_bytes - _NUMBER.size)
        in_turn = itertools.cycle(tp.partition for tp in self._partitions)
        started, sent = time.monotonic(), 0
        with self._producer(linger_ms=5) as producer:
            while not self._end.wait(_PAUSE_S):
                due = int((time.monotonic() - started) * self._settings.rate)
                for partition in itertools.islice(in_turn, max(0, due - sent)):
                    self._send(producer, partition, payload)
                sent = max(sent, due)
            producer.flush(timeout=_SETTLE_WITHIN_S)

    def _send(self, producer: Any, partition: int, payload: bytes) -> None:
        number = next(self._numbers)
        future = producer.send(self._topic, _NUMBER.pack(number) + payload, partition=partition)
        future.add_callback(partial(self._was_acknowledged, number))
        future.add_errback(partial(self._was_refused, number))

    def _was_acknowledged(self, number: int, _: object) -> None:
        self.acknowledged.add(number)

    def _was_refused(self, number: int, error: object) -> None:
        self.refused[number] = repr(error)

    def _keep_consuming(self) -> None:
        with self._consumer() as consumer:
            consumer.assign(self._partitions)
            consumer.seek_to_beginning(*self._partitions)
            heard = time.monotonic()
            while not self._is_all_consumed(time.monotonic() - heard):
                numbers = list(_numbers_in(consumer.poll(timeout_ms=200, max_records=5000)))
                now = time.monotonic()
                if numbers:
                    self.longest_silence_s = max(self.longest_silence_s, now - heard)
                    self.consumed.update(numbers)
                    heard = now

    def _is_all_consumed(self, silent_s: float) -> bool:
        """Whether no more records come, and each acknowledged one was consumed or waited for in vain."""
        if not self._all_sent.is_set():
            return False
        return silent_s > (1.0 if self.acknowledged <= self.consumed else _LAST_RECORD_WITHIN_S)

    def _producer(self, **settings: object) -> _Closing:
        return _Closing(
            KafkaProducer(
                bootstrap_servers=self._bootstrap_servers,
                acks="all",
                enable_idempotence=self._settings.is_idempotent,
                delivery_timeout_ms=90_000,
                request_timeout_ms=10_000,
                metadata_max_age_ms=5_000,
                **settings,
            )
        )

    def _consumer(self) -> _Closing:
        return _Closing(
            KafkaConsumer(
                bootstrap_servers=self._bootstrap_servers,
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                metadata_max_age_ms=5_000,
            )
        )


class _Closing:
    """Closes a client quietly at the end: brokers may be gone by then."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __enter__(self) -> Any:
        return self._client

    def __exit__(self, *_: object) -> None:
        with suppress(KafkaError, OSError):
            self._client.close()


def _numbers_in(polled: Mapping[TopicPartition, Iterable[Any]]) -> Iterator[int]:
    for records in polled.values():
        for record in records:
            yield _NUMBER.unpack_from(record.value)[0]
