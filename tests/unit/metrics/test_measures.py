"""Measures, as a table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controller.core.machine import Machine
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from metrics.measures import BY_NAME, MEASURES, Kind
from zk_layout.ids import BrokerId, ControllerEpoch

ROOT = Path(__file__).parents[3]
RECORDING = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "controller").rglob("*.py"))


def test_each_measure_is_there_once() -> None:
    assert len(BY_NAME) == len(MEASURES)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_a_name_says_the_unit_as_prometheus_wants_it(measure: object) -> None:
    found = BY_NAME[measure.name]  # type: ignore[attr-defined]  # a parameter of pytest has no type

    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", found.name)
    assert not found.name.endswith("_total"), "the exporter adds it"
    assert not re.search(r"_(ms|millis|kb)$", found.name)
    assert found.help.endswith(".")
    assert bool(found.buckets) == (found.kind is Kind.HISTOGRAM)
    assert list(found.buckets) == sorted(found.buckets)


def test_whatever_the_core_counts_is_a_gauge() -> None:
    settings = MachineSettings(BrokerId(900), keeps_reassignment_znodes=True)
    figures = Machine(settings, ControllerEpoch(1), SeededRandom(b"0")).figures()

    assert len(figures) > 5
    assert [name for name in figures if name not in BY_NAME or BY_NAME[name].kind is not Kind.GAUGE] == []


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_no_measure_stays_at_zero_because_nobody_records_it(name: str) -> None:
    assert f'"{name}"' in RECORDING
