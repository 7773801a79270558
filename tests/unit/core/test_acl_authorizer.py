"""Who is allowed what, by which entries?"""

from __future__ import annotations

import pytest

from controller.core.acl_authorizer import AclAuthorizer, KnownAcls, host_of, super_users
from zk_layout.znodes.acls import (
    AclEntry,
    AclOperation,
    Acls,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)

ANN = "User:ann"
HOST = "10.0.0.1"


def literal(name: str, kind: ResourceType = ResourceType.TOPIC) -> ResourcePattern:
    return ResourcePattern(kind, name)


def prefixed(name: str, kind: ResourceType = ResourceType.TOPIC) -> ResourcePattern:
    return ResourcePattern(kind, name, PatternType.PREFIXED)


def entry(text: str, permission: PermissionType = PermissionType.ALLOW) -> AclEntry:
    """Of a text such as "ann Read", or "ann Read 10.0.0.1"."""
    principal, operation, host = [*text.split(), "*"][:3]
    return AclEntry(principal if ":" in principal else f"User:{principal}", host, AclOperation(operation), permission)


def allow(*texts: str) -> tuple[AclEntry, ...]:
    return tuple(entry(text) for text in texts)


def deny(*texts: str) -> tuple[AclEntry, ...]:
    return tuple(entry(text, PermissionType.DENY) for text in texts)


def known(acls: dict[ResourcePattern, tuple[AclEntry, ...]]) -> KnownAcls:
    made = KnownAcls()
    for kind in ResourceType:
        for pattern_type in PatternType:
            made.open_folder(kind, pattern_type)
    for resource, entries in acls.items():
        made.put(resource, Acls(entries))
    return made


def of(rights: KnownAcls, supers: str = "", *, allows_everyone: bool = False) -> AclAuthorizer:
    return AclAuthorizer(rights, super_users(supers), allows_everyone_if_no_acl_is_found=allows_everyone)


def authorizer(
    acls: dict[ResourcePattern, tuple[AclEntry, ...]], *, supers: str = "", allows_everyone: bool = False
) -> AclAuthorizer:
    return of(known(acls), supers, allows_everyone=allows_everyone)


def may(made: AclAuthorizer, operation: str, resource: ResourcePattern, principal: str = ANN, host: str = HOST) -> bool:
    return made.is_allowed(principal, host, AclOperation(operation), resource)


def test_without_entries_no_one_may_do_anything_unless_everyone_may() -> None:
    assert not may(authorizer({}), "Read", literal("t"))
    assert may(authorizer({}, allows_everyone=True), "Read", literal("t"))


def test_once_a_resource_has_an_entry_everyone_is_not_allowed_any_more() -> None:
    made = authorizer({literal("t"): allow("bob Read")}, allows_everyone=True)

    assert not may(made, "Read", literal("t"))
    assert may(made, "Read", literal("u"))


@pytest.mark.parametrize("where", [literal("orders"), literal("*"), prefixed("o"), prefixed("orders")])
def test_an_entry_counts_by_name_by_its_beginning_and_for_all(where: ResourcePattern) -> None:
    assert may(authorizer({where: allow("ann Read")}), "Read", literal("orders"))


@pytest.mark.parametrize(
    "where",
    [literal("order"), literal("orders2"), prefixed("*"), prefixed("orders2"), literal("o", ResourceType.GROUP)],
)
def test_other_names_give_nothing(where: ResourcePattern) -> None:
    assert not may(authorizer({where: allow("ann Read")}), "Read", literal("orders"))


@pytest.mark.parametrize("where", [literal("orders"), literal("*"), prefixed("o")])
@pytest.mark.parametrize("denied", ["ann Read", "ann All", "* Read", "ann Read 10.0.0.1"])
def test_one_entry_that_denies_is_enough(where: ResourcePattern, denied: str) -> None:
    allowing = {literal("orders"): allow("ann All"), literal("*"): allow("ann All"), prefixed("o"): allow("ann All")}

    made = authorizer({**allowing, where: (*allowing[where], *deny(denied))})

    assert not may(made, "Read", literal("orders"))


@pytest.mark.parametrize("denied", ["bob Read", "ann Write", "ann Read 10.0.0.2", "Role:ann Read", "Role:* Read"])
def test_an_entry_for_someone_something_or_somewhere_else_denies_nothing(denied: str) -> None:
    made = authorizer({literal("t"): (*allow("ann All"), *deny(denied))})

    assert may(made, "Read", literal("t"))


