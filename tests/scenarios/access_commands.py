"""The language of scenarios, where it is about who may do what: users, quotas, credentials, ACLs."""

from __future__ import annotations

from collections.abc import Callable

from controller.core.acls.numbers import OPERATIONS, PERMISSIONS, RESOURCE_TYPES
from controller.core.messages.requests import (
    AclCreation,
    AclFilter,
    AlterScramCredentials,
    Caller,
    CreateAcls,
    DeleteAcls,
    DescribeAcls,
    ScramDeletion,
    ScramUpsertion,
)
from controller.core.settings import AuthorizerSettings
from tests.scenarios.theatre import Theatre
from zk_layout.znodes.acls import CHANGES, FOLDERS
from zk_layout.znodes.quotas import QuotaEntity


def _as(theatre: Theatre, user: str, client: str = "") -> None:
    """`as ann [tool]`: this user, with this client id, makes the requests that follow."""
    theatre.caller = Caller("PLAINTEXT", "127.0.0.1", client, f"User:{user}")


def _quota(theatre: Theatre, *words: str) -> None:
    """`quota user=ann client=<default> rate=2`: how many partitions they may change in a second; without: any."""
    given = dict(word.split("=", 1) for word in words)
    rate = float(given["rate"]) if "rate" in given else None
    theatre.limit(QuotaEntity(given.get("user"), given.get("client")), rate)


def _forbid(theatre: Theatre, *operations: str) -> None:
    """`forbid Alter Describe:orders`: no one has the right to this operation, or to this one on a topic."""
    theatre.forbidden.update(operations)


def _scram(theatre: Theatre, *words: str) -> None:
    """`ask scram ann:256=4096:secret -bob:512`: credentials with so many iterations are set, others deleted."""
    upsertions, deletions = [], []
    for word in words:
        key, _, value = word.partition("=")
        user, _, bits = key.rpartition(":")
        mechanism = {"256": 1, "512": 2}.get(bits, 0)
        if not value:
            deletions.append(ScramDeletion(user.removeprefix("-"), mechanism))
            continue
        iterations, _, credential = value.partition(":")
        upsertions.append(ScramUpsertion(user, mechanism, int(iterations), credential))
    theatre.ask(AlterScramCredentials(tuple(upsertions), tuple(deletions)))


def _acl(text: str) -> AclCreation:
    """`Topic:orders=Allow/User:ann/Read`, `Topic:ord*`, `12:x`: the type and the operation may be Kafka's numbers."""
    resource, _, entry = text.partition("=")
    kind, _, name = resource.partition(":")
    permission, principal, operation = entry.split("/")
    is_prefixed = name.endswith("*") and name != "*"
    return AclCreation(
        _number(kind, {t.value: n for n, t in RESOURCE_TYPES.items()}),
        name.removesuffix("*") if is_prefixed else name.replace("%", "/"),
        4 if is_prefixed else 3,
        principal,
        "*",
        _number(operation, {o.value: n for n, o in OPERATIONS.items()}),
        _number(permission, {p.value: n for n, p in PERMISSIONS.items()}),
    )


def _number(text: str, known: dict[str, int]) -> int:
    return int(text) if text.isdigit() else known[text]


def _create_acls(theatre: Theatre, *words: str) -> None:
    """`ask create acls Topic:orders=Allow/User:ann/Read`."""
    theatre.ask(CreateAcls(tuple(map(_acl, words))))


def _acl_filter(text: str) -> AclFilter:
    """`type=Topic,name=orders,pattern=2,principal=User:ann,operation=Read,permission=Allow`; each may be left out."""
    wanted = dict(part.partition("=")[::2] for part in text.split(",") if "=" in part)
    return AclFilter(
        _number(wanted.get("type", "1"), {t.value: n for n, t in RESOURCE_TYPES.items()}),
        wanted.get("name"),
        int(wanted.get("pattern", "1")),
        wanted.get("principal"),
        wanted.get("host"),
        _number(wanted.get("operation", "1"), {o.value: n for n, o in OPERATIONS.items()}),
        _number(wanted.get("permission", "1"), {p.value: n for n, p in PERMISSIONS.items()}),
    )


def _delete_acls(theatre: Theatre, *words: str) -> None:
    """`ask delete acls type=Topic,name=orders all`: one filter a word."""
    theatre.ask(DeleteAcls(tuple(map(_acl_filter, words))))


def _describe_acls(theatre: Theatre, word: str = "all") -> None:
    """`ask describe acls type=Topic`."""
    theatre.ask(DescribeAcls(_acl_filter(word)))


def _authorizer(theatre: Theatre) -> None:
    """`authorizer`: from the next election on there is one; brokers with one have made its folders."""
    for path in (*FOLDERS, *CHANGES.values()):
        theatre.zookeeper.make_path(path)
    theatre.settings["authorizer"] = AuthorizerSettings()


ACCESS_COMMANDS: dict[str, Callable[..., None]] = {
    "forbid": _forbid,
    "as": _as,
    "quota": _quota,
    "ask scram": _scram,
    "ask create acls": _create_acls,
    "ask delete acls": _delete_acls,
    "ask describe acls": _describe_acls,
    "authorizer": _authorizer,
}
