"""No user gets more through our node than from a broker. Some requests; `python -m tests.rights` sends 2,000."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.lab.errors import JarsUnavailable, JavaUnavailable
from tests.rights.comparing import LEADER, STANDBY, Judged, compare

REQUESTS, SEED = 300, 27


@pytest.mark.timeout(300)
def test_the_same_requests_are_refused_through_every_replica_as_by_a_broker(tmp_path: Path) -> None:
    try:
        found = compare("3.9.1", REQUESTS, SEED, tmp_path)
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))

    assert found.of(Judged.LAXER) == []
    assert found.counts[LEADER][Judged.STRICTER] == 0
    assert found.counts[STANDBY][Judged.STRICTER] == 0
    assert found.refused > REQUESTS / 10
    assert found.counts[LEADER][Judged.SAME] > REQUESTS / 2
