"""Which stages has each job of a replay on Spark? `python -m tests.replay.plans DIR` prints the lineages.

It made `docs/replay-plan.txt`, from a log of several splits.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

from pyspark import RDD

from metrics.replay.commands.jobs import Job, run
from metrics.replay.commands.report import write_report
from metrics.replay.engine.engines import OnSpark
from metrics.replay.spark import session


def main(directory: str) -> None:
    """Each job once, named after its purpose; a job of several tables is shown for the first of them."""
    shown: dict[str, int] = {}

    def telling(action: str, do: Callable[..., Any]) -> Callable[..., Any]:
        def act(rdd: RDD[Any], *arguments: Any, **named: Any) -> Any:
            lineage = (rdd.toDebugString() or b"").decode()
            shape = re.sub(r"\[\d+\]|\(\d+\)| at .*| ", "", lineage)
            key = f"{action}\n{shape}"
            if key not in shown:
                sys.stdout.write(f"# {action}\n{lineage}\n\n")
            shown[key] = shown.get(key, 0) + 1
            return do(rdd, *arguments, **named)

        return act

    for action in ("collect", "treeReduce"):
        setattr(RDD, action, telling(action, getattr(RDD, action)))
    spark = session.context("local[2]")
    with TemporaryDirectory() as out:
        job = Job((directory,), out, split_bytes=500_000)
        write_report(OnSpark(spark), job, run(OnSpark(spark), job))
    jobs = spark.statusTracker().getJobIdsForGroup(None)
    sys.stdout.write(f"# {len(jobs)} jobs in all\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
