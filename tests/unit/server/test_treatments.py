"""Every request that a broker of any version knows is in the table, in all its versions."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest

from controller.wire.apis import ANSWERED, SERVED, ApiKey, Treatment, api_name, row_of
from tests.unit.server.clients import connected, serving
from tests.unit.server.requests_page import as_markdown

ROOT = Path(__file__).parents[3]
RELEASES = ROOT / "tests" / "fixtures" / "wire" / "requests_of_releases.txt"
FORMER_NAMES = {"AlterIsr": "AlterPartition", "ListOffset": "ListOffsets"}


def known_to_brokers() -> list[tuple[int, str, str, int]]:
    """Key, name, release and highest version, for every change of a request from 2.4 to 3.9."""
    found = []
    for line in RELEASES.read_text().splitlines():
        if line.startswith("#"):
            continue
        key, name, *changes = line.split()
        for change in changes:
            release, _, versions = change.partition(":")
            if versions != "-":
                lowest, _, highest = versions.partition("-")
                assert lowest == "0"
                found.append((int(key), name, release, int(highest or lowest)))
    return found


@pytest.mark.parametrize(("key", "name", "release", "highest"), known_to_brokers())
def test_what_a_broker_of_any_release_knows_is_treated_in_all_its_versions(
    key: int, name: str, release: str, highest: int
) -> None:
    assert row_of(key) is not None, f"{name} ({key}) of {release} has no row in controller/wire/apis.py"
    assert api_name(key) == f"{FORMER_NAMES.get(name, name)} ({key})"
    served = SERVED.get(key) or ANSWERED.get(key)
    if served is not None:
        assert served.lowest == 0
        assert served.highest >= highest, f"{name} {highest} of {release} is not understood"


def test_nothing_is_answered_in_versions_that_no_broker_knows() -> None:
    most: dict[int, int] = {}
    for key, _, _, highest in known_to_brokers():
        most[key] = max(most.get(key, 0), highest)

    assert {key: served.highest for key, served in (SERVED | ANSWERED).items()} == {
        key: most[key] for key in SERVED | ANSWERED
    }


def test_the_page_is_what_the_table_makes_today() -> None:
    page = ROOT / "docs" / "requests.md"

    assert page.read_text(encoding="utf-8") == as_markdown(), "renew it with: make pages"


def test_the_connection_is_closed_over_no_other_request_than_those_the_table_names() -> None:
    """There is no term and no relay: a request to relay closes the connection here."""

    async def story() -> None:
        async with serving() as server:
            for key in ApiKey:
                if key.row.treatment is Treatment.SERVED:
                    continue
                async with connected(server) as client:
                    client.writer.write(struct.pack(">ihhih", 50, key, 0, 7, 0) + bytes(40))
                    if key.row.treatment in (Treatment.ANSWERED, Treatment.ACKNOWLEDGED):
                        assert (await client.frame())[:4] == struct.pack(">i", 7), api_name(key)
                    else:
                        assert await client.is_hung_up_on(), api_name(key)

    asyncio.run(story())


MOVE = b"\0\0\0\1" + b"\0\2/d" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2" + b"\0\0\0\0" + b"\0\0\0\7"
COMPACT_MOVE = b"\0" + b"\2" + b"\3/d" + b"\2" + b"\2t" + b"\3" + b"\0\0\0\0" + b"\0\0\0\7" + b"\0\0\0"
TO_TWO_DIRECTORIES = b"\0\0\0\2" + b"".join(
    b"\0\2" + path + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + bytes(3) + number
    for path, number in ((b"/d", b"\0"), (b"/e", b"\7"))
)
NO_DIRECTORY = b"\0\x39"  # LOG_DIR_NOT_FOUND
NOT_MOVED = b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2" + b"\0\0\0\0" + NO_DIRECTORY + b"\0\0\0\7" + NO_DIRECTORY
NO_SASL_HERE = b"\0\x22"  # ILLEGAL_SASL_STATE
GROUP_ELSEWHERE = b"\0\x10" + b"\0\1g" + bytes(10)  # NOT_COORDINATOR, and nothing known; as 2.4.1 writes it


@pytest.mark.parametrize(
    ("key", "version", "body", "answer"),
    [
        (34, 1, MOVE, NOT_MOVED),
        (34, 1, TO_TWO_DIRECTORIES, NOT_MOVED),
        (
            34,
            2,
            COMPACT_MOVE,
            b"\2" + b"\2t" + b"\3" + bytes(4) + NO_DIRECTORY + b"\0" + b"\0\0\0\7" + NO_DIRECTORY + bytes(3),
        ),
        (15, 0, b"\0\0\0\1\0\1g", b"\0\0\0\7" + b"\0\0\0\1" + GROUP_ELSEWHERE),
        (15, 2, b"\0\0\0\1\0\1g", b"\0\0\0\7" + bytes(4) + b"\0\0\0\1" + GROUP_ELSEWHERE),
        (15, 4, b"\0\0\0\1\0\1g\1", b"\0\0\0\7" + bytes(4) + b"\0\0\0\1" + GROUP_ELSEWHERE + bytes(4)),
        (15, 5, b"\0\2\2g\0\0", b"\0\0\0\7" + bytes(5) + b"\2" + b"\0\x10\2g\1\1\1\1" + bytes(4) + bytes(2)),
        (15, 5, b"\0\1\0\0", b"\0\0\0\7" + bytes(5) + b"\1" + b"\0"),
        (17, 0, b"\0\5PLAIN", NO_SASL_HERE + b"\0\0\0\0"),
        (17, 1, b"\0\5PLAIN", NO_SASL_HERE + b"\0\0\0\0"),
        (36, 0, b"\0\0\0\0", b"\0\0\0\0"),
        (36, 1, b"\0\0\0\0", b"\0\0\0\0" + bytes(8)),
        (36, 2, b"\0\1\0", b"\1" + bytes(8) + b"\0"),
    ],
)
def test_what_is_not_to_be_had_here_is_refused_as_a_broker_refuses_it(
    key: int, version: int, body: bytes, answer: bytes
) -> None:
    async def story() -> bytes:
        async with serving() as server, connected(server) as client:
            return await client.ask_raw(struct.pack(">hhih", key, version, 7, 2) + b"me" + body)

    found = asyncio.run(story())

    assert found.startswith(struct.pack(">i", 7))
    assert found.endswith(answer)
    if key == 36:
        assert NO_SASL_HERE in found
