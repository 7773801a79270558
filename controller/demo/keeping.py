"""How does one use, and end, a cluster that the demo left running?"""

from __future__ import annotations

import shlex
from pathlib import Path

from controller.demo.pair import Pair
from controller.lab.cluster import LocalCluster
from controller.lab.process import Process

_TOOLS = ("kafka-reassign-partitions", "kafka-topics", "kafka-configs")


def explain(cluster: LocalCluster, pair: Pair, topic: str) -> str:
    """Write scripts for the tools and for the end, restart a killed replica, and return the instructions."""
    for replica in pair.members:
        if not replica.process.is_alive:
            replica.process.start()
    folder = cluster.directory / "bin"
    folder.mkdir(exist_ok=True)
    for tool in _TOOLS:
        _script(folder / tool, f'exec {shlex.join(cluster.tools.argv(tool))} "$@"')
    stop = cluster.directory / "stop"
    _script(stop, _ending(cluster, pair))
    lines = [
        "",
        f"The cluster stays up, in {cluster.directory}",
        f"  ZooKeeper          {cluster.zookeeper_connect}",
        f"  bootstrap servers  {cluster.bootstrap_servers}",
        *(f"  controller {r.replica_id}     {r.url}/leader  /metrics   {r.config_file}" for r in pair.members),
        "",
        "Try:",
        *(f"  kafka-zk-controller status --url {r.url}" for r in pair.members[:1]),
        f"  {folder}/kafka-topics --bootstrap-server {cluster.bootstrap_servers} --describe --topic {topic}",
        f"  {folder}/kafka-reassign-partitions --bootstrap-server {cluster.bootstrap_servers} --list",
        *(f"  kill -9 {r.process.pid}   # controller {r.replica_id}: the other takes over" for r in pair.members),
        *(f"  kafka-zk-controller run --config {r.config_file}   # back again" for r in pair.members[:1]),
        "",
        f"Stop it:  {stop}",
        "",
    ]
    return "\n".join(lines)


def _ending(cluster: LocalCluster, pair: Pair) -> str:
    replicas = [replica.process for replica in pair.members]
    servers = [*(broker.process for broker in cluster.brokers.values()), cluster.zookeeper.process]
    lines = [
        "# Each number is a process group that the demo started; those that have ended are skipped.",
        f"for group in {_groups(replicas)}; do kill -TERM -- -$group 2>/dev/null; done",
        "sleep 2",
        f"for group in {_groups([*replicas, *servers])}; do kill -KILL -- -$group 2>/dev/null; done",
        f"rm -rf {shlex.quote(str(cluster.directory))}",
    ]
    return "\n".join(lines)


def _groups(processes: list[Process]) -> str:
    return " ".join(str(process.pid) for process in processes)


def _script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
