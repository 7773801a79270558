"""Which settings and which metrics are there?"""

from __future__ import annotations

import json

import click
from rich.table import Table

from controller.commands.common import console
from controller.settings import documentation, environment_name
from controller.settings.table import SETTINGS
from metrics import measures

as_anything = click.option(
    "--output", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True
)


@click.command()
@as_anything
def settings(output: str) -> None:
    """List every setting: key, type, default and meaning.

    \b
      kafka-zk-controller settings --output json | jq -r '.[] | select(.is_required) | .key'
    """
    if output == "markdown":
        click.echo(documentation.as_markdown(), nl=False)
    elif output == "json":
        rows = [
            {
                "key": s.key,
                "environment": environment_name(s.key),
                "takes": s.kind.name,
                "default": s.default,
                "is_required": s.is_required,
                "is_kafkas": s.is_kafkas,
                "counts_at_once": s.counts_at_once,
                "doc": s.doc,
            }
            for s in SETTINGS
        ]
        click.echo(json.dumps(rows, indent=2))
    else:
        headings = ("key", "takes", "default", "at run time", "meaning")
        table = Table(*headings, title="Settings (Kafka's own names unless marked *)")
        for s in SETTINGS:
            key, default = s.key + ("" if s.is_kafkas else " *"), documentation.default_of(s)
            table.add_row(key, s.kind.name, default, documentation.at_run_time(s), s.doc)
        console().print(table)


@click.command()
@as_anything
def metrics(output: str) -> None:
    """List every metric, with Kafka's own name where there is one.

    \b
      kafka-zk-controller metrics --output json | jq -r '.[].name'
    """
    if output == "markdown":
        click.echo(measures.as_markdown(), nl=False)
    elif output == "json":
        rows = [
            {"name": m.shown_name, "kind": m.kind, "labels": m.labels, "help": m.help, "aliases": m.aliases}
            for m in measures.MEASURES
        ]
        click.echo(json.dumps(rows, indent=2))
    else:
        table = Table("name", "kind", "labels", "meaning", title="Metrics")
        for m in measures.MEASURES:
            table.add_row(m.shown_name, m.kind, ", ".join(m.labels), m.help)
        console().print(table)
