"""Do our decoders read in a znode what Kafka's own read? `make decoders` compares all versions at length."""

from __future__ import annotations

import pytest

from controller.lab.errors import JarsUnavailable, JavaUnavailable
from tests.decoders.comparing import VERSIONS, Comparison, compare
from tests.decoders.judged import judged
from zk_layout import codec

INPUTS = {version: 10_000 if version == VERSIONS[-1] else 2_000 for version in VERSIONS}


def compared(version: str, inputs: int) -> Comparison:
    try:
        return compare(version, inputs, seed=29)
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_difference_from_kafkas_own_decoders_has_a_reason(version: str) -> None:
    found = compared(version, INPUTS[version])

    assert [difference for difference in found.differences if judged(difference) is None] == []
    assert found.inputs == INPUTS[version]
    assert found.read_alike > 0.3 * found.inputs


@pytest.mark.timeout(600)
def test_bytes_that_are_not_passed_over_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_first_value", lambda data: (data, []))

    assert any(judged(difference) is None for difference in compared(VERSIONS[-1], 200).differences)
