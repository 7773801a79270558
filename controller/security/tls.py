"""How does one side of a TLS connection behave? `TlsSettings` as a context of Python's library."""

from __future__ import annotations

import os
import ssl

from controller.security.stores import Identity, UnusableStore, read_key_store, read_trust_store
from controller.settings.security import ClientAuth, TlsSettings

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_ASKED = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """For a listener.

    Raises:
        UnusableStore: with the setting to be changed.
    """
    if settings.key_store is None:
        raise UnusableStore("ssl.keystore.location is missing: a listener with TLS needs a certificate")
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings)
    context.verify_mode = _ASKED[settings.client_auth]
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """For connections to others.

    Raises:
        UnusableStore: with the setting to be changed.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = settings.endpoint_identification_algorithm.lower() == "https"
    return context


def _context(side: int, settings: TlsSettings) -> ssl.SSLContext:
    unknown = set(settings.enabled_protocols) - set(_VERSIONS)
    if unknown or not settings.enabled_protocols:
        raise UnusableStore("ssl.enabled.protocols may have TLSv1.2 and TLSv1.3 only")
    if settings.cipher_suites:
        raise UnusableStore("ssl.cipher.suites is not supported yet")
    if settings.endpoint_identification_algorithm.lower() not in ("", "https"):
        raise UnusableStore("ssl.endpoint.identification.algorithm is neither https nor empty")
    context = ssl.SSLContext(side)
    versions = [_VERSIONS[name] for name in settings.enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if settings.trust_store is not None:
        context.load_verify_locations(cadata=b"".join(read_trust_store(settings.trust_store)))
    else:
        context.load_default_certs(
            ssl.Purpose.CLIENT_AUTH if side == ssl.PROTOCOL_TLS_SERVER else ssl.Purpose.SERVER_AUTH
        )
    if settings.key_store is not None:
        _identify(context, read_key_store(settings.key_store))
    return context


def _identify(context: ssl.SSLContext, identity: Identity) -> None:
    """Through memory only: the library wants a file, and a key on a disk may be read, or be found there later."""
    chain = "".join(ssl.DER_cert_to_PEM_cert(one) for one in identity.chain)
    handle = os.memfd_create("identity", os.MFD_CLOEXEC)
    try:
        with os.fdopen(handle, "w", closefd=False) as file:
            file.write(identity.key.reveal() + chain)
        context.load_cert_chain(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
