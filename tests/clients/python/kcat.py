"""What does kcat see? Run with the path of the tool; it can list, produce and consume."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from speaking import Plan, Refused, perform, read_plan, until

RECORDS = 100


class Kcat:
    """Each operation is a process of its own."""

    def __init__(self, plan: Plan, tool: str) -> None:
        self.plan, self.tool = plan, tool

    def _run(self, *args: str, given: str = "") -> str:
        argv = [self.tool, "-b", self.plan.bootstrap, *args]
        run = subprocess.run(
            argv, input=given, capture_output=True, text=True, check=False, timeout=self.plan.timeout_s
        )
        if run.returncode:
            raise Refused(f"exit code {run.returncode}", run.stderr.strip())
        return run.stdout

    def _listed(self, *args: str) -> Any:
        return json.loads(self._run("-L", "-J", *args))

    def describe_cluster(self) -> Any:
        cluster = self._listed()
        nodes = {broker["id"]: broker["name"] for broker in cluster["brokers"]}
        controller = cluster["controllerid"]
        return {"nodes": sorted(nodes), "controller": controller, "controller_address": nodes.get(controller, "")}

    def list_topics(self) -> Any:
        """It creates none: these two are there before."""

        def names() -> list[str]:
            found = [topic["topic"] for topic in self._listed()["topics"]]
            return sorted(name for name in found if name.startswith(self.plan.prefix + "-"))

        return until(names, lambda names: len(names) == 2)

    def describe_topic(self) -> Any:
        name = self.plan.named("moving")
        (topic,) = self._listed("-t", name)["topics"]
        return {
            name: [
                {
                    "partition": partition["partition"],
                    "leader": partition["leader"],
                    "replicas": [replica["id"] for replica in partition["replicas"]],
                    "isr": sorted(replica["id"] for replica in partition["isrs"]),
                }
                for partition in topic["partitions"]
            ]
        }

    def produce_consume(self) -> Any:
        topic = self.plan.named("electing")
        self._run("-P", "-t", topic, "-X", "acks=all", given="".join(f"record-{n}\n" for n in range(RECORDS)))
        group = self.plan.named("group")
        said = self._run("-G", group, "-c", str(RECORDS), "-q", "-X", "auto.offset.reset=earliest", topic)
        return {"consumed": len(set(said.splitlines()))}


if __name__ == "__main__":
    plan = read_plan()
    client = Kcat(plan, sys.argv[1])
    perform(plan, {name: getattr(client, name) for name in plan.operations if hasattr(client, name)})
