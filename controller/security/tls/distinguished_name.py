"""What is the subject of a certificate called, as Java's `X500Principal.getName()` prints it?

ACLs and `super.users` contain this exact text. It is made from the certificate's own bytes: a library that sorts or
re-encodes the parts of a name would give another text.
"""

from __future__ import annotations

from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: Java prints others in hexadecimal.
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_VERSION_TAG = 0xA0
_LONG_LENGTH = 0x80


def subject_name(certificate: bytes) -> str:
    """The subject of a certificate (DER).

    Raises:
        ValueError: these bytes are no certificate.
    """
    try:
        signed = _children(_children(_children(certificate)[0][1])[0][1])
        without_version = signed[1:] if signed[0][0] == _VERSION_TAG else signed
        return distinguished_name(without_version[4][2])
    except IndexError:
        raise ValueError("not an X.509 certificate") from None


def distinguished_name(name: bytes) -> str:
    """The text of a Name (DER), last part first.

    >>> distinguished_name(bytes.fromhex("300f310d300b06035504030c04612c6220"))
    'CN=a\\\\,b\\\\ '
    """
    parts = _children(_children(name)[0][1])
    return ",".join("+".join(_attribute(body) for _, body, _ in _children(part)) for _, part, _ in reversed(parts))


def _attribute(body: bytes) -> str:
    (_, kind, _), (tag, value, whole) = _children(body)
    identifier = _object_identifier(kind)
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or tag not in _TEXTS:
        return f"{keyword or identifier}=#{whole.hex()}"
    # Java decodes every kind of text as UTF-8.
    return f"{keyword}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    marked = "".join("\\" + one if one in _ESCAPED else "\\00" if one == "\0" else one for one in text)
    core = marked.lstrip(" \r")
    lead = marked[: len(marked) - len(core)]
    inner = core.rstrip(" \r")
    return "".join("\\" + one for one in lead) + inner + "".join("\\" + one for one in core[len(inner) :])


def _object_identifier(body: bytes) -> str:
    numbers, number = [], 0
    for byte in body:
        number = number << 7 | byte & 0x7F
        if byte < _LONG_LENGTH:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _children(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """Tag, content and whole of each of the elements in sequence."""
    found, at = [], 0
    while at < len(data):
        length, start = data[at + 1], at + 2
        if length >= _LONG_LENGTH:
            size = length - _LONG_LENGTH
            length, start = int.from_bytes(data[start : start + size], "big"), start + size
        end = start + length
        if end > len(data):
            raise ValueError("not DER: an element is longer than its container")
        found.append((data[at], data[start:end], data[at:end]))
        at = end
    return found
