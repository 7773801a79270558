"""By which stages does Spark carry out each job of a replay? `python -m tests.replay.plans DIR` prints the lineages.

`docs/replay-plan.txt` was made so, of a log that was cut into several splits.
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
    """Each job once, after what it does; what several tables do alike is shown for the first of them."""
    told: dict[str, int] = {}

    def telling(action: str, do: Callable[..., Any]) -> Callable[..., Any]:
        def act(rdd: RDD[Any], *arguments: Any, **named: Any) -> Any:
            lineage = (rdd.toDebugString() or b"").decode()
            shape = re.sub(r"\[\d+\]|\(\d+\)| at .*| ", "", lineage)
            key = f"{action}\n{shape}"
            if key not in told:
                sys.stdout.write(f"# {action}\n{lineage}\n\n")
            told[key] = told.get(key, 0) + 1
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
