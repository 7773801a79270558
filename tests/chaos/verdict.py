"""What did the strikes cost, and was anything lost?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from msgspec import Struct

from tests.chaos.ledger import Judgement

# Noticeable for clients with usual time-outs.
NOTICEABLE_S = 1.0


class Struck(Struct, frozen=True):
    """One strike and its effects.

    Units:
        `began`, `healed`, `ended` in seconds since the first record; `silence_s` is the longest time without an
        acknowledged record, by partition; `recovered_s` counts from healing.

    Shape:
        `victims` are the struck processes. `recovered_s` is None if the cluster did not recover in time;
        `missing` says what was wrong then. `restarted` are those that ended by themselves, during it or afterwards.
        Strikes that are impossible on this machine or contender are `skipped`, with the reason.
    """

    number: int
    name: str
    victims: tuple[str, ...]
    began: float
    healed: float
    ended: float
    silence_s: Mapping[str, float] = {}
    recovered_s: float | None = None
    moves_finished: int = 0
    missing: str = ""
    restarted: tuple[str, ...] = ()
    skipped: str = ""


class Row(Struct, frozen=True):
    """All strikes of one name.

    Units:
        Seconds. `silence_median_s` and `silence_max_s` are over all partitions and strikes; `noticed` is the share, 0
        to 1, in which a partition could not be written to for longer than a second.

    Shape:
        `recovery_median_s` is None if the cluster never recovered; `unrecovered` counts those strikes.
    """

    name: str
    times: int
    silence_median_s: float
    silence_max_s: float
    noticed: float
    recovery_median_s: float | None
    recovery_max_s: float | None
    unrecovered: int
    lost: int
    duplicates: int
    moves_finished: int


class Result(Struct, frozen=True):
    """One whole run.

    Shape:
        `moves` counts requests by outcome: asked, finished, cancelled, refused ….
    """

    contender: str
    kafka: str
    seed: int
    seconds: float
    rate: int
    strikes: tuple[Struck, ...]
    rows: tuple[Row, ...]
    judgement: Judgement
    moves: Mapping[str, int]
    topics: Mapping[str, int]
    trouble: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether no acknowledged record is lost, and the cluster recovered each time."""
        return not failures(self)


def failures(result: Result) -> tuple[str, ...]:
    """The reasons why a run has failed; none if it has not."""
    found = [f"strike {s.number} ({s.name}): {s.missing}" for s in result.strikes if s.missing]
    judgement = result.judgement
    if judgement.lost:
        found.append(f"{len(judgement.lost)} acknowledged records are lost")
    if judgement.rewritten:
        found.append(f"at {judgement.rewritten} offsets there is another record now than was acknowledged or consumed")
    if judgement.unlisted:
        found.append(f"{judgement.unlisted} records had no partition: a broker listed the topic without it")
    if not judgement.acknowledged:
        found.append("not a single record was acknowledged")
    return (*found, *result.trouble)


def rows(strikes: Sequence[Struck], judgement: Judgement) -> tuple[Row, ...]:
    """Rows by name; a lost record counts for the strike during or before which it was acknowledged."""
    done = [strike for strike in strikes if not strike.skipped]
    lost, duplicates = (_blamed(done, times) for times in (judgement.lost, judgement.duplicates))
    return tuple(
        _row(name, [s for s in done if s.name == name], lost, duplicates) for name in sorted({s.name for s in done})
    )


def _row(name: str, strikes: Sequence[Struck], lost: Mapping[int, int], duplicates: Mapping[int, int]) -> Row:
    silences = [seconds for strike in strikes for seconds in strike.silence_s.values()]
    recoveries = [strike.recovered_s for strike in strikes if strike.recovered_s is not None]
    return Row(
        name=name,
        times=len(strikes),
        silence_median_s=round(median(silences), 2) if silences else 0.0,
        silence_max_s=round(max(silences, default=0.0), 2),
        noticed=round(sum(s > NOTICEABLE_S for s in silences) / len(silences), 3) if silences else 0.0,
        recovery_median_s=round(median(recoveries), 1) if recoveries else None,
        recovery_max_s=round(max(recoveries), 1) if recoveries else None,
        unrecovered=sum(bool(strike.missing) for strike in strikes),
        lost=sum(lost.get(strike.number, 0) for strike in strikes),
        duplicates=sum(duplicates.get(strike.number, 0) for strike in strikes),
        moves_finished=sum(strike.moves_finished for strike in strikes),
    )


def _blamed(strikes: Sequence[Struck], times: Iterable[float]) -> dict[int, int]:
    blamed: dict[int, int] = {}
    for at in times:
        for strike in strikes:
            if at <= strike.ended:
                blamed[strike.number] = blamed.get(strike.number, 0) + 1
                break
    return blamed
