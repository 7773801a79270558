"""What changed between two states in settings, quotas, users, access rules, delegation tokens and features?

Secrets are not shown, only that they changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from metrics.replay.commands.shown import setting
from zk_layout.codec import Undecodable
from zk_layout.storage.tree import Node
from zk_layout.znodes import acls, configs, delegation_tokens, features
from zk_layout.znodes.features import FeatureAddress

_CONFIGS, _TOKENS, _FEATURE = "/config/", f"{delegation_tokens.ROOT}/", FeatureAddress().path
_ENTITIES = {"topics": "topic", "brokers": "broker", "users": "user", "clients": "client", "ips": "address"}
_DEFAULT = "<default>"
_ENTITY = re.compile(rf"{_CONFIGS}({'|'.join(_ENTITIES)})/.")


def setting_changes(before: Mapping[str, Node], after: Mapping[str, Node], chroot: str = "") -> Iterator[str]:
    """One line for each change of Kafka's settings, in a stable order; other znodes are left out."""
    touched = [path for path in before.keys() | after.keys() if _data(before, path) != _data(after, path)]
    for path in sorted(touched):
        if path.startswith(f"{chroot}/"):
            own = path[len(chroot) :]
            yield from _changes(own, _data(before, path), _data(after, path))


def _data(state: Mapping[str, Node], path: str) -> bytes | None:
    node = state.get(path)
    return None if node is None else node.data or b""


def _changes(path: str, was: bytes | None, now: bytes | None) -> Iterator[str]:
    if _ENTITY.match(path):
        yield from _configured(_entity(path), _config(was), _config(now))
    elif path == _FEATURE:
        yield from _named("feature", _features(was), _features(now))
    elif path.startswith(_TOKENS):
        yield f"delegation token {path[len(_TOKENS) :]} {_came(was, now)}"
    else:
        for pattern, root in acls.ROOTS.items():
            kind, slash, name = path.removeprefix(f"{root}/").partition("/")
            if path.startswith(f"{root}/") and slash:
                what = f"{kind} {name}" + ("*" if pattern is acls.PatternType.PREFIXED else "")
                yield from _rights(what, _entries(was), _entries(now))


def _came(was: bytes | None, now: bytes | None) -> str:
    return "was created" if was is None else "is gone" if now is None else "was renewed"


def _entity(path: str) -> str:
    """The entity that the settings belong to, as `user ann, client app`."""
    parts = path.removeprefix(_CONFIGS).split("/")
    pairs = zip(parts[::2], parts[1::2], strict=False)
    return ", ".join(
        f"{_ENTITIES.get(kind, kind)} {'by default' if name == _DEFAULT else unquote(name)}" for kind, name in pairs
    )


def _configured(whose: str, was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(was.keys() | now.keys()):
        if was.get(name) != now.get(name):
            old, new = (setting(name, state[name]) if name in state else "unset" for state in (was, now))
            yield f"{whose}: {name} {old} → {new}" if old != new else f"{whose}: {name} changed, {new}"


def _named(what: str, was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(was.keys() | now.keys()):
        if was.get(name) != now.get(name):
            yield f"{what} {name} {was.get(name, 'none')} → {now.get(name, 'none')}"


def _rights(what: str, was: frozenset[str], now: frozenset[str]) -> Iterator[str]:
    for entry in sorted(now - was):
        yield f"access to {what}: now {entry}"
    for entry in sorted(was - now):
        yield f"access to {what}: no longer {entry}"


def _config(data: bytes | None) -> dict[str, str]:
    try:
        return configs.decode(data).config if data else {}
    except Undecodable:
        return {"(what it holds)": "cannot be read"}


def _features(data: bytes | None) -> dict[str, str]:
    try:
        levels = features.decode(data).features if data else {}
    except Undecodable:
        return {"(what it holds)": "cannot be read"}
    return {name: str(level) for name, level in levels.items()}


def _entries(data: bytes | None) -> frozenset[str]:
    try:
        found = acls.decode(data).entries if data else ()
    except Undecodable:
        return frozenset({"something that cannot be read"})
    return frozenset(f"{e.principal} {e.permission} {e.operation} from {e.host}" for e in found)
