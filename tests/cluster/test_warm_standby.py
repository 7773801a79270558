"""Does a warm standby miss nothing in an ensemble, where it and those who write use different servers?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.lab.errors import LabError
from tests.chaos.ensemble import ensemble
from tests.conformance.adapter_world import someone
from tests.conformance.warm_rounds import claim_again_and_again
from tests.ensemble import EnsembleMember

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600, func_only=False)]

ROUNDS = 40


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EnsembleMember, ...]]:
    try:
        members = ensemble(tmp_path_factory.mktemp("ensemble"))
    except LabError as error:
        pytest.skip(str(error))
    try:
        for member in members:
            member.spawn()
        for member in members:
            member.wait_until_serving(120)
        yield members
    finally:
        for member in members:
            member.kill()


@pytest.mark.parametrize("is_at_leader", [True, False])
def test_what_others_write_through_another_server_is_known(
    servers: tuple[EnsembleMember, ...], is_at_leader: bool, tmp_path: Path
) -> None:
    (own, *_), (other, *_) = (
        [server for server in servers if server.is_leader is wanted] for wanted in (is_at_leader, not is_at_leader)
    )
    with someone(own.connect) as client:
        client.ensure_path(f"/{tmp_path.name}")
    with someone(f"{other.connect}/{tmp_path.name}") as others:
        others.sync("/")
        rounds = asyncio.run(claim_again_and_again(f"{own.connect}/{tmp_path.name}", others, ROUNDS))

    assert sum(made.writes for made in rounds) > ROUNDS
