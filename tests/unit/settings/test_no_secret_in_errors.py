"""Errors in settings are reported without their secrets, wherever they were written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from controller.__main__ import main
from tests.unit.connections.certificates import make_identity

SECRET = "horse-s3cr3t"
TLS = {"listeners": "SSL://127.0.0.1:9095", "security.inter.broker.protocol": "SSL"}
SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9095",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
}
PLAIN = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
SCRAM = "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
BEARER = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"
_BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
TOKENS = {
    **SASL,
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "sasl.login.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
    ),
    "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
}
BAD: list[dict[str, str]] = [
    {**TLS, "ssl.keystore.location": "IDENTITY", "ssl.keystore.password": SECRET},
    {**TLS, "ssl.keystore.location": "IDENTITY", "ssl.keystore.type": "PKCS12", "ssl.keystore.password": SECRET},
    {**TLS, "ssl.keystore.type": "PEM", "ssl.keystore.key": SECRET, "ssl.keystore.certificate.chain": "none"},
    {**TLS, "ssl.keystore.type": "PEM", "ssl.keystore.location": "IDENTITY", "ssl.truststore.location": "IDENTITY"}
    | {"ssl.truststore.password": SECRET},
    {**SASL, PLAIN: f'{_LOGIN} user_ann="{SECRET}'},
    {**SASL, PLAIN: f"{_LOGIN} password={SECRET} user_ann={SECRET}"},
    {**SASL, PLAIN: f'{SECRET} required user_ann="x";'},
    {**SASL, PLAIN: f'{_LOGIN} username="a" password="{SECRET}"; {_LOGIN} user_b="{SECRET}";'},
    {**SASL, PLAIN: f'{_LOGIN} username="a" password="b";', SCRAM: SECRET},
    {**TOKENS, BEARER: f'{_BEARER} clientSecret="{SECRET}";'},
    {**TOKENS, BEARER: f'{_BEARER} clientId="c" clientSecret="{SECRET}" extension_1="{SECRET}";'},
    {**TOKENS, BEARER: f'{_BEARER} clientId="c" clientSecret="{SECRET}";'}
    | {"sasl.oauthbearer.token.endpoint.url": f"ftp://c:{SECRET}@h/?key={SECRET}"},
    {"ssl.keystore.pasword": SECRET},
    {"ssl.key.pasword": SECRET, "sasl.jaas.confg": SECRET},
    {"delegation.token.master.kee": SECRET},
    {"log.level": "verbose", "delegation.token.master.key": SECRET},
    {"http.web.config.file": "WEB"},
]


@pytest.mark.parametrize("written", BAD, ids=",".join)
@pytest.mark.parametrize("where", ["file", "--set", "environment"])
@pytest.mark.parametrize("output", ["text", "json"])
def test_no_secret_is_shown(tmp_path: Path, written: Mapping[str, str], where: str, output: str) -> None:
    make_identity(tmp_path / "identity.pem")
    (tmp_path / "web.yml").write_text(f"basic_auth_users: {{ann: {SECRET}}}\nbasic_auth: {SECRET}\n")
    files = {"IDENTITY": str(tmp_path / "identity.pem"), "WEB": str(tmp_path / "web.yml")}
    given = {"zookeeper.connect": "zk:2181", "broker.id": "901"}
    given |= {key: files.get(value, value) for key, value in written.items()}
    argv, environment = ["run", "--check-config", f"--output={output}"], {}
    if where == "file":
        file = tmp_path / "controller.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        argv += ["--config", str(file)]
    elif where == "--set":
        argv += [f"--set={key}={value}" for key, value in given.items()]
    else:
        environment = {"KAFKA_ZK_CONTROLLER_" + key.upper().replace(".", "_"): value for key, value in given.items()}

    answer = CliRunner().invoke(main, argv, env=environment)

    assert SECRET not in answer.output + answer.stderr
    assert answer.exit_code == 2 or where == "environment"  # which cannot spell each of them


def test_what_is_in_force_is_shown_without_secrets(tmp_path: Path) -> None:
    make_identity(tmp_path / "identity.pem")
    given = {
        **SASL,
        "zookeeper.connect": "zk:2181",
        "broker.id": "901",
        PLAIN: f'{_LOGIN} username="a" password="{SECRET}" user_a="{SECRET}";',
        "delegation.token.secret.key": SECRET,
        "ssl.keystore.password": SECRET,
    }
    for output in ("text", "json"):
        answer = CliRunner().invoke(
            main, ["run", "--check-config", f"--output={output}", *(f"--set={k}={v}" for k, v in given.items())]
        )

        assert answer.exit_code == 0, answer.output
        assert SECRET not in answer.output
