"""What can the audit find for a write?"""

from __future__ import annotations

from msgspec import Struct

EXPLAINED, KAFKA, LISTED, VIOLATION = "explained", "kafka's own way", "listed", "violation"

Judgement = tuple[str, str, str]  # verdict, rule, why


class Finding(Struct, frozen=True):
    """The audit's finding for one write.

    Shape:
        `verdict` is explained (our rules would write the same, or the cause is on record), kafka's own way (a
        write that ours would not need), listed (nothing explains it) or violation. `rule` names the explanation;
        `ours` is what our rules would have done, empty if the same. `session` wrote it, 0 if that is
        not known.
    """

    zxid: int
    time_ms: int
    what: str
    verdict: str
    rule: str
    why: str
    ours: str = ""
    session: int = 0
