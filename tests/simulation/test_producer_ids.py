"""Producer ids allocated twice, or too early, are noticed; and the worlds allocate some, in every possible way."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from controller.core.messages.effects import Answer, Effect
from controller.core.messages.replies import ProducerIdsAllocated
from tests.simulation.spoiled import broken_by
from tests.simulation.world import World

pytestmark = pytest.mark.simulation


def test_ids_are_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(effect: Effect) -> Iterable[Effect]:
        if isinstance(effect, Answer) and isinstance(effect.reply, ProducerIdsAllocated) and effect.reply.first:
            former = msgspec.structs.replace(effect.reply, first=effect.reply.first - 1)
            return [msgspec.structs.replace(effect, reply=former)]
        return [effect]

    assert "given twice" in broken_by(spoil, monkeypatch)


def test_ids_are_given_only_once_zookeeper_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(effect: Effect) -> Iterable[Effect]:
        if isinstance(effect, Answer) and isinstance(effect.reply, ProducerIdsAllocated) and not effect.reply.error:
            ahead = msgspec.structs.replace(effect.reply, first=effect.reply.first + effect.reply.length)
            return [msgspec.structs.replace(effect, reply=ahead)]
        return [effect]

    assert "before ZooKeeper had them" in broken_by(spoil, monkeypatch)


def test_they_are_given_by_controllers_and_taken_by_others_who_get_in_each_others_way() -> None:
    seen: dict[str, int] = {}
    for seed in range(12):
        world = World(seed)
        world.run()
        text = "\n".join(world.trace.lines)
        for what in ("by controller", "itself"):
            seen[what] = seen.get(what, 0) + sum(what in whom for whom in world.producer_ids.given.values())
        seen["conflict"] = seen.get("conflict", 0) + text.count("cannot set /latest_producer_id_block at version")

    assert all(seen[what] > 0 for what in ("by controller", "itself", "conflict")), seen
