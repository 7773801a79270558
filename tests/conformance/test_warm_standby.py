"""Does a standby that followed others' writes on a real ZooKeeper miss none of them when it claims?"""

from __future__ import annotations

import asyncio

from tests.conformance.adapter_world import someone
from tests.conformance.warm_rounds import claim_again_and_again

ROUNDS = 8


def test_whatever_was_written_before_a_claim_is_known_when_the_term_has_loaded(zookeeper: str) -> None:
    with someone(zookeeper) as others:
        rounds = asyncio.run(claim_again_and_again(zookeeper, others, ROUNDS))

    assert sum(made.writes for made in rounds) > ROUNDS
