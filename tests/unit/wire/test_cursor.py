"""What does the next piece of a message say?"""

from __future__ import annotations

import pytest

from controller.wire.cursor import Cursor, Malformed
from controller.wire.packing import unsigned_varint
from controller.wire.schema import topic_id_bytes


@pytest.mark.parametrize("number", [0, 1, 127, 128, 16_383, 16_384, 2**28, 2**31 - 1])
def test_a_number_of_any_length_is_read_back(number: int) -> None:
    cursor = Cursor(unsigned_varint(number))

    assert cursor.unsigned_varint("length") == number
    cursor.finish()


def test_anything_but_zero_is_true() -> None:
    cursor = Cursor(b"\0\1\2\xff")

    assert [cursor.boolean("flag") for _ in range(4)] == [False, True, True, True]


def test_a_refused_field_is_named_with_all_that_is_around_it() -> None:
    cursor = Cursor(b"\0\0\0\2" + b"\0\0\0\1" + b"a")

    with pytest.raises(Malformed, match=r"^topics\[1\]\.partition needs 4 bytes but only 1 are left, at byte 8 of 9$"):
        read_all(cursor)


def read_all(cursor: Cursor) -> list[int]:
    return [cursor.int32("partition") for _ in cursor.array("topics", 2)]


@pytest.mark.parametrize("text", ["", "AAECAwQFBgcICQoLDA0OD", "AAECAwQFBgcICQoLDA0ODw==", "not a topic id at all!"])
def test_what_is_no_topic_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a topic id; expected 22 characters"):
        topic_id_bytes(text)
