"""Was each registration of a broker, each claim and each controller epoch right?

Source: Kafka's KafkaZkClient.registerControllerAndIncrementControllerEpoch and deleteController.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from metrics.replay.audit.verdicts import EXPLAINED, LISTED, VIOLATION, Finding, Judgement
from metrics.replay.partitions.terms import Sighting


def judged_claims(sightings: Iterable[Sighting]) -> Iterator[Finding]:
    """A finding for each write of a registration, of `/controller` and of `/controller_epoch`, in order."""
    sightings = list(sightings)
    taken_over = _taken_over(sightings)
    held: dict[tuple[str, int | None], int] = {}  # who owns the znode
    epoch: int | None = None
    for seen in sightings:
        if seen.kind == "controller_epoch":
            before, epoch = epoch, seen.epoch
            judged = _epoch(before, seen.epoch)
        elif seen.kind in ("broker", "controller"):
            judged = _owned(seen, held, is_taken_over=seen.zxid in taken_over)
        else:
            continue
        if seen.op != "known":
            yield Finding(seen.zxid, seen.time_ms, seen.kind, *judged, session=seen.session)


def _taken_over(sightings: Iterable[Sighting]) -> frozenset[int]:
    """The transactions in which one controller takes the place of another, as this project's does: fenced and whole."""
    seen: dict[int, set[tuple[str, bool]]] = {}
    for one in sightings:
        if one.kind in ("controller", "controller_epoch"):
            seen.setdefault(one.zxid, set()).add((one.kind, one.is_there))
    whole = {("controller", False), ("controller", True), ("controller_epoch", True)}
    return frozenset(zxid for zxid, parts in seen.items() if parts == whole)


def _epoch(before: int | None, now: int) -> Judgement:
    text = f"controller epoch {now}" if before is None else f"controller epoch {before} → {now}"
    if before is None or now == before + 1:
        return EXPLAINED, "claim", text
    return (VIOLATION if now <= before else LISTED), "claim", text


def _owned(seen: Sighting, held: dict[tuple[str, int | None], int], *, is_taken_over: bool) -> Judgement:
    is_claim = seen.kind == "controller"
    key = (seen.kind, None if is_claim else seen.broker)
    rule = "claim" if is_claim else "registration"
    who = "the claim on controllership" if is_claim else f"the registration of broker {seen.broker}"
    if seen.is_there:
        owner = held.setdefault(key, seen.session)
        if seen.op == "set":
            return (EXPLAINED if owner == seen.session else LISTED), rule, f"{who} was written again"
        held[key] = seen.session
        if is_claim:
            return EXPLAINED, rule, f"{seen.broker} claimed controllership"
        return EXPLAINED, rule, f"broker {seen.broker} registered"
    owner = held.pop(key, seen.session)
    if seen.op == "expire":
        return EXPLAINED, rule, f"{who} ended with its session, which expired"
    if seen.op == "close":
        return EXPLAINED, rule, f"{who} ended with its session, which its owner closed"
    if owner == seen.session:
        return EXPLAINED, rule, f"{who} was given up by its owner"
    if is_claim and is_taken_over:
        return EXPLAINED, rule, f"{who} was taken over in the transaction that raised the controller epoch"
    return LISTED, rule, f"{who} was deleted by session {seen.session:#x}, not by its owner {owner:#x}"
