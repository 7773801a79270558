"""Odd bytes are read where a broker reads them, and refused where it refuses them.

`fixtures/wire/kafka_reads_<version>.txt` has sound requests, and beside each what Kafka's own classes of that version
make of everything that is close to it: R for read, X for refused. 2.4 reads by other code, and knows fewer versions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.wire.requests import UnreadableRequest, decode_request
from tests.unit.wire.odd_bytes import odd

FIXTURES = Path(__file__).parents[2] / "fixtures" / "wire"


def is_read(frame: bytes) -> bool:
    try:
        decode_request(frame)
    except UnreadableRequest:
        return False
    return True


def compared(release: str) -> list[tuple[str, bytes, bool, bool]]:
    """What is odd, the frame, whether that release reads it, whether it is read here."""
    found = []
    for line in (FIXTURES / f"kafka_reads_{release}.txt").read_text().splitlines():
        sound, outcomes = line.split()
        for (what, frame), outcome in zip(odd(bytes.fromhex(sound)), outcomes, strict=True):
            found.append((what, frame, outcome == "R", is_read(frame)))
    return found


def test_everything_is_read_that_a_broker_reads_and_nothing_else() -> None:
    found = compared("3_9_1")

    different = [f"{what}: {frame.hex()}" for what, frame, by_kafka, by_us in found if by_kafka is not by_us]
    assert len(found) > 10_000
    assert not different, f"{len(different)}, as {different[:5]}"


@pytest.mark.parametrize("release", ["2_4_1", "2_8_2"])
def test_everything_is_read_that_older_brokers_read(release: str) -> None:
    missing = [f"{what}: {frame.hex()}" for what, frame, by_kafka, by_us in compared(release) if by_kafka and not by_us]
    assert not missing, f"{len(missing)}, as {missing[:5]}"