def test_everybody_is_of_every_type_but_only_the_user_named_so() -> None:
    assert may(authorizer({literal("t"): allow("* Read")}), "Read", literal("t"), "Role:r")
    assert not may(authorizer({literal("t"): allow("Role:* Read")}), "Read", literal("t"), "Role:r")


@pytest.mark.parametrize("operation", ["Read", "Write", "Delete", "Alter", "All", "Describe"])
def test_a_principal_that_may_touch_it_may_describe_it(operation: str) -> None:
    assert may(authorizer({literal("t"): allow(f"ann {operation}")}), "Describe", literal("t"))


@pytest.mark.parametrize("operation", ["Create", "AlterConfigs", "DescribeConfigs", "ClusterAction", "Unknown"])
def test_other_operations_do_not_imply_that_it_may_be_described(operation: str) -> None:
    assert not may(authorizer({literal("t"): allow(f"ann {operation}")}), "Describe", literal("t"))


def test_the_right_to_alter_settings_implies_seeing_them_and_not_the_reverse() -> None:
    assert may(authorizer({literal("t"): allow("ann AlterConfigs")}), "DescribeConfigs", literal("t"))
    assert not may(authorizer({literal("t"): allow("ann DescribeConfigs")}), "AlterConfigs", literal("t"))


def test_what_is_denied_does_not_spread_to_what_it_implies() -> None:
    made = authorizer({literal("t"): (*allow("ann Describe"), *deny("ann Read", "ann Write"))})

    assert may(made, "Describe", literal("t"))


def test_super_users_may_do_everything() -> None:
    rights = known({literal("*"): deny("* All")})
    made = of(rights, "User:bob;User:ann")
    rights.close(literal("t"))

    assert may(made, "Read", literal("t"))
    assert made.is_allowed_by_resource_type(ANN, HOST, AclOperation.WRITE, ResourceType.TOPIC)


@pytest.mark.parametrize("text", ["ann", "User:ann;;User:bob", "User:ann,User:bob;bob"])
def test_a_super_user_without_a_type_is_a_mistake(text: str) -> None:
    with pytest.raises(ValueError, match="is no principal"):
        super_users(text)


@pytest.mark.parametrize("text", ["", "  ", ";", "User:ann;", " User:ann ; "])
def test_blanks_around_super_users_mean_nothing(text: str) -> None:
    assert super_users(text) <= {ANN}


@pytest.mark.parametrize(
    ("where", "name", "is_denied"),
    [
        (literal("t"), "t", True),
        (literal("t"), "tt", False),
        (prefixed("t"), "tt", True),
        (prefixed("t"), "u", False),
        (literal("*"), "anything", True),
    ],
)
def test_an_unreadable_pattern_denies_what_it_might_deny(where: ResourcePattern, name: str, is_denied: bool) -> None:
    rights = known({})
    made = of(rights, allows_everyone=True)

    rights.close(where)
    assert may(made, "Read", literal(name)) is not is_denied

    rights.put(where, Acls(()))
    assert may(made, "Read", literal(name))


@pytest.mark.parametrize("pattern_type", PatternType)
def test_while_it_is_unknown_which_patterns_there_are_nothing_of_their_type_is_allowed(
    pattern_type: PatternType,
) -> None:
    rights = known({literal("*"): allow("ann All")})
    made = of(rights, allows_everyone=True)

    rights.close_folder(ResourceType.TOPIC, pattern_type)
    assert not may(made, "Read", literal("t"))
    assert not made.is_allowed_by_resource_type(ANN, HOST, AclOperation.WRITE, ResourceType.TOPIC)
    assert may(made, "Read", literal("g", ResourceType.GROUP))

    rights.open_folder(ResourceType.TOPIC, pattern_type)
    assert may(made, "Read", literal("t"))


def test_nothing_is_open_before_anything_is_known() -> None:
    assert not may(of(KnownAcls(), allows_everyone=True), "Read", literal("t"))


def test_entries_that_are_gone_give_nothing() -> None:
    rights = known({literal("t"): allow("ann Write")})
    made = of(rights)
    assert made.is_allowed_by_resource_type(ANN, HOST, AclOperation.WRITE, ResourceType.TOPIC)

    rights.put(literal("t"), Acls(allow("bob Write")))

    assert not may(made, "Write", literal("t"))
    assert not made.is_allowed_by_resource_type(ANN, HOST, AclOperation.WRITE, ResourceType.TOPIC)


