"""What must a migration to KRaft keep, and did it? Topics, settings, quotas, users, rights and tokens of a cluster."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from controller.lab.cluster import LocalCluster
from controller.lab.tools import find_main_class
from tests.cluster.test_producer_ids import ask_for_producer_ids
from tests.equipment.java_program import compiled

ALICE, CAROL = "alice-s3cret", "carol-s3cret"
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_MECHANISM = "SCRAM-SHA-256"
_TOKEN = re.compile(r"^(?P<id>[\w-]{22})\s+(?P<hmac>\S{40,})\s", re.MULTILINE)
_TOOLS = ("kafka-topics", "kafka-configs", "kafka-acls", "kafka-delegation-tokens")
_SHELL = "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka"
_IN_TURN = Path(__file__).with_name("ToolsInTurn.java")
LONG_S = 240.0
_PLANTED = (
    "kafka-topics --create --topic orders --partitions 4 --replication-factor 2 --config retention.ms=7654321"
    " --config max.message.bytes=1500000",
    "kafka-topics --create --topic audit --replica-assignment 2:1,1:2,2:1 --config cleanup.policy=compact",
    f"kafka-configs --alter --entity-type users --entity-name alice --add-config {_MECHANISM}=[password={ALICE}]",
    "kafka-configs --alter --entity-type users --entity-name bob --add-config SCRAM-SHA-512=[password=bob-s3cret]",
    "kafka-configs --alter --entity-type users --entity-name alice --add-config producer_byte_rate=7000000",
    "kafka-configs --alter --entity-type users --entity-default --add-config consumer_byte_rate=8000000",
    "kafka-configs --alter --entity-type users --entity-name alice --entity-type clients --entity-name shop"
    " --add-config request_percentage=150",
    "kafka-configs --alter --entity-type clients --entity-name shop --add-config controller_mutation_rate=50",
    "kafka-configs --alter --entity-type ips --entity-name 127.0.0.9 --add-config connection_creation_rate=40",
    "kafka-configs --alter --entity-type brokers --entity-default --add-config log.cleaner.backoff.ms=14000",
    "kafka-configs --alter --entity-type brokers --entity-name 1 --add-config num.io.threads=4",
    "kafka-acls --add --allow-principal User:alice --operation Read --operation Describe --topic orders",
    "kafka-acls --add --deny-principal User:bob --deny-host 10.1.2.3 --operation Write --topic aud"
    " --resource-pattern-type prefixed",
    "kafka-acls --add --allow-principal User:alice --operation Describe --cluster --group shop",
)
_CHANGED = (
    "kafka-topics --delete --topic doomed",
    "kafka-topics --create --topic young --partitions 3 --replication-factor 2 --config retention.ms=1234567",
    "kafka-topics --alter --topic audit --partitions 4",
    "kafka-configs --alter --entity-type topics --entity-name orders --add-config retention.ms=7000000"
    " --delete-config max.message.bytes",
    f"kafka-configs --alter --entity-type users --entity-name carol --add-config {_MECHANISM}=[password={CAROL}]",
    "kafka-configs --alter --entity-type users --entity-name bob --add-config"
    " SCRAM-SHA-512=[iterations=8192,password=bob-n3w]",
    "kafka-configs --alter --entity-type users --entity-name alice --add-config producer_byte_rate=7700000",
    "kafka-configs --alter --entity-type users --entity-default --delete-config consumer_byte_rate",
    "kafka-configs --alter --entity-type users --entity-name bob --add-config consumer_byte_rate=8800000",
    "kafka-configs --alter --entity-type users --entity-name alice --entity-type clients --entity-name shop"
    " --add-config request_percentage=160",
    "kafka-configs --alter --entity-type clients --entity-name cart --add-config controller_mutation_rate=60",
    "kafka-configs --alter --entity-type ips --entity-name 127.0.0.9 --add-config connection_creation_rate=50",
    "kafka-configs --alter --entity-type brokers --entity-default --add-config log.cleaner.backoff.ms=16000",
    "kafka-acls --add --allow-principal User:carol --operation Describe --topic young",
    "kafka-acls --remove --force --deny-principal User:bob --deny-host 10.1.2.3 --operation Write --topic aud"
    " --resource-pattern-type prefixed",
)
"""Of each kind some are changed, some are new, and some have gone."""
_COUNTED: dict[str, tuple[str, str]] = {
    "topics, with their ids": ("topics", r"TopicId: "),
    "settings of topics": ("topics", r"Configs: \S|(?<=\d),(?=[a-z.]+=)"),
    "assignments of partitions": ("topics", r"Replicas: "),
    "settings of brokers at run time": ("brokers", r"^  \S+="),
    "SCRAM credentials": ("users", r"SCRAM credential configs for"),
    "quotas of users": ("users", r"Quota configs for"),
    "quotas of users with clients": ("pairs", r"Quota configs for"),
    "quotas of clients": ("clients", r"Quota configs for"),
    "quotas of addresses": ("ips", r"Quota configs for"),
    "ACLs": ("acls", r"principal=User:"),
    "delegation tokens": ("tokens", r"^[\w-]{22}\s"),
}
"""The file of the page's comparison, and what is counted in it."""


