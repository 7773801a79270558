"""What does confluent-kafka, and with it librdkafka, see?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition, admin
from speaking import Operation, Plan, Refused, perform, read_plan, until

_REQUEST_S = 15.0


def security(given: dict[str, str]) -> dict[str, Any]:
    """As librdkafka names it."""
    if not given:
        return {}
    mechanism = given["mechanism"]
    options: dict[str, Any] = {"security.protocol": given["protocol"].lower(), "ssl.ca.location": given["authority"]}
    if mechanism == "SSL":
        return options | {"ssl.certificate.location": given["certificate"], "ssl.key.location": given["key"]}
    options["sasl.mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        options["oauth_cb"] = lambda _: (given["token"], time.time() + 600)
    elif mechanism == "GSSAPI":
        options |= {"sasl.kerberos.keytab": given["keytab"], "sasl.kerberos.principal": given["user"]}
    else:
        options |= {"sasl.username": given["user"], "sasl.password": given["password"]}
    return options


class Confluent:
    """One admin client for the whole run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.admin = admin.AdminClient({"bootstrap.servers": plan.bootstrap, "log_level": 0, **security(plan.security)})
        if plan.security.get("mechanism") == "OAUTHBEARER":
            self.admin.poll(0)  # which asks for the token

    def describe_cluster(self) -> Any:
        cluster = self.admin.describe_cluster(request_timeout=_REQUEST_S).result()
        nodes = sorted(node.id for node in cluster.nodes)
        controller = cluster.controller
        if controller is None:
            return {"nodes": nodes, "controller": -1}
        address = f"{controller.host}:{controller.port}"
        return {"nodes": nodes, "controller": controller.id, "controller_address": address}

    def _create(self, what: str, *, validate_only: bool = False, **options: Any) -> Any:
        topic = admin.NewTopic(self.plan.named(what), **options)
        _only(self.admin.create_topics([topic], validate_only=validate_only, request_timeout=_REQUEST_S))
        return {"accepted": True}

    def create_topic(self) -> Any:
        return self._create("plain", num_partitions=3, replication_factor=2)

    def create_with_configs(self) -> Any:
        config = {"retention.ms": "3600000", "cleanup.policy": "compact"}
        return self._create("configs", num_partitions=1, replication_factor=2, config=config)

    def create_assigned(self) -> Any:
        return self._create("assigned", num_partitions=2, replica_assignment=[[1, 2], [2, 3]])

    def validate_only(self) -> Any:
        return self._create("imagined", num_partitions=1, replication_factor=2, validate_only=True)

    def create_existing(self) -> Any:
        return self._create("plain", num_partitions=3, replication_factor=2)

    def create_with_too_many_replicas(self) -> Any:
        return self._create("crowded", num_partitions=1, replication_factor=9)

    def _topics(self) -> list[str]:
        names = self.admin.list_topics(timeout=_REQUEST_S).topics
        return sorted(name for name in names if name.startswith(self.plan.prefix + "-"))

    def list_topics(self) -> Any:
        return until(self._topics, lambda names: len(names) == 5)

    def _partitions(self, what: str) -> list[dict[str, Any]]:
        name = self.plan.named(what)
        topic = self.admin.list_topics(name, timeout=_REQUEST_S).topics[name]
        return [
            {
                "partition": number,
                "leader": partition.leader,
                "replicas": list(partition.replicas),
                "isr": sorted(partition.isrs),
            }
            for number, partition in sorted(topic.partitions.items())
        ]

    def describe_topic(self) -> Any:
        return {
            self.plan.named(what): until(
                lambda what=what: self._partitions(what), lambda found: found and all(len(p["isr"]) == 2 for p in found)
            )
            for what in ("plain", "assigned")
        }

    def create_partitions(self) -> Any:
        _only(self.admin.create_partitions([admin.NewPartitions(self.plan.named("plain"), 5)]))
        return {"partitions": len(until(lambda: self._partitions("plain"), lambda found: len(found) == 5))}

    def create_fewer_partitions(self) -> Any:
        _only(self.admin.create_partitions([admin.NewPartitions(self.plan.named("plain"), 2)]))
        return {"accepted": True}

    def grow_unknown(self) -> Any:
        _only(self.admin.create_partitions([admin.NewPartitions(self.plan.named("unknown"), 5)]))
        return {"accepted": True}

    def alter_configs(self) -> Any:
        change = admin.ConfigEntry("retention.ms", "7200000", incremental_operation=admin.AlterConfigOpType.SET)
        resource = admin.ConfigResource(
            admin.ResourceType.TOPIC, self.plan.named("configs"), incremental_configs=[change]
        )
        _only(self.admin.incremental_alter_configs([resource]))
        return {"accepted": True}

    def describe_configs(self) -> Any:
        resource = admin.ConfigResource(admin.ResourceType.TOPIC, self.plan.named("configs"))

        def settings() -> Any:
            found = _only(self.admin.describe_configs([resource]))
            return {
                name: [found[name].value, admin.ConfigSource(found[name].source).name]
                for name in ("retention.ms", "cleanup.policy")
            }

        return until(settings, lambda found: found["retention.ms"][0] == "7200000")

    def elect_leaders(self) -> Any:
        answer = self.elect_again()
        leader = until(lambda: self._partitions("electing")[0]["leader"], lambda leader: leader == 2)
        return {"answer": answer, "leader": leader}

    def elect_again(self) -> Any:
        return self._elect("electing")

    def elect_unknown(self) -> Any:
        return self._elect("unknown")

    def _elect(self, what: str) -> Any:
        partition = TopicPartition(self.plan.named(what), 0)
        answer = self.admin.elect_leaders(confluent_kafka.ElectionType.PREFERRED, [partition]).result()
        return [None if error is None else [error.name(), error.str()] for error in answer.values()]

    def produce_consume(self) -> Any:
        topic = self.plan.named("plain")
        producer = Producer({"bootstrap.servers": self.plan.bootstrap, "log_level": 0})
        for number in range(100):
            producer.produce(topic, b"record-%d" % number, partition=number % 3)
        producer.flush(10)
        consumer = Consumer(
            {
                "bootstrap.servers": self.plan.bootstrap,
                "group.id": self.plan.named("group"),
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        consumer.subscribe([topic])
        seen = set()
        deadline = time.monotonic() + 10
        while len(seen) < 100 and time.monotonic() < deadline:
            record = consumer.poll(0.5)
            if record is not None and record.error() is None:
                seen.add(record.value())
        consumer.commit(asynchronous=False)
        consumer.close()
        return {"consumed": len(seen)}

    def _groups(self) -> list[str]:
        found = self.admin.list_consumer_groups(request_timeout=_REQUEST_S).result()
        if found.errors:
            raise Refused("not every node answered", "; ".join(str(error) for error in found.errors))
        return sorted(group.group_id for group in found.valid if group.group_id.startswith(self.plan.prefix + "-"))

    def list_groups(self) -> Any:
        return until(self._groups, bool)

    def alter_scram(self) -> Any:
        info = admin.ScramCredentialInfo(admin.ScramMechanism.SCRAM_SHA_256, 4096)
        user = admin.UserScramCredentialUpsertion(self.plan.named("user"), info, b"secret")
        _only(self.admin.alter_user_scram_credentials([user]))
        return {"accepted": True}

    def describe_scram(self) -> Any:
        user = self.plan.named("user")
        found = until(lambda: _only(self.admin.describe_user_scram_credentials([user])), bool)
        _only(
            self.admin.alter_user_scram_credentials(
                [admin.UserScramCredentialDeletion(user, admin.ScramMechanism.SCRAM_SHA_256)]
            )
        )
        return {"shown": [[info.mechanism.name, info.iterations] for info in found.scram_credential_infos]}

    def delete_records(self) -> Any:
        answer = self.admin.delete_records([TopicPartition(self.plan.named("plain"), 0, 10)])
        return {"low_watermark": _only(answer).low_watermark}

    def delete_topic(self) -> Any:
        _only(self.admin.delete_topics([self.plan.named("configs")]))
        return {"left": until(self._topics, lambda names: self.plan.named("configs") not in names)}

    def delete_unknown(self) -> Any:
        _only(self.admin.delete_topics([self.plan.named("unknown")]))
        return {"accepted": True}


def _only(futures: Any) -> Any:
    """The one result.

    Raises:
        Refused: the cluster, or the library, says no.
    """
    (future,) = futures.values()
    try:
        return future.result()
    except KafkaException as error:
        refusal = error.args[0]
        raise Refused(refusal.name(), refusal.str()) from error


def operations(client: Confluent) -> Mapping[str, Operation]:
    """Those that this version of the library has."""
    elections = dict.fromkeys(("elect_leaders", "elect_again", "elect_unknown"), "elect_leaders")
    needs = {**elections, "delete_records": "delete_records"}
    return {
        name: getattr(client, name)
        for name in client.plan.operations
        if hasattr(client, name) and (name not in needs or hasattr(client.admin, needs[name]))
    }


if __name__ == "__main__":
    plan = read_plan()
    perform(plan, operations(Confluent(plan)))