@pytest.mark.parametrize(
    ("acls", "is_allowed"),
    [
        ({}, False),
        ({literal("t"): allow("ann Write")}, True),
        ({prefixed("t"): allow("* All")}, True),
        ({literal("t"): allow("ann Write 10.0.0.2")}, False),
        ({literal("t"): allow("ann Read")}, False),
        ({literal("t"): (*allow("ann Write"), *deny("ann Write"))}, False),
        ({literal("t"): allow("ann Write"), literal("u"): deny("ann Write")}, True),
        ({literal("t"): allow("ann Write"), literal("*"): deny("ann All")}, False),
        ({literal("*"): allow("ann Write"), prefixed("t"): deny("ann Write")}, True),
        ({literal("tt"): allow("ann Write"), prefixed("t"): deny("* Write")}, False),
        ({prefixed("tt"): allow("ann Write"), prefixed("t"): deny("ann Write")}, False),
        ({prefixed("t"): allow("ann Write"), prefixed("tt"): deny("ann Write")}, True),
    ],
)
def test_one_resource_that_is_left_is_enough(
    acls: dict[ResourcePattern, tuple[AclEntry, ...]], is_allowed: bool
) -> None:
    made = authorizer(acls)

    assert made.is_allowed_by_resource_type(ANN, HOST, AclOperation.WRITE, ResourceType.TOPIC) is is_allowed


def test_everyone_may_do_it_to_one_resource_unless_all_are_denied() -> None:
    assert authorizer({literal("t"): deny("* All")}, allows_everyone=True).is_allowed_by_resource_type(
        ANN, HOST, AclOperation.WRITE, ResourceType.TOPIC
    )
    assert not authorizer({literal("*"): deny("* All")}, allows_everyone=True).is_allowed_by_resource_type(
        ANN, HOST, AclOperation.WRITE, ResourceType.TOPIC
    )


def test_what_is_unreadable_is_not_listed() -> None:
    made = known({literal("t"): allow("ann Read"), literal("u"): allow("ann Read")})
    made.close(literal("u"))

    assert list(made.bindings(lambda _: True)) == [(literal("t"), entry("ann Read"))]


@pytest.mark.parametrize(
    ("address", "spelt"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::", "0:0:0:0:0:0:0:0"),
        ("2001:db8::a:0:1", "2001:db8:0:0:0:a:0:1"),
        ("2001:0DB8::00ff", "2001:db8:0:0:0:0:0:ff"),
        ("::ffff:192.168.1.9", "192.168.1.9"),
        ("fe80::1%2", "fe80:0:0:0:0:0:0:1%2"),
        ("somewhere", "somewhere"),
        ("", ""),
    ],
)
def test_an_address_is_spelt_as_java_spells_it(address: str, spelt: str) -> None:
    assert host_of(address) == spelt


@pytest.mark.parametrize(
    ("principal", "name", "reason"),
    [
        ("User:root", "orders", "super user"),
        (ANN, "nothing", "no ACL found"),
        ("User:bob", "orders", "no ACL allows it"),
        (
            ANN,
            "orders",
            "ACL of Topic:PREFIXED:ord: User:ann has Allow permission for operations: Read from hosts: *",
        ),
        (
            "User:eve",
            "orders",
            "ACL of Topic:LITERAL:*: User:eve has Deny permission for operations: All from hosts: *",
        ),
    ],
)
def test_it_is_said_why(principal: str, name: str, reason: str) -> None:
    rights = {prefixed("ord"): allow("ann Read", "eve Read"), literal("orders"): allow("bob Write")}
    denied = {literal("*"): deny("eve All")} if principal == "User:eve" else {}
    found = authorizer(rights | denied, supers="User:root")

    assert found.reason(principal, HOST, AclOperation.READ, literal(name)) == reason


def test_it_is_said_that_acls_cannot_be_read() -> None:
    rights = known({})
    rights.close(literal("orders"))
    assert of(rights).reason(ANN, HOST, AclOperation.READ, literal("orders")) == "ACLs cannot be read"

    rights = known({})
    rights.close_folder(ResourceType.TOPIC, PatternType.PREFIXED)
    assert of(rights).reason(ANN, HOST, AclOperation.READ, literal("orders")) == "ACLs cannot be read"
