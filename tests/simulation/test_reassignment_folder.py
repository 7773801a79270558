"""The checker sees what is done wrong with `/admin/reassignments`: each of these spoils a right controller a little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controller.core import reassignment_wishes
from controller.core.reassignment_znodes import ReassignmentZnodes
from tests.simulation.checker import Broken
from tests.simulation.world import World

SEEDS = 24


def broken_promises() -> list[str]:
    """The promises that a few worlds with a kept folder find broken."""
    found = []
    for seed in range(SEEDS):
        world = World(seed)
        if world.folder.is_kept_by_all and world.folder.keepers:
            try:
                world.run()
            except Broken as broken:
                found.append(str(broken))
    return found


right = reassignment_wishes._correct


def only_deleting(draft: Any, at: Any, child: Any, target: Any) -> None:
    if target is None:
        right(draft, at, child, target)


def nothing(*_: object, **__: object) -> Any:
    return ()


@pytest.mark.parametrize(
    ("owner", "part", "spoiled", "seen"),
    [
        pytest.param(reassignment_wishes, "wishes", nothing, "was forgotten", id="follows no child"),
        pytest.param(reassignment_wishes, "keep", nothing, "but what moves is", id="never writes a child"),
        pytest.param(reassignment_wishes, "_correct", only_deleting, "nobody wished", id="leaves old targets behind"),
        pytest.param(ReassignmentZnodes, "_is_homeless", lambda *_: False, "but what moves is", id="keeps strays"),
    ],
)
def test_a_controller_that(
    owner: Any, part: str, spoiled: Callable[..., Any], seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, part, spoiled)

    assert any(seen in broken for broken in broken_promises())
