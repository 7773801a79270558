"""How is a KRaft controller of a version made, ready to be started?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from controller.lab.jars import kafka_class_path
from controller.lab.java import OLDEST, find_java
from controller.lab.kafka_broker import LOGGING, NEWEST_JAVA
from controller.lab.process import Process
from controller.lab.tools import KafkaTools


def kraft_controller(
    version: str,
    cluster_id: str,
    node_id: int,
    port: int,
    properties: Mapping[str, object],
    directory: Path,
    java: Iterable[str],
    oldest_java: int = OLDEST,
) -> Process:
    """A controller on 127.0.0.1 with a formatted log, in a new directory. `properties` include the voters; `java` are
    options of its runtime.

    Raises:
        JarsUnavailable, JavaUnavailable: this Kafka, or a runtime for it, cannot be had.
    """
    directory.mkdir()
    file, logging = directory / "controller.properties", directory / "log4j.properties"
    logging.write_text(LOGGING)
    written = {
        "process.roles": "controller",
        "node.id": node_id,
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": directory / "log",
        **properties,
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in written.items()))
    formatted = KafkaTools(version).run("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(file))
    assert formatted.exit_code == 0, formatted.output
    argv: list[str | Path] = [
        find_java(oldest_java, NEWEST_JAVA).executable,
        *java,
        f"-Dlog4j.configuration=file:{logging}",
        *("-cp", ":".join(map(str, kafka_class_path(version))), "kafka.Kafka", file),
    ]
    return Process(f"KRaft controller {node_id}", argv, directory / "controller.log")
