"""How are Kafka's own Java tools run?"""

import subprocess
import time
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from controller.lab.errors import LabError
from controller.lab.jars import kafka_class_path
from controller.lab.java import QUICK_START, find_java
from controller.lab.kafka_broker import NEWEST_JAVA
from controller.lab.process import Process

_LOGGING = Path(__file__).with_name("tools-log4j.properties")

# The script's name → the classes behind it, newest first; a version has exactly one of them.
_CLASSES = {
    "kafka-reassign-partitions": (
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "kafka.admin.ReassignPartitionsCommand",
    ),
    "kafka-topics": ("org.apache.kafka.tools.TopicCommand", "kafka.admin.TopicCommand"),
    "kafka-configs": ("org.apache.kafka.tools.ConfigCommand", "kafka.admin.ConfigCommand"),
    "kafka-leader-election": (
        "org.apache.kafka.tools.LeaderElectionCommand",
        "kafka.admin.LeaderElectionCommand",
    ),
    "kafka-preferred-replica-election": ("kafka.admin.PreferredReplicaLeaderElectionCommand",),
    "kafka-log-dirs": ("org.apache.kafka.tools.LogDirsCommand", "kafka.admin.LogDirsCommand"),
    "kafka-delete-records": (
        "org.apache.kafka.tools.DeleteRecordsCommand",
        "kafka.admin.DeleteRecordsCommand",
    ),
    "kafka-broker-api-versions": (
        "org.apache.kafka.tools.BrokerApiVersionsCommand",
        "kafka.admin.BrokerApiVersionsCommand",
    ),
    "kafka-consumer-groups": (
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "kafka.admin.ConsumerGroupCommand",
    ),
    "kafka-console-producer": ("org.apache.kafka.tools.ConsoleProducer", "kafka.tools.ConsoleProducer"),
    "kafka-console-consumer": (
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "kafka.tools.ConsoleConsumer",
    ),
    "kafka-acls": ("kafka.admin.AclCommand",),
    "kafka-delegation-tokens": (
        "org.apache.kafka.tools.DelegationTokenCommand",
        "kafka.admin.DelegationTokenCommand",
    ),
    "kafka-get-offsets": ("org.apache.kafka.tools.GetOffsetShell", "kafka.tools.GetOffsetShell"),
    "kafka-dump-log": ("org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments"),
    "kafka-producer-perf-test": ("org.apache.kafka.tools.ProducerPerformance",),
}


class ToolResult(msgspec.Struct, frozen=True):
    """The outcome of one call of a tool."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def output(self) -> str:
        """All of its output."""
        return self.stdout + self.stderr


class KafkaTools:
    """Kafka's own command line tools of one version. One call costs a Java start, a second or more."""

    def __init__(self, version: str, java_options: Sequence[str] = ()) -> None:
        self.version = version
        self.java_options = tuple(java_options)

    def run(self, tool: str, *args: str, stdin: str = "", timeout_s: float = 120.0) -> ToolResult:
        """Run a tool by its script's name (`kafka-topics`) or its class, and wait for its end.

        Raises:
            LabError: This version has no such tool, or it took too long.
        """
        started = time.monotonic()
        argv = self.argv(tool, *args)
        try:
            run = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired as error:
            raise LabError(f"{tool} {' '.join(args)} took more than {timeout_s:g} s") from error
        seconds = time.monotonic() - started
        return ToolResult(exit_code=run.returncode, stdout=run.stdout, stderr=run.stderr, seconds=seconds)

    def process(self, tool: str, *args: str, log_file: Path) -> Process:
        """A tool that runs beside us, such as a producer; not started yet."""
        return Process(tool, self.argv(tool, *args), log_file)

    def argv(self, tool: str, *args: str) -> list[str]:
        """The whole command."""
        main_class = tool if "." in tool else find_main_class(self.version, tool)
        class_path = ":".join(map(str, kafka_class_path(self.version)))
        java = find_java(newest=NEWEST_JAVA)
        options = ["-Xmx256m", *QUICK_START, f"-Dlog4j.configuration={_LOGGING.as_uri()}", *self.java_options]
        return [str(java.executable), *options, "-cp", class_path, main_class, *args]


@cache
def find_main_class(version: str, tool: str) -> str:
    """The class behind a tool in this version."""
    if tool not in _CLASSES:
        raise LabError(f"unknown tool {tool}; known are {', '.join(sorted(_CLASSES))}")
    entries: set[str] = set()
    for jar in kafka_class_path(version):
        if jar.name.startswith(("kafka_2.", "kafka-tools-")):
            with zipfile.ZipFile(jar) as archive:
                entries.update(archive.namelist())
    for candidate in _CLASSES[tool]:
        if candidate.replace(".", "/") + ".class" in entries:
            return candidate
    raise LabError(f"Kafka {version} has no {tool}")
