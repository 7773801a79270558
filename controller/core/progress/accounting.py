"""How did a move go, as the log of moves tells it?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from controller.core.messages.effects import Asking, MoveAccounted
from controller.core.stage import Stage
from zk_layout.ids import Replicas, TopicPartition


class Course(Struct, frozen=True):
    """Which stages a move went through, as far as this leader has seen it.

    Shape:
        `began_ms` is None if the move had begun before this leader knew the partition; then `spent_ms` lacks what
        may have begun unseen.
    Units:
        Milliseconds; `began_ms` in Unix time.
    """

    began_ms: int | None = None
    spent_ms: Mapping[Stage, int] = {}

    def seconds(self, *stages: Stage) -> float | None:
        """The time in these stages together; None if it is not known."""
        if self.began_ms is None and any(stage not in self.spent_ms for stage in stages):
            return None
        return sum(self.spent_ms.get(stage, 0) for stage in stages) / 1000


class Ended(Struct, frozen=True):
    """One move of a request that has ended, whatever became of it. `course` is None if it never was under way."""

    at: TopicPartition
    before: Replicas
    after: Replicas
    is_cancel: bool
    outcome: str
    copied_bytes: int | None
    at_ms: int
    course: Course | None


def lines(by: Asking, ended: Iterable[Ended]) -> Iterator[MoveAccounted]:
    """A line for each move."""
    for one in ended:
        yield MoveAccounted(
            by,
            one.at_ms,
            one.at,
            one.before or None,
            one.after,
            one.is_cancel,
            one.outcome,
            one.copied_bytes,
            *_seconds(one, by.requested_ms),
        )


def _seconds(one: Ended, requested_ms: int) -> tuple[float | None, float | None, float | None]:
    """The time of waiting, copying and finishing."""
    if one.course is None:
        return max(0, one.at_ms - requested_ms) / 1000, 0.0, 0.0
    began_ms = one.course.began_ms
    waited_s = None if began_ms is None else max(0, began_ms - requested_ms) / 1000
    finished_s = one.course.seconds(Stage.HANDING_OVER, Stage.LETTING_GO)
    return waited_s, one.course.seconds(Stage.CATCHING_UP), finished_s
