"""Values that are kept in files, in directories and in the environment are had from there, and never printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from controller.__main__ import main
from controller.settings import BadSettings, Settings, load
from controller.settings.own_configs import own_configs
from tests.unit.settings.given import LEAST, file

PACKAGE = "org.apache.kafka.common.config.provider."
DECLARED = "\n".join(
    [
        "config.providers=file, dir,env",
        f"config.providers.file.class={PACKAGE}FileConfigProvider",
        f"config.providers.dir.class={PACKAGE}DirectoryConfigProvider",
        f"config.providers.env.class={PACKAGE}EnvVarConfigProvider",
        *(f"{key}={value}" for key, value in LEAST.items()),
        "",
    ]
)
SECRET = "horse-s3cr3t"
ENVIRONMENT = {"LEVEL": "error", "SECRET": SECRET, "SEVERAL": f"{SECRET}:x,{SECRET}y", "ID": "901"}


def settings(folder: Path, text: str, *overrides: str) -> Settings:
    """The settings of a file with three providers, beside a file and a directory with values."""
    (folder / "secrets").mkdir(exist_ok=True)
    (folder / "secrets/rack").write_text("r\u00e4ck 1\n", encoding="utf-8")
    (folder / "kafka.properties").write_text("rack=r\u00e4ck 2\nlevel = warning\n", encoding="utf-8")
    return load(file(folder, DECLARED + text), overrides, ENVIRONMENT)


def problems(folder: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(BadSettings) as caught:
        settings(folder, text)
    return caught.value.problems


def test_values_are_had_from_files_directories_and_the_environment(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        f"broker.rack=${{dir:{tmp_path}/secrets:rack}}\nlog.level=${{file:{tmp_path}/kafka.properties:level}}\n",
        "broker.id=${env:ID}",
    )

    assert (found.claim.registration.rack, found.logs.level, found.claim.own_id) == ("r\u00e4ck 1", "warning", 901)
    assert found.ignored == ()
    shown = own_configs(found.values, "3.9")
    assert (shown["broker.rack"].value, shown["broker.rack"].is_sensitive) == (None, True)


def test_a_value_may_be_part_of_another(tmp_path: Path) -> None:
    found = settings(tmp_path, f"broker.rack=<${{file:{tmp_path}/kafka.properties:rack}}/${{env:ID}}>\n")

    assert found.claim.registration.rack == "<r\u00e4ck 2/901>"


def test_a_variable_of_no_declared_provider_stays_as_it_is(tmp_path: Path) -> None:
    assert settings(tmp_path, "broker.rack=${vault:a:b}${c}\n").claim.registration.rack == "${vault:a:b}${c}"


def test_a_provider_that_nothing_here_uses_may_be_of_any_class(tmp_path: Path) -> None:
    text = (
        "config.providers=vault\nconfig.providers.vault.class=org.example.Vault\nlog.dirs=${vault:a}\nldap.x=${vault:c}"
    )

    assert settings(tmp_path, text).ignored == ("ldap.x", "log.dirs")


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("${file:/none:a}", "/none cannot be read: No such file or directory"),
        ("${file:HERE/kafka.properties:no}", "HERE/kafka.properties has no key no"),
        ("${file:a}", "it names no file; expected ${file:/path/of/file:key}"),
        ("${dir:HERE/secrets:no}", "HERE/secrets has no file no"),
        ("${dir:HERE/secrets:../kafka.properties}", "HERE/secrets has no file ../kafka.properties"),
        ("${dir:rack}", "it names no directory; expected ${dir:/path/of/directory:file}"),
        ("${env:NO}", "environment variable NO is not set"),
        ("${env:a:NO}", "variables of the environment have no path; expected ${env:NAME}"),
    ],
)
def test_what_cannot_be_had_is_an_error_where_kafka_would_take_the_variable_itself(
    tmp_path: Path, written: str, reason: str
) -> None:
    written, reason = (text.replace("HERE", str(tmp_path)) for text in (written, reason))

    found = problems(tmp_path, f"zookeeper.connect={written}\n")

    line = DECLARED.count("\n") + 1
    assert found == (f"{tmp_path}/controller.properties:{line}: zookeeper.connect: {written}: {reason}",)


def test_a_class_that_cannot_run_here_is_named(tmp_path: Path) -> None:
    (other,) = problems(tmp_path, "config.providers.env.class=org.example.Vault\nbroker.rack=${env:ID}\n")
    (none,) = problems(tmp_path, "config.providers=vault\nbroker.rack=${vault:ID}\n")

    assert "${env:ID}: config.providers.env.class = org.example.Vault is a Java class that cannot run here" in other
    assert "${vault:ID}: config.providers.vault.class is missing; supported are FileConfigProvider" in none


def test_only_allowed_paths_and_variables_are_read(tmp_path: Path) -> None:
    allowed = f"config.providers.file.param.allowed.paths=/usr,{tmp_path}/secrets\n"
    value = f"broker.rack=${{file:{tmp_path}/secrets/../kafka.properties:rack}}\n"

    assert "allowed.paths = /usr," in problems(tmp_path, allowed + value)[0]
    assert settings(tmp_path, allowed.replace("/secrets", "") + value).claim.registration.rack == "r\u00e4ck 2"
    for path, lacks in (("/none/there", "does not exist"), ("secrets", "is not absolute")):
        wrong = f"config.providers.file.param.allowed.paths={path}\n"
        assert problems(tmp_path, wrong + value)[0].endswith(f"allowed.paths: {path} {lacks}")

    pattern = "config.providers.env.param.allowlist.pattern=^KAFKA_\nbroker.rack=${env:ID}\n"
    assert problems(tmp_path, pattern)[0].endswith("allowlist.pattern = ^KAFKA_ does not allow it")


@pytest.mark.parametrize(
    ("key", "variable"),
    [
        *((key, "SECRET") for key in ("broker.id", "log.level", "listeners", "super.users", "zookeeper.set.acl")),
        *((key, "SEVERAL") for key in ("broker.id", "zookeeper.connect", "listeners")),
    ],
)
def test_a_value_in_the_wrong_place_is_not_printed(tmp_path: Path, key: str, variable: str) -> None:
    every = problems(
        tmp_path, f"authorizer.class.name=kafka.security.authorizer.AclAuthorizer\n{key}=${{env:{variable}}}\n"
    )

    assert SECRET not in "".join(every)
    assert any(f"{key} = ${{env:{variable}}}: " in one for one in every)


@pytest.mark.parametrize("output", ["text", "json"])
def test_what_is_in_force_is_shown_as_it_is_written(tmp_path: Path, output: str) -> None:
    (tmp_path / "controller.properties").write_text(
        f"{DECLARED}broker.rack=${{env:SECRET}}\nssl.key.password=${{env:SECRET}}\n"
    )

    answer = CliRunner(env=ENVIRONMENT).invoke(
        main, ["run", f"--config={tmp_path}/controller.properties", "--check-config", f"--output={output}"]
    )

    assert answer.exit_code == 0, answer.output
    assert SECRET not in answer.output
    assert "${env:SECRET}" in answer.stdout
