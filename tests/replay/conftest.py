"""What do the tests that run Spark share? One local session."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CAPTURED = Path(__file__).parents[1] / "fixtures" / "storage"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on this machine, two cores."""
    pytest.importorskip("pyspark")
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.skip("Spark needs a Java that is installed: the bundled one lacks the module jdk.incubator.vector")
    from metrics.replay.spark import session

    home = tmp_path_factory.mktemp("spark")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own, about its own code
        settings = {"spark.sql.warehouse.dir": str(home), "spark.local.dir": str(home)}
        running = session.start("local[2]", settings, is_brief=True)
    yield running
    running.stop()
