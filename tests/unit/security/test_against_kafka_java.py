"""Do JAAS settings and rules for names mean what they mean to Kafka's own Java classes?

`fixtures/sasl/kafka_clients_3_9_1.txt` has what those made of each line.
"""

from __future__ import annotations

from pathlib import Path

from controller.security.failures import UnusableSecurity
from controller.security.jaas import parse_jaas
from controller.security.mechanisms.kerberos_names import NoShortName, ShortNames
from controller.security.tls.principal_mapping import NoRuleApplies, PrincipalMapping
from controller.settings.security import Secret

LINES = (Path(__file__).parents[2] / "fixtures" / "sasl" / "kafka_clients_3_9_1.txt").read_text().splitlines()
CASES = [line.split() for line in LINES if not line.startswith("#")]


def as_hex(text: str) -> str:
    return "x" + text.encode().hex()


def text_of(word: str) -> str:
    return bytes.fromhex(word[1:]).decode()


def jaas(text: str) -> list[str]:
    try:
        module = parse_jaas(Secret(text))
    except UnusableSecurity:
        return ["bad"]
    options = sorted(f"{as_hex(key)}={as_hex(value.reveal())}" for key, value in module.options.items())
    return ["ok", as_hex(module.name), module.control_flag.lower(), *options]


def short_name(rule: str, principal: str) -> list[str]:
    try:
        return ["ok", as_hex(ShortNames([rule], "EXAMPLE.COM").of(principal))]
    except (UnusableSecurity, NoShortName):
        return ["bad"]


def user(rules: str, name: str) -> list[str]:
    try:
        return ["ok", as_hex(PrincipalMapping(rules).user(name))]
    except (ValueError, NoRuleApplies):
        return ["bad"]


def test_jaas_settings_say_what_they_say_to_java() -> None:
    cases = [case for case in CASES if case[0] == "jaas"]

    differences = [(text_of(word), said) for _, word, *said in cases if jaas(text_of(word)) != said]

    assert differences == []
    assert len(cases) > 400


def test_kerberos_principals_get_the_names_that_java_gives_them() -> None:
    cases = [case for case in CASES if case[0] == "kerberos"]

    differences = [
        (text_of(rule), text_of(principal), said)
        for _, rule, principal, *said in cases
        if short_name(text_of(rule), text_of(principal)) != said
    ]

    assert differences == []
    assert len(cases) > 450


def test_certificates_stand_for_the_users_that_java_gives_them() -> None:
    """Most of these names have line separators, which Java's patterns treat differently than Python's."""
    cases = [case for case in CASES if case[0] == "ssl"]

    differences = [
        (text_of(rules), text_of(name), said)
        for _, rules, name, *said in cases
        if user(text_of(rules), text_of(name)) != said
    ]

    assert differences == []
    assert len(cases) > 150
