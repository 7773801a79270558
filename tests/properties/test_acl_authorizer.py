"""Does our authorizer decide as Kafka's AclAuthorizer does, whatever the rights?

What Kafka 3.9.1 decides is in `fixtures/acls`; to ask it again:

    python -m tests.properties.acl_cases | java -cp <Kafka's jars> tests/fixtures/acls/Decide.java | fold -w 96
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from controller.core.acl_authorizer import AclAuthorizer, KnownAcls, super_users
from tests.properties.acl_cases import REQUESTS_OF_A_SET, SETS, SUPER_USERS, Rights, Wanted, cases
from zk_layout.znodes.acls import Acls, PatternType, ResourcePattern, ResourceType

KAFKAS = Path(__file__).parent.parent / "fixtures" / "acls" / "kafka_decides_3_9_1.txt"


def known(rights: Rights) -> KnownAcls:
    made = KnownAcls()
    for resource_type in ResourceType:
        for pattern_type in PatternType:
            made.open_folder(resource_type, pattern_type)
    for pattern, acls in rights.acls.items():
        made.put(pattern, acls)
    return made


def authorizer(made: KnownAcls, rights: Rights) -> AclAuthorizer:
    return AclAuthorizer(made, super_users(SUPER_USERS), allows_everyone_if_no_acl_is_found=rights.allows_everyone)


def decision(made: AclAuthorizer, wanted: Wanted) -> str:
    asked = (wanted.principal, wanted.host, wanted.operation)
    if wanted.name is None:
        is_allowed = made.is_allowed_by_resource_type(*asked, wanted.resource_type)
    else:
        is_allowed = made.is_allowed(*asked, ResourcePattern(wanted.resource_type, wanted.name))
    return "A" if is_allowed else "D"


def test_every_decision_is_kafka_s() -> None:
    kafkas = iter("".join(KAFKAS.read_text().split()))

    different = [
        (rights, wanted)
        for rights in cases()
        for made in [authorizer(known(rights), rights)]
        for wanted in rights.wanted
        if decision(made, wanted) != next(kafkas)
    ]

    assert different == []
    assert next(kafkas, None) is None


def test_rights_that_change_one_by_one_end_where_they_would_have_begun() -> None:
    """Whatever was known before, and in whichever order it was learnt, only what is there now counts."""
    some = [rights for rights, _ in zip(cases(), range(300), strict=False)]
    for before, now in pairwise(some):
        changed = known(before)
        for pattern in before.acls:
            changed.close(pattern)
        for pattern in before.acls.keys() - now.acls.keys():
            changed.put(pattern, Acls(()))
        for pattern in reversed(now.acls):
            changed.put(pattern, now.acls[pattern])

        fresh, late = authorizer(known(now), now), authorizer(changed, now)
        assert [decision(late, wanted) for wanted in now.wanted] == [decision(fresh, wanted) for wanted in now.wanted]


def test_there_are_enough_of_both_decisions() -> None:
    kafkas = KAFKAS.read_text()

    assert kafkas.count("A") + kafkas.count("D") == SETS * REQUESTS_OF_A_SET
    assert min(kafkas.count("A"), kafkas.count("D")) > 10_000