class Row(Struct, frozen=True):
    """A line of the comparison."""

    what: str
    found: tuple[str, ...]
    is_kept: bool


def commands(cluster: LocalCluster, directory: Path) -> dict[str, str]:
    """Make Kafka's scripts of this version; returns the environment in which a shell finds them."""
    directory.mkdir()
    calls = {script: cluster.tools.argv(script) for script in _TOOLS}
    calls["zookeeper-shell"] = cluster.tools.argv(_SHELL, "-server")
    for script, argv in calls.items():
        file = directory / f"{script}.sh"
        file.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
        file.chmod(0o755)
    return {"PATH": os.pathsep.join([str(directory), str(Path(sys.executable).parent), os.environ["PATH"]])}


def login(user: str, password: str, more: str = "") -> str:
    """The properties of a client that logs in."""
    options = f'username="{user}" password="{password}"{more}'
    return (
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={_MECHANISM}\n"
        f"sasl.jaas.config={_MODULE} required {options};\n"
    )


class Kept:
    """What is in a cluster before its migration, planted with Kafka's own tools."""

    def __init__(self, cluster: LocalCluster, login_address: str, alice: Path) -> None:
        """`alice` is the file with her properties."""
        self.cluster, self._login_address, self._alice = cluster, login_address, alice
        self.producer_ids: list[int] = []
        alice.write_text(login("alice", ALICE))
        self._sees = {alice: "orders"}

    def plant(self) -> None:
        """Create all of it, and a token of alice."""
        self._do(_PLANTED, "token")

    def change(self) -> None:
        """Change, create and delete some of each kind; alice creates another token."""
        self._do(_CHANGED, "younger-token")
        carol = self._alice.with_name("carol.properties")
        carol.write_text(login("carol", CAROL))
        self._sees[carol] = "young"

    def _do(self, commands: Sequence[str], token_file: str) -> None:
        """Run these commands, and let alice create a token."""
        calls = [self._call(self.cluster.bootstrap_servers, *shlex.split(command)) for command in commands]
        more = ("--command-config", str(self._alice), "--create", "--max-life-time-period", "-1")
        calls.append(self._call(self._login_address, "kafka-delegation-tokens", *more))
        lines = "".join("\t".join(call) + "\n" for call in calls)
        with compiled(_IN_TURN, self.cluster.version) as (_, argv):
            ran = subprocess.run(argv, input=lines, capture_output=True, text=True, timeout=LONG_S, check=False)
        made = ran.stdout
        assert ran.returncode == 0, made + ran.stderr
        token = _TOKEN.search(made)
        assert token is not None, made
        file = self._alice.with_name(f"{token_file}.properties")
        file.write_text(login(token["id"], token["hmac"], " tokenauth=true"))
        self._sees[file] = "orders"

    def run(self, tool: str, *arguments: str) -> str:
        """Run one of Kafka's tools, which must succeed."""
        return self._run(tool, self.cluster.bootstrap_servers, *arguments)

    def takes_producer_ids(self, when: str) -> None:
        """Every broker hands out an id to a new producer, above all that were handed out before."""
        for broker in self.cluster.brokers.values():
            (new,) = ask_for_producer_ids(broker.port, 1)
            assert new not in self.producer_ids, f"producer id {new} handed out a second time: {when}"
            self.producer_ids.append(new)

    def logs_in(self) -> None:
        """Every user sees the one topic that they may see, by password and by token."""
        for file, topic in self._sees.items():
            assert self._as(file, "kafka-topics", "--list").split() == [topic], f"with {file.name}"

    def _as(self, file: Path, tool: str, *arguments: str) -> str:
        return self._run(tool, self._login_address, "--command-config", str(file), *arguments)

    def _call(self, servers: str, tool: str, *arguments: str) -> list[str]:
        return [find_main_class(self.cluster.version, tool), "--bootstrap-server", servers, *arguments]

    def _run(self, tool: str, servers: str, *arguments: str) -> str:
        ran = self.cluster.tools.run(tool, "--bootstrap-server", servers, *arguments, timeout_s=LONG_S)
        assert ran.exit_code == 0, f"{tool} {' '.join(arguments)}\n{ran.output}"
        return ran.stdout


def compared(*directories: Path) -> list[Row]:
    """What the page's commands have kept, in the order of time; the last two have to be the same."""
    rows = []
    for what, (name, pattern) in _COUNTED.items():
        texts = [(directory / name).read_text() for directory in directories]
        counts = [len(re.findall(pattern, text, re.MULTILINE)) for text in texts]
        assert all(counts), f"nothing to compare: {what}\n{texts}"
        rows.append(Row(what, tuple(map(str, counts)), is_kept=texts[-2] == texts[-1]))
    return rows


def unchanged(before: Path, after: Path) -> set[str]:
    """The files that are the same in both directories."""
    return {name for name, _ in _COUNTED.values() if (before / name).read_text() == (after / name).read_text()}


def table(rows: list[Row], *when: str) -> str:
    """The rows as they are in the page."""
    lines = [("", *when, "the same"), ("---",) * (len(when) + 2)]
    lines += [(row.what, *row.found, "yes" if row.is_kept else "NO") for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
