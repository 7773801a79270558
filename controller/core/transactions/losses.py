"""Does ZooKeeper take less than the setting says, and what is too large for it?

A server hangs up, without an answer, on a request above its jute.maxbuffer. If that is lower than the setting here,
only lost connections show it. The largest transaction in flight is blamed once connections were lost over it several
times in a row: nothing as large is sent for a while, so whatever can be written smaller is, and the rest is refused as
too large. After that pause the setting counts again, since chance may have misled us. One more loss over as much, or
nearly as much, is enough then, and lowers the limit further.

Never blamed: what is no larger than something ZooKeeper has accepted in this term, or far below the setting.

Source: ZooKeeper's NIOServerCnxn.readLength: "Len error", on which the connection is closed.
"""

from __future__ import annotations

from controller.core.messages.outbox import Outbox
from controller.core.transactions.back_off import AT_ONCE, doubled_s
from controller.core.transactions.proposal import Subject
from controller.core.transactions.sizes import UNBOUNDED, RequestSizes

LOSSES_TO_BLAME = AT_ONCE
LEAST_SHARE = 1 / 16  # of the setting: servers are not configured lower than that
ALIKE_SHARE = 0.9  # numbers in the same znode grow and shrink; less than that is another request
FURTHER_SHARE = 0.95  # each byte less would cost another connection
FIRST_DOUBT_S = 30.0
LONGEST_DOUBT_S = 600.0
NOTICE = "lower size limit"


class Losses:
    """The connections lost over large transactions in this term. Lowers the sizes that all duties share."""

    def __init__(self, sizes: RequestSizes) -> None:
        """Begin with the limit of the setting."""
        self._sizes = sizes
        self._set_bytes = sizes.limit_bytes
        self._harmless_bytes = int(sizes.limit_bytes * LEAST_SHARE)
        self._in_a_row: dict[Subject, tuple[int, int]] = {}  # how often, and the size last time
        self._trust_at: float | None = None
        self._times = 1
        self._is_said = False

    def accepted(self, size_bytes: int) -> None:
        """Note the size of a request that ZooKeeper took."""
        if size_bytes <= self._harmless_bytes:
            return
        self._harmless_bytes = size_bytes
        self._sizes.shared_bytes = max(self._sizes.shared_bytes, size_bytes)
        if size_bytes >= self._sizes.doubted_bytes:
            self._sizes.limit_bytes, self._sizes.doubted_bytes = self._set_bytes, UNBOUNDED
            self._trust_at, self._times = None, 1

    def answered(self, subject: Subject, size_bytes: int) -> None:
        """Note that ZooKeeper answered a request: further losses over this subject begin a new row.

        That it answers smaller ones shows nothing: most writes about a topic are small.
        """
        _, last_bytes = self._in_a_row.get(subject, (0, 0))
        if size_bytes >= ALIKE_SHARE * last_bytes:
            self._in_a_row.pop(subject, None)

    def lost(self, size_bytes: int, subject: Subject | None, path: str, out: Outbox) -> bool:
        """Note a lost connection and the largest request then in flight; return whether its size is now blamed for it.

        Shape:
            `subject` is None if several proposals shared the transaction. `path` is its largest znode.
        """
        if size_bytes <= self._harmless_bytes:
            return False
        self._sizes.shared_bytes = min(self._sizes.shared_bytes, max(size_bytes // 2, self._harmless_bytes))
        if subject is None:
            return False
        times, last_bytes = self._in_a_row.get(subject, (0, 0))
        times = times + 1 if size_bytes >= ALIKE_SHARE * last_bytes else 1
        self._in_a_row[subject] = times, size_bytes
        if times < LOSSES_TO_BLAME and size_bytes < ALIKE_SHARE * self._sizes.doubted_bytes:
            return False
        del self._in_a_row[subject]
        self._doubt(size_bytes)
        self._trust_at = out.now + doubled_s(self._times, FIRST_DOUBT_S, LONGEST_DOUBT_S)
        if not self._is_said:
            self._is_said = True
            text = (
                f"ZooKeeper closed the connection {times} times in a row over a request of {size_bytes} bytes that "
                f"writes {path}: the servers' jute.maxbuffer seems to be lower than the {self._set_bytes} set here. "
                "Nothing so large is written, except for an attempt now and then; give the servers and this "
                "controller the same jute.maxbuffer"
            )
            out.notice(NOTICE, text)
        return True

    def _doubt(self, size_bytes: int) -> None:
        """Lower the limit below this size, and to the lowest that was found before."""
        doubted_bytes = self._sizes.doubted_bytes
        if size_bytes < doubted_bytes < UNBOUNDED:
            size_bytes = max(int(FURTHER_SHARE * size_bytes), self._harmless_bytes + 1)
        self._sizes.doubted_bytes = min(doubted_bytes, size_bytes)
        self._sizes.limit_bytes = self._sizes.doubted_bytes - 1

    def look(self, now: float) -> None:
        """Trust the setting again after a while."""
        if self._trust_at is not None and self._trust_at <= now:
            self._trust_at = None
            self._times += 1
            self._sizes.limit_bytes = self._set_bytes
