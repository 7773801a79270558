"""What does kafka-python see?"""

from __future__ import annotations

import os
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.net.sasl.oauth import AbstractTokenProvider
from speaking import Plan, perform, read_plan, until


class Token(AbstractTokenProvider):
    """One that is given."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


def security(given: dict[str, str]) -> dict[str, Any]:
    """As kafka-python names it."""
    if not given:
        return {}
    mechanism = given["mechanism"]
    options: dict[str, Any] = {"security_protocol": given["protocol"], "ssl_cafile": given["authority"]}
    if mechanism == "SSL":
        return options | {"ssl_certfile": given["certificate"], "ssl_keyfile": given["key"]}
    options["sasl_mechanism"] = mechanism
    if mechanism == "GSSAPI":
        os.environ.update({"KRB5_CLIENT_KTNAME": given["keytab"], "KRB5CCNAME": "MEMORY:"})
    elif mechanism == "OAUTHBEARER":
        options["sasl_oauth_token_provider"] = Token(given["token"])
    else:
        options |= {"sasl_plain_username": given["user"], "sasl_plain_password": given["password"]}
    return options


class KafkaPython:
    """One admin client for the whole run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._admin: Any = None

    @property
    def admin(self) -> Any:
        if self._admin is None:
            self._admin = KafkaAdminClient(
                bootstrap_servers=self.plan.bootstrap.split(","), **security(self.plan.security)
            )
        return self._admin

    def describe_cluster(self) -> Any:
        cluster = self.admin.describe_cluster()
        nodes = {broker["broker_id"]: f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]}
        controller = cluster["controller_id"]
        return {"nodes": sorted(nodes), "controller": controller, "controller_address": nodes.get(controller, "")}

    def _create(self, what: str, options: dict[str, Any], *, validate_only: bool = False) -> Any:
        self.admin.create_topics({self.plan.named(what): options}, validate_only=validate_only)
        return {"accepted": True}

    def create_topic(self) -> Any:
        return self._create("plain", {"num_partitions": 3, "replication_factor": 2})

    def create_with_configs(self) -> Any:
        configs = {"retention.ms": "3600000", "cleanup.policy": "compact"}
        return self._create("configs", {"num_partitions": 1, "replication_factor": 2, "configs": configs})

    def create_assigned(self) -> Any:
        return self._create("assigned", {"assignments": {0: [1, 2], 1: [2, 3]}})

    def validate_only(self) -> Any:
        return self._create("imagined", {"num_partitions": 1, "replication_factor": 2}, validate_only=True)

    def create_existing(self) -> Any:
        return self._create("plain", {"num_partitions": 3, "replication_factor": 2})

    def create_with_too_many_replicas(self) -> Any:
        return self._create("crowded", {"num_partitions": 1, "replication_factor": 9})

    def _topics(self) -> list[str]:
        return sorted(name for name in self.admin.list_topics() if name.startswith(self.plan.prefix + "-"))

    def list_topics(self) -> Any:
        return until(self._topics, lambda names: len(names) == 5)

    def _partitions(self, what: str) -> list[dict[str, Any]]:
        (topic,) = self.admin.describe_topics([self.plan.named(what)])
        found = [
            {
                "partition": partition["partition_index"],
                "leader": partition["leader_id"],
                "replicas": list(partition["replica_nodes"]),
                "isr": sorted(partition["isr_nodes"]),
            }
            for partition in topic["partitions"]
        ]
        return sorted(found, key=lambda partition: partition["partition"])

    def describe_topic(self) -> Any:
        return {
            self.plan.named(what): until(
                lambda what=what: self._partitions(what), lambda found: found and all(len(p["isr"]) == 2 for p in found)
            )
            for what in ("plain", "assigned")
        }

    def create_partitions(self) -> Any:
        self.admin.create_partitions({self.plan.named("plain"): 5})
        return {"partitions": len(until(lambda: self._partitions("plain"), lambda found: len(found) == 5))}

    def create_fewer_partitions(self) -> Any:
        self.admin.create_partitions({self.plan.named("plain"): 2})
        return {"accepted": True}

    def grow_unknown(self) -> Any:
        self.admin.create_partitions({self.plan.named("unknown"): 5})
        return {"accepted": True}

    def alter_configs(self) -> Any:
        change = {"retention.ms": (AlterConfigOp.SET, "7200000")}
        self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, self.plan.named("configs"), change)])
        return {"accepted": True}

    def describe_configs(self) -> Any:
        topic = self.plan.named("configs")
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)

        def settings() -> Any:
            found = self.admin.describe_configs([resource])["topic"][topic]
            return {name: _setting(found[name]) for name in ("retention.ms", "cleanup.policy")}

        return until(settings, lambda found: found["retention.ms"][0] == "7200000")

    @property
    def _moving(self) -> Any:
        return TopicPartition(self.plan.named("moving"), 0)

    def _reassign(self, replicas: list[int] | None, what: str = "moving") -> Any:
        partition = TopicPartition(self.plan.named(what), 0)
        (error,) = self.admin.alter_partition_reassignments({partition: replicas}).values()
        return {"accepted": True} if error is None else {"error": error.__name__}

    def _moves(self) -> Any:
        return self.admin.list_partition_reassignments({self._moving.topic: [0]}).get(self._moving)

    def reassign(self) -> Any:
        return self._reassign(self.plan.move_to)

    def list_reassignments(self) -> Any:
        return until(self._moves, bool)

    def cancel_reassignment(self) -> Any:
        return {"cancelled": self._reassign(None), "left": until(self._moves, lambda found: not found)}

    def cancel_nothing(self) -> Any:
        return self._reassign(None)

    def reassign_unknown(self) -> Any:
        return self._reassign([1, 2], "unknown")

    def elect_leaders(self) -> Any:
        answer = self.admin.elect_leaders(0, {self.plan.named("electing"): [0]}, raise_errors=False)
        leader = until(lambda: self._partitions("electing")[0]["leader"], lambda leader: leader == 2)
        return {"answer": _election(answer), "leader": leader}

    def elect_again(self) -> Any:
        return _election(self.admin.elect_leaders(0, {self.plan.named("electing"): [0]}, raise_errors=False))

    def elect_unknown(self) -> Any:
        return _election(self.admin.elect_leaders(0, {self.plan.named("unknown"): [0]}, raise_errors=False))

    def produce_consume(self) -> Any:
        topic = self.plan.named("plain")
        producer = KafkaProducer(bootstrap_servers=self.plan.bootstrap.split(","), acks="all")
        for number in range(100):
            producer.send(topic, b"record-%d" % number, partition=number % 3)
        producer.flush()
        producer.close()
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=self.plan.bootstrap.split(","),
            group_id=self.plan.named("group"),
            auto_offset_reset="earliest",
            consumer_timeout_ms=10_000,
        )
        seen = set()
        for record in consumer:
            seen.add(record.value)
            if len(seen) == 100:
                break
        consumer.commit()
        consumer.close()
        return {"consumed": len(seen)}

    def _groups(self) -> list[str]:
        groups = [group["group_id"] if isinstance(group, dict) else group[0] for group in self.admin.list_groups()]
        return sorted(group for group in groups if group.startswith(self.plan.prefix + "-"))

    def list_groups(self) -> Any:
        return until(self._groups, bool)

    def alter_scram(self) -> Any:
        user = UserScramCredentialUpsertion(
            self.plan.named("user"), ScramMechanism.SCRAM_SHA_256, "secret", iterations=4096
        )
        error = self.admin.alter_user_scram_credentials([user])[user.user]
        return {"accepted": True} if error is None else {"error": error}

    def describe_scram(self) -> Any:
        user = self.plan.named("user")
        found = until(
            lambda: self.admin.describe_user_scram_credentials([user])[user], lambda found: found["credential_infos"]
        )
        gone = self.admin.alter_user_scram_credentials(
            [UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)]
        )
        return {
            "error": found["error"],
            "shown": [[int(info["mechanism"]), info["iterations"]] for info in found["credential_infos"]],
            "deleted": gone[user],
        }

    def delete_records(self) -> Any:
        partition = TopicPartition(self.plan.named("plain"), 0)
        answer = self.admin.delete_records({partition: 10})
        return {"low_watermark": answer[partition]["low_watermark"]}

    def delete_topic(self) -> Any:
        self.admin.delete_topics([self.plan.named("configs")])
        return {"left": until(self._topics, lambda names: self.plan.named("configs") not in names)}

    def delete_unknown(self) -> Any:
        self.admin.delete_topics([self.plan.named("unknown")])
        return {"accepted": True}


def _setting(found: Any) -> list[str]:
    return [str(found["value"]), str(found.get("config_source", found.get("source")))]


def _election(answer: Any) -> Any:
    results = (answer if isinstance(answer, dict) else answer.to_dict())["replica_election_results"]
    partitions = [partition for topic in results for partition in topic["partition_result"]]
    return [{key: p.get(key) for key in ("partition_id", "error_code", "error_message")} for p in partitions]


if __name__ == "__main__":
    plan = read_plan()
    client = KafkaPython(plan)
    perform(plan, {name: getattr(client, name) for name in plan.operations if hasattr(client, name)})
