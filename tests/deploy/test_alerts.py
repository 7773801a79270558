"""Do the alerts fire when they should, even if all replicas are gone, and each for one cluster?"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.equipment.prometheus import program

HERE = Path(__file__).parent
ALERTS = HERE.parents[1] / "deploy" / "alerts.yml"
OPERATIONS = HERE.parents[1] / "docs" / "operations.md"
SITUATIONS = sorted(HERE.glob("*_test.yml"))
CHECKED_WITHIN_S = 120.0


@pytest.fixture(scope="module")
def promtool() -> str:
    """Prometheus's own tool: the installed one, or that of Debian's package."""
    return shutil.which("promtool") or str(program("promtool"))


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=CHECKED_WITHIN_S, check=False)


def test_the_rules_are_sound(promtool: str) -> None:
    checked = _run(promtool, "check", "rules", str(ALERTS))

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("situations", SITUATIONS, ids=lambda path: path.stem)
def test_in_each_situation_the_right_alerts_fire(promtool: str, situations: Path) -> None:
    tested = _run(promtool, "test", "rules", str(situations))

    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_scrape_configuration_of_the_documentation_is_sound(promtool: str, tmp_path: Path) -> None:
    (shown,) = re.findall(r"^```yaml\n(scrape_configs:.*?)^```", OPERATIONS.read_text(), re.DOTALL | re.MULTILINE)
    configuration = tmp_path / "prometheus.yml"
    configuration.write_text(shown)

    checked = _run(promtool, "check", "config", "--syntax-only", str(configuration))

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_configuration_beside_compose_is_sound(promtool: str) -> None:
    checked = _run(promtool, "check", "config", str(ALERTS.with_name("prometheus.yml")))

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "1 rule files found" in checked.stdout + checked.stderr


def test_each_alert_fires_in_some_situation() -> None:
    alerts = re.findall(r"- alert: (\w+)", ALERTS.read_text(encoding="utf-8"))
    situations = "".join(path.read_text(encoding="utf-8") for path in SITUATIONS)

    assert alerts
    assert [alert for alert in alerts if f'alertname="{alert}"' not in situations] == []


def test_each_alert_is_of_one_scrape_of_one_cluster() -> None:
    """A series that is scraped by another job must not count, nor another cluster's."""
    expressions = re.findall(r"expr: (.*?)\n +(?:for|labels):", ALERTS.read_text(encoding="utf-8"), re.DOTALL)

    assert expressions
    for expression in expressions:
        assert re.search(r'\{job=~"kafka-zk-controller\.\*"[,}]', expression), expression
        for labels in re.findall(r"\b(?:sum|max|min|count|avg)\b(?: by \((.*?)\))?", expression):
            assert "cluster" in labels, expression
