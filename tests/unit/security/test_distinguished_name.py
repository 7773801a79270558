"""The recorded texts are those of Java 17's X500Principal.getName() for random names (DER, in hexadecimal)."""

import json
from pathlib import Path

import pytest

from controller.security.tls.distinguished_name import distinguished_name, subject_name


def test_names_are_printed_as_java_prints_them() -> None:
    recorded = json.loads((Path(__file__).parent / "names_by_java.json").read_text())
    assert len(recorded) == 60
    assert [distinguished_name(bytes.fromhex(der)) for der, _ in recorded] == [text for _, text in recorded]


def test_what_is_no_certificate_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"certificate|DER"):
        subject_name(b"\x30\x03abc")
