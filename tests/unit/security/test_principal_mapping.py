"""Rules as Kafka's SslPrincipalMapper reads them."""

import pytest

from controller.security.tls.principal_mapping import NoRuleApplies, PrincipalMapping


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", "CN=a,C=b", "CN=a,C=b"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=Duke,OU=ServiceUsers,O=Org", "Duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L,DEFAULT", "CN=Duke,OU=SME,O=X", "duke@sme"),
        ("RULE:^CN=(.*?),C=.*$/$1/U", "CN=x,C=DE", "X"),
        ("RULE:^CN=(.*?)$/$1@$4/", "CN=x", "x@$4"),
        ("RULE:CN=(.*)/$12/", "CN=x", "x2"),
        ("RULE:.*/x/", "CN=x", "xx"),
    ],
)
def test_a_certificate_is_this_user(rules: str, name: str, user: str) -> None:
    assert PrincipalMapping(rules).user(name) == user


def test_no_rule_is_no_user() -> None:
    with pytest.raises(NoRuleApplies):
        PrincipalMapping("RULE:^CN=a$/a/").user("CN=b")


@pytest.mark.parametrize(
    "rules", ["default", "RULE:a", "RULE:(/x/", r"RULE:\p{L}/x/", "RULE:[a-z&&[^b]]/x/", "RULE:a/$1/"]
)
def test_a_wrong_rule_is_said_at_the_start(rules: str) -> None:
    with pytest.raises(ValueError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
