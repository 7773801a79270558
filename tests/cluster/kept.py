"""What must a migration to KRaft keep, and did it? Topics, settings, quotas, users, rights and tokens of a cluster."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from controller.lab.cluster import LocalCluster
from controller.lab.tools import find_main_class
from tests.cluster.test_producer_ids import ask_for_producer_ids
from tests.equipment.java_program import compiled

ALICE = "alice-s3cret"
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_MECHANISM = "SCRAM-SHA-256"
_TOKEN = re.compile(r"^(?P<id>[\w-]{22})\s+(?P<hmac>\S{40,})\s", re.MULTILINE)
_TOOLS = ("kafka-topics", "kafka-configs", "kafka-acls", "kafka-delegation-tokens")
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
    before: str
    after: str
    is_kept: bool


def commands(cluster: LocalCluster, directory: Path) -> dict[str, str]:
    """Make Kafka's scripts of this version; returns the environment in which a shell finds them."""
    directory.mkdir()
    calls = {script: cluster.tools.argv(script) for script in _TOOLS}
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
        self._token = alice.with_name("token.properties")

    def plant(self) -> None:
        """Create all of it, and a token of alice."""
        calls = [self._call(self.cluster.bootstrap_servers, *shlex.split(command)) for command in _PLANTED]
        more = ("--command-config", str(self._alice), "--create", "--max-life-time-period", "-1")
        calls.append(self._call(self._login_address, "kafka-delegation-tokens", *more))
        lines = "".join("\t".join(call) + "\n" for call in calls)
        with compiled(_IN_TURN, self.cluster.version) as (_, argv):
            ran = subprocess.run(argv, input=lines, capture_output=True, text=True, timeout=LONG_S, check=False)
        made = ran.stdout
        assert ran.returncode == 0, made + ran.stderr
        token = _TOKEN.search(made)
        assert token is not None, made
        self._token.write_text(login(token["id"], token["hmac"], " tokenauth=true"))

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
        """alice sees the one topic that she may see, by her password and by her token."""
        for file in (self._alice, self._token):
            assert self._as(file, "kafka-topics", "--list").split() == ["orders"]

    def _as(self, file: Path, tool: str, *arguments: str) -> str:
        return self._run(tool, self._login_address, "--command-config", str(file), *arguments)

    def _call(self, servers: str, tool: str, *arguments: str) -> list[str]:
        return [find_main_class(self.cluster.version, tool), "--bootstrap-server", servers, *arguments]

    def _run(self, tool: str, servers: str, *arguments: str) -> str:
        ran = self.cluster.tools.run(tool, "--bootstrap-server", servers, *arguments, timeout_s=LONG_S)
        assert ran.exit_code == 0, f"{tool} {' '.join(arguments)}\n{ran.output}"
        return ran.stdout


def compared(before: Path, after: Path) -> list[Row]:
    """What the page's commands have kept before and after."""
    rows = []
    for what, (name, pattern) in _COUNTED.items():
        old, new = ((directory / name).read_text() for directory in (before, after))
        was, now = (len(re.findall(pattern, text, re.MULTILINE)) for text in (old, new))
        assert was > 0, f"nothing to compare: {what}\n{old}"
        rows.append(Row(what, str(was), str(now), is_kept=old == new))
    return rows


def show(rows: list[Row], say: Callable[[str], object]) -> None:
    """Print the table as it is in the page."""
    say("| | before | after | the same |\n| --- | --- | --- | --- |")
    for row in rows:
        say(f"| {row.what} | {row.before} | {row.after} | {'yes' if row.is_kept else 'NO'} |")
