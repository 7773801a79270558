"""The wheel holds the product and what `kafka-zk-controller demo` needs, and no test equipment."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]
EQUIPMENT = ROOT / "tests" / "equipment"
SIMULATED_DEMO = (
    "controller/demo/simulated_story.py",
    "controller/lab/asking.py",
    "controller/lab/broker_model.py",
    "controller/lab/listening.py",
    "controller/lab/simulated_broker.py",
    "controller/lab/tools-log4j.properties",
    "controller/lab/trust.py",
    "controller/lab/wire/configs_broker_side.py",
    "controller/lab/wire/log_dirs_broker_side.py",
    "controller/lab/wire/to_controller.py",
)


@pytest.fixture(scope="module")
def contents() -> list[PurePosixPath]:
    files = WheelBuilder(str(ROOT)).recurse_included_files()
    return [PurePosixPath(file.distribution_path) for file in files]


def test_it_has_three_packages(contents: list[PurePosixPath]) -> None:
    assert {path.parts[0] for path in contents} == {"controller", "metrics", "zk_layout"}


def test_it_has_no_tests_and_none_of_their_equipment(contents: list[PurePosixPath]) -> None:
    forbidden = {path.name for path in EQUIPMENT.glob("*.py")} | {"conftest.py"}

    assert "kdc.py" in forbidden
    assert [str(path) for path in contents if path.name in forbidden or path.name.startswith("test_")] == []


def test_it_has_what_the_demo_needs_without_the_brokers_jars(contents: list[PurePosixPath]) -> None:
    assert set(SIMULATED_DEMO) - set(map(str, contents)) == set()
