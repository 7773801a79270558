"""Do some worlds of hostile znodes keep every promise, and is a broken one noticed?"""

from __future__ import annotations

import json
from random import Random

import pytest
from click.testing import CliRunner

from controller.zk import reader
from controller.zk.answers import Refused
from tests.fuzz import znodes
from tests.fuzz.captures import captured
from tests.fuzz.mutations import hostile
from zk_layout import catalog
from zk_layout.codec import Malformed

SEEDS = 40
A_BATCH = 10


@pytest.mark.parametrize("start", range(0, SEEDS, A_BATCH))
def test_healthy_topics_are_led_beside_hostile_znodes(start: int) -> None:
    result = CliRunner().invoke(znodes.command, ["--start", str(start), "--worlds", str(A_BATCH)])

    assert result.exit_code == 0, result.output


def test_a_world_that_breaks_a_promise_tells_its_story(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Refused("/config/changes", -102)

    monkeypatch.setattr(reader.Reader, "_refuse", refuse)

    result = CliRunner().invoke(znodes.command, ["--worlds", "30"])

    assert result.exit_code == 1
    assert "hide " in result.output
    assert "breaks a promise: Refused" in result.output


def test_whatever_is_made_of_a_capture_is_read_or_malformed() -> None:
    random = Random(1)
    outcomes = {"read": 0, "malformed": 0}
    for path in znodes.PLACES:
        address = catalog.address_of(path)
        assert address is not None
        for sound in captured().get(catalog.kind_of(address), ()):
            for _ in range(20):
                value = catalog.decode(address, hostile(random, sound))
                outcomes["malformed" if isinstance(value, Malformed) else "read"] += 1
                assert not isinstance(value, Malformed) or "Error:" not in value.reason, value.reason

    assert min(outcomes.values()) > 500, "half of it is worth nothing"


def test_captures_are_what_real_brokers_wrote() -> None:
    assert {"Topic", "State", "Broker", "LegacyReassignment"} <= captured().keys()
    assert all(json.loads(data)["version"] for data in captured()["Topic"])
