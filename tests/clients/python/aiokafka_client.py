"""What does aiokafka see?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from speaking import Operation, Plan, Refused, perform, read_plan, until


class Aiokafka:
    """One admin client for the whole run, in an event loop of its own."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self._admin: Any = None

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(self.plan.timeout_s)

    async def admin(self) -> Any:
        if self._admin is None:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.plan.bootstrap.split(","))
            await admin.start()
            self._admin = admin
        return self._admin

    async def describe_cluster(self) -> Any:
        cluster = await (await self.admin()).describe_cluster()
        nodes = {broker["node_id"]: f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]}
        controller = cluster["controller_id"]
        return {"nodes": sorted(nodes), "controller": controller, "controller_address": nodes.get(controller, "")}

    async def _create(self, what: str, *, validate_only: bool = False, **options: Any) -> Any:
        topic = NewTopic(self.plan.named(what), **options)
        answer = await (await self.admin()).create_topics([topic], validate_only=validate_only)
        return _accepted(answer.topic_errors)

    async def create_topic(self) -> Any:
        return await self._create("plain", num_partitions=3, replication_factor=2)

    async def create_with_configs(self) -> Any:
        configs = {"retention.ms": "3600000", "cleanup.policy": "compact"}
        return await self._create("configs", num_partitions=1, replication_factor=2, topic_configs=configs)

    async def create_assigned(self) -> Any:
        assignments = {0: [1, 2], 1: [2, 3]}
        return await self._create("assigned", num_partitions=-1, replication_factor=-1, replica_assignments=assignments)

    async def validate_only(self) -> Any:
        return await self._create("imagined", num_partitions=1, replication_factor=2, validate_only=True)

    async def create_existing(self) -> Any:
        return await self._create("plain", num_partitions=3, replication_factor=2)

    async def create_with_too_many_replicas(self) -> Any:
        return await self._create("crowded", num_partitions=1, replication_factor=9)

    async def _topics(self) -> list[str]:
        names = await (await self.admin()).list_topics()
        return sorted(name for name in names if name.startswith(self.plan.prefix + "-"))

    def list_topics(self) -> Any:
        return until(lambda: self.wait(self._topics()), lambda names: len(names) == 5)

    async def _partitions(self, what: str) -> list[dict[str, Any]]:
        (topic,) = await (await self.admin()).describe_topics([self.plan.named(what)])
        found = [
            {key: partition[key] for key in ("partition", "leader", "replicas")} | {"isr": sorted(partition["isr"])}
            for partition in topic["partitions"]
        ]
        return sorted(found, key=lambda partition: partition["partition"])

    def describe_topic(self) -> Any:
        return {
            self.plan.named(what): until(
                lambda what=what: self.wait(self._partitions(what)),
                lambda found: found and all(len(p["isr"]) == 2 for p in found),
            )
            for what in ("plain", "assigned")
        }

    async def _grow(self, count: int, what: str = "plain") -> Any:
        answer = await (await self.admin()).create_partitions({self.plan.named(what): NewPartitions(count)})
        return _accepted(answer.topic_errors)

    def create_partitions(self) -> Any:
        self.wait(self._grow(5))
        found = until(lambda: self.wait(self._partitions("plain")), lambda found: len(found) == 5)
        return {"partitions": len(found)}

    async def create_fewer_partitions(self) -> Any:
        return await self._grow(2)

    async def grow_unknown(self) -> Any:
        return await self._grow(5, "unknown")

    async def alter_configs(self) -> Any:
        """This client cannot change one setting and keep another: it sends both."""
        configs = {"retention.ms": "7200000", "cleanup.policy": "compact"}
        resource = ConfigResource(ConfigResourceType.TOPIC, self.plan.named("configs"), configs)
        (answer,) = await (await self.admin()).alter_configs([resource])
        ((code, message, *_),) = answer.resources
        return _accepted([("", code, message)])

    async def _settings(self) -> Any:
        resource = ConfigResource(ConfigResourceType.TOPIC, self.plan.named("configs"))
        (answer,) = await (await self.admin()).describe_configs([resource])
        (found,) = answer.resources
        settings = {entry[0]: [entry[1], entry[3]] for entry in found[4]}
        return {name: settings[name] for name in ("retention.ms", "cleanup.policy")}

    def describe_configs(self) -> Any:
        return until(lambda: self.wait(self._settings()), lambda found: found["retention.ms"][0] == "7200000")

    async def _produce_consume(self) -> Any:
        topic, servers = self.plan.named("plain"), self.plan.bootstrap.split(",")
        producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all")
        await producer.start()
        for number in range(100):
            await producer.send_and_wait(topic, b"record-%d" % number, partition=number % 3)
        await producer.stop()
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=servers, group_id=self.plan.named("group"), auto_offset_reset="earliest"
        )
        await consumer.start()
        seen = set()
        async with asyncio.timeout(10):
            while len(seen) < 100:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    seen.update(record.value for record in records)
        await consumer.commit()
        await consumer.stop()
        return {"consumed": len(seen)}

    def produce_consume(self) -> Any:
        return self.wait(self._produce_consume())

    async def _groups(self) -> list[str]:
        groups = await (await self.admin()).list_consumer_groups()
        return sorted(group for group, *_ in groups if group.startswith(self.plan.prefix + "-"))

    def list_groups(self) -> Any:
        return until(lambda: self.wait(self._groups()), bool)

    async def delete_records(self) -> Any:
        partition = TopicPartition(self.plan.named("plain"), 0)
        answer = await (await self.admin()).delete_records({partition: RecordsToDelete(10)})
        return {"low_watermark": answer[partition]}

    async def _delete(self, what: str) -> Any:
        answer = await (await self.admin()).delete_topics([self.plan.named(what)])
        return _accepted(answer.topic_error_codes)

    def delete_topic(self) -> Any:
        self.wait(self._delete("configs"))
        gone = self.plan.named("configs")
        return {"left": until(lambda: self.wait(self._topics()), lambda names: gone not in names)}

    async def delete_unknown(self) -> Any:
        return await self._delete("unknown")


def _accepted(outcomes: Any) -> Any:
    """What a client's user finds in the answer: a code, and a text where its version has one."""
    ((_, code, *rest),) = outcomes
    if code:
        raise Refused(errors.for_code(code).__name__, str(rest[0]) if rest else "")
    return {"accepted": True}


def operation(client: Aiokafka, name: str) -> Operation:
    """A method, which may be a coroutine."""

    def run() -> Any:
        returned = getattr(client, name)()
        return client.wait(returned) if asyncio.iscoroutine(returned) else returned

    return run


if __name__ == "__main__":
    plan = read_plan()
    client = Aiokafka(plan)
    perform(plan, {name: operation(client, name) for name in plan.operations if hasattr(client, name)})
