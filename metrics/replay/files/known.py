"""Of which moments do the files show the state, and of which do they not?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zk_layout.storage.order import Piece, gap_between


class NotKnown(ValueError):
    """No file shows what was asked for; the message says what the files do show."""


def check_known(pieces: Sequence[Piece], snapshots: Iterable[int], base: int, as_of: int) -> None:
    """Check that every transaction up to `as_of` is known that could have been the last one then.

    `snapshots` are the zxids of all snapshots, `base` is that of the one from which the state is made, 0 without one.

    Raises:
        NotKnown: `as_of` lies before the history, after it, or where transactions are missing.
    """
    last, following = base, [zxid + 1 for zxid in snapshots if zxid > as_of]
    for piece in pieces:
        if piece.first > as_of:
            following.append(piece.first)
            break
        last = max(last, min(piece.last, as_of))
    if last == as_of or (following and gap_between(last, min(following)) is None):
        return
    if not following:
        raise NotKnown(f"{as_of:#x} is after the history ends: zxid {last:#x}; what came later is not known")
    if not last:
        raise NotKnown(f"{as_of:#x} is before the history begins: zxid {min(following) - 1:#x}")
    raise NotKnown(
        f"nothing is known of {as_of:#x}: the files show what was written up to {last:#x}, and again from "
        f"{min(following):#x} on"
    )
