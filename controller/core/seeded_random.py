"""Where do arbitrary choices come from? From a seed, so that the same events give the same effects."""

from __future__ import annotations

import base64
import hashlib

from zk_layout.ids import TopicId


class SeededRandom:
    """A stream of arbitrary values that follows from its seed alone.

    >>> SeededRandom(b"seed").topic_id() == SeededRandom(b"seed").topic_id()
    True
    """

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._drawn = 0

    def _draw(self, size: int) -> bytes:
        self._drawn += 1
        return hashlib.blake2b(self._seed, digest_size=size, salt=self._drawn.to_bytes(8, "big")).digest()

    def below(self, limit: int) -> int:
        """A whole number from 0 to `limit` - 1, each as likely as the others.

        >>> {SeededRandom(bytes([seed])).below(3) for seed in range(40)} == {0, 1, 2}
        True
        """
        return int.from_bytes(self._draw(8), "big") % limit

    def topic_id(self) -> TopicId:
        """A random (version 4) UUID as Kafka writes it: URL-safe base64 without padding, never with a leading dash.

        Source: Kafka's Uuid.randomUuid.
        """
        while True:
            raw = bytearray(self._draw(16))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            text = base64.urlsafe_b64encode(bytes(raw)).rstrip(b"=").decode()
            if not text.startswith("-"):
                return TopicId(text)
