"""How does one side of a TLS connection behave? Turns `TlsSettings` into a context of Python's library."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Sequence

from controller.security.tls.stores import Identity, UnusableStore, place_of, read_key_store, read_trust_store, refusing
from controller.settings.security import ClientAuth, TlsSettings

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OF_1_3 = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
_SUITE = re.compile(
    r"TLS_(?P<exchange>(?:(?:ECDHE|DHE)_)?(?:RSA|ECDSA))_WITH_"
    r"(?:AES_(?P<bits>128|256)_(?P<mode>GCM|CBC)|CHACHA20_POLY1305)_(?P<digest>SHA(?:256|384)?)"
)
_ASKED = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of a listener.

    Raises:
        UnusableStore: names the setting to change.
    """
    if settings.key_store is None:
        raise UnusableStore("ssl.keystore.location is missing: a listener with TLS needs a certificate")
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings)
    context.verify_mode = _ASKED[settings.client_auth]
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context for outgoing connections.

    Raises:
        UnusableStore: names the setting to change.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = settings.endpoint_identification_algorithm.lower() == "https"
    return context


def _context(side: int, settings: TlsSettings) -> ssl.SSLContext:
    unknown = set(settings.enabled_protocols) - set(_VERSIONS)
    if unknown or not settings.enabled_protocols:
        raise UnusableStore("ssl.enabled.protocols: only TLSv1.2 and TLSv1.3 are supported")
    if settings.endpoint_identification_algorithm.lower() not in ("", "https"):
        raise UnusableStore("ssl.endpoint.identification.algorithm: set it to https, or leave it empty")
    context = ssl.SSLContext(side)
    versions = [_VERSIONS[name] for name in settings.enabled_protocols]
    if settings.cipher_suites:
        versions = choose_suites(context, settings.cipher_suites, versions)
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if settings.trust_store is not None:
        trusted = b"".join(read_trust_store(settings.trust_store))
        with refusing(place_of(settings.trust_store)):
            context.load_verify_locations(cadata=trusted)
    else:
        context.load_default_certs(
            ssl.Purpose.CLIENT_AUTH if side == ssl.PROTOCOL_TLS_SERVER else ssl.Purpose.SERVER_AUTH
        )
    if settings.key_store is not None:
        identity = read_key_store(settings.key_store)
        with refusing(place_of(settings.key_store)):
            _identify(context, identity)
    return context


def choose_suites(
    context: ssl.SSLContext, suites: Sequence[str], versions: Sequence[ssl.TLSVersion]
) -> list[ssl.TLSVersion]:
    """Select these suites, and the protocol versions that have any, as Java does.

    Raises:
        UnusableStore: names the setting to change.
    """
    new, old = [s for s in suites if s in _OF_1_3], [s for s in suites if s not in _OF_1_3]
    chosen = {ssl.TLSVersion.TLSv1_2: bool(old), ssl.TLSVersion.TLSv1_3: bool(new)}
    left = [version for version in versions if chosen[version]]
    if not left:
        raise UnusableStore("ssl.cipher.suites has none for the versions in ssl.enabled.protocols")
    if ssl.TLSVersion.TLSv1_3 in left and set(new) != _OF_1_3:
        raise UnusableStore(
            f"ssl.cipher.suites: for TLSv1.3, name all of its suites or none here: {', '.join(sorted(_OF_1_3))}"
        )
    if ssl.TLSVersion.TLSv1_2 in left:
        names = {suite: _name_of_openssl(suite) for suite in old}
        try:
            context.set_ciphers(":".join(names.values()))
        except ssl.SSLError:
            known = set()
        else:
            known = {str(cipher["name"]) for cipher in context.get_ciphers()}
        if unknown := [suite for suite, name in names.items() if name not in known]:
            raise UnusableStore(f"ssl.cipher.suites: OpenSSL lacks or forbids {', '.join(unknown)}")
    return left


def _name_of_openssl(suite: str) -> str:
    """OpenSSL's name of a suite; an unknown suite gets a name that OpenSSL does not know either.

    >>> _name_of_openssl("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), _name_of_openssl("TLS_RSA_WITH_AES_256_CBC_SHA")
    ('ECDHE-RSA-AES128-GCM-SHA256', 'AES256-SHA')
    """
    match = _SUITE.fullmatch(suite)
    if match is None:
        return "unknown"
    exchange, bits, mode, digest = match["exchange"], match["bits"], match["mode"], match["digest"]
    parts = [] if exchange == "RSA" else [exchange.replace("_", "-")]
    if bits is None:
        return "-".join([*parts, "CHACHA20-POLY1305"])
    return "-".join([*parts, f"AES{bits}", *(["GCM"] if mode == "GCM" else []), digest])


def _identify(context: ssl.SSLContext, identity: Identity) -> None:
    """Load the identity through memory only: the library wants a file, and a key left on a disk could be found
    there."""
    chain = "".join(ssl.DER_cert_to_PEM_cert(one) for one in identity.chain)
    handle = os.memfd_create("identity", os.MFD_CLOEXEC)
    try:
        with os.fdopen(handle, "w", closefd=False) as file:
            file.write(identity.key.reveal() + chain)
        context.load_cert_chain(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
