"""Idempotent producers, which is what Java producers are unless told otherwise, get their ids while we are controller.

Brokers keep a block of 1000 ids each and ask the controller for the next one when it is used up, or after a restart.
"""

from __future__ import annotations

import itertools
import json
import re
import struct
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import ProducerIdsAllocated
from controller.core.messages.requests import AllocateProducerIds
from controller.lab.asking import ask_raw
from controller.lab.cluster import LocalCluster
from controller.wire.frames import framed
from tests.cluster.replica import Replica, wait_until
from zk_layout.ids import BrokerEpoch, BrokerId

BLOCK = "/latest_producer_id_block"
MORE_THAN_A_BLOCK = 1_100
LOADING = 14  # COORDINATOR_LOAD_IN_PROGRESS: the next block is on its way


def last_id(zk: KazooClient) -> int:
    """The highest id handed out to any broker; -1 where none was."""
    data = zk.get(BLOCK)[0]
    return int(json.loads(data)["block_end"]) if data else -1


def produce(cluster: LocalCluster, topic: str, record: str) -> None:
    """By Kafka's own console producer, with its defaults."""
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    result = cluster.tools.run("kafka-console-producer", *servers, "--topic", topic, stdin=record + "\n")
    assert result.exit_code == 0, result.output
    assert "ERROR" not in result.output, result.output


def producer_ids_in(cluster: LocalCluster, topic: str, broker: int) -> list[int]:
    """Who wrote the batches of partition 0, as the broker's log on disk says."""
    (segment,) = cluster.brokers[broker].log_dir.glob(f"{topic}-0/*.log")
    dump = cluster.tools.run("kafka-dump-log", "--files", str(segment))
    return [int(found) for found in re.findall(r"producerId: (-?\d+)", dump.output)]


def ask_for_producer_ids(port: int, count: int) -> list[int]:
    """InitProducerId (22), version 1, without a transactional id, until so many ids were given."""
    request = framed(struct.pack(">hhihhi", 22, 1, 7, -1, -1, 60_000))
    ids: list[int] = []

    def all_are_given() -> bool:
        for answer in ask_raw(f"127.0.0.1:{port}", *[request] * (count - len(ids))):
            _, _, error, producer_id, _ = struct.unpack(">iihqh", answer)
            assert error in (0, LOADING)
            if error == 0:
                ids.append(producer_id)
        return len(ids) == count

    wait_until(all_are_given, f"the broker at port {port} had given {count} ids")
    return ids


@pytest.mark.timeout(240)
def test_a_java_producer_works_after_every_broker_was_restarted(
    cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    topic = "written-idempotently"
    zk.create(f"/brokers/topics/{topic}", b'{"version":1,"partitions":{"0":[1]}}')
    produce(cluster_3_9, topic, "while a broker rules")
    with Replica(cluster_3_9.zookeeper_connect, tmp_path) as leader:
        leader.await_phase("active")
        before = last_id(zk)
        for broker in cluster_3_9.brokers:
            cluster_3_9.brokers[broker].restart()

        produce(cluster_3_9, topic, "while we rule")

        after = last_id(zk)
        assert after > before
        assert json.loads(zk.get(BLOCK)[0])["broker"] in cluster_3_9.brokers
        native, ours = producer_ids_in(cluster_3_9, topic, broker=1)
        assert 0 <= native <= before < ours <= after


@pytest.mark.timeout(240)
def test_no_id_is_given_twice_while_blocks_are_used_up_and_controllers_change(
    cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    ports = [broker.port for broker in cluster_3_9.brokers.values()]
    ends = [last_id(zk)]
    ids: list[int] = []

    def use_up_a_block_of(broker: int) -> None:
        ids.extend(ask_for_producer_ids(ports[broker], MORE_THAN_A_BLOCK))
        ends.append(last_id(zk))

    use_up_a_block_of(0)
    with (
        Replica(cluster_3_9.zookeeper_connect, tmp_path, 901) as first,
        Replica(cluster_3_9.zookeeper_connect, tmp_path, 902) as second,
    ):
        wait_until(lambda: "active" in (first.phase, second.phase), "one of them led")
        leader, other = (first, second) if first.phase == "active" else (second, first)
        use_up_a_block_of(0)
        use_up_a_block_of(1)
        leader.process.kill()
        other.await_phase("active")
        use_up_a_block_of(1)
        other.process.stop()
    use_up_a_block_of(1)

    assert len(set(ids)) == len(ids) == 5 * MORE_THAN_A_BLOCK
    assert all(before + 1000 <= after for before, after in itertools.pairwise(ends))
    assert max(ids) <= ends[-1]


def test_a_broker_of_another_life_gets_none(cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path) -> None:
    with Replica(cluster_3_9.zookeeper_connect, tmp_path) as leader:
        leader.await_phase("active")
        before = zk.get(BLOCK)

        former = leader.ask(AllocateProducerIds(BrokerId(1), BrokerEpoch(1)))
        stranger = leader.ask(AllocateProducerIds(BrokerId(77), BrokerEpoch(1)))

        assert former == ProducerIdsAllocated(error=ErrorCode.STALE_BROKER_EPOCH)
        assert stranger == ProducerIdsAllocated(error=ErrorCode.BROKER_ID_NOT_REGISTERED)
        assert zk.get(BLOCK) == before
