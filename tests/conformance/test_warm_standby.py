"""Does a standby that followed others' writes on a real ZooKeeper miss none of them when it claims?"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

from controller.zk import kazoo_internals
from controller.zk.bridge import Bridge
from tests.chaos.ensemble import ensemble
from tests.conformance.adapter_world import Line, someone
from tests.conformance.warm_rounds import Round, claim_again_and_again

ROUNDS = 8
ENSEMBLE_ROUNDS = 12


@pytest.mark.parametrize("is_recursive", [False, True])
def test_whatever_was_written_before_a_claim_is_known_when_the_term_has_loaded(
    zookeeper: str, is_recursive: bool
) -> None:
    with someone(zookeeper) as others:
        rounds = asyncio.run(claim_again_and_again(zookeeper, others, ROUNDS, is_recursive=is_recursive))

    assert sum(made.writes for made in rounds) > ROUNDS
    assert all(made.is_recursive is is_recursive for made in rounds)


def test_also_if_the_connection_was_lost_just_before_the_claim(zookeeper: str) -> None:
    async def story() -> list[Round]:
        async with Line(zookeeper) as line:
            return await claim_again_and_again(
                line.connect, others, ROUNDS, is_recursive=True, cut=lambda _: line.cut()
            )

    with someone(zookeeper) as others:
        rounds = asyncio.run(story())

    assert all(made.is_recursive for made in rounds)


@pytest.mark.thorough
@pytest.mark.parametrize("is_recursive", [False, True])
def test_also_on_an_ensemble_where_others_write_through_another_server(tmp_path: Path, is_recursive: bool) -> None:
    """Whenever the standby loses its connection, it may come back to another server, too."""
    servers = ensemble(tmp_path)
    with ExitStack() as running:
        for server in servers:
            server.spawn()
            running.callback(server.stop)
        for server in servers:
            server.wait_until_serving()
        everywhere = ",".join(server.connect for server in servers)
        with someone(servers[0].connect) as others:
            rounds = asyncio.run(
                claim_again_and_again(everywhere, others, ENSEMBLE_ROUNDS, is_recursive=is_recursive, cut=cut_sometimes)
            )

    assert sum(made.due > 0 for made in rounds) > 0
    assert all(made.is_recursive is is_recursive for made in rounds)


def cut_sometimes(bridge: Bridge) -> None:
    """Lose the connection before some of the claims."""
    if bridge.seen_zxid % 3 == 0:
        kazoo_internals.cut(bridge._client)
