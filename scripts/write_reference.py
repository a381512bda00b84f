"""Write the generated tables of docs/reference from what the broker declares.

Run it after a change of an API or a property: `python scripts/write_reference.py`. A test fails while a page is not
current. A generated part lies between `<!-- generated: NAME -->` and `<!-- end of NAME -->`.
"""

import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import click

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.cli import COMMANDS, main
from pipeline_broker.commands.cluster.bootstrap import ClientCommand
from pipeline_broker.config.properties import broker_properties, topic_properties
from pipeline_broker.config.resources import GROUP, RESOURCE_KINDS
from pipeline_broker.config.settings import is_acted_on, is_topic_setting_acted_on
from pipeline_broker.wire.registry import API_KEYS

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs/reference"
PART = re.compile(r"<!-- generated: (?P<name>[^>]*) -->\n.*?<!-- end of (?P=name) -->", re.DOTALL)

SUBJECTS = {
    "listeners and connections": "listener advertised. control inter. security. socket. conn max.conn node. broker.",
    "TLS": "ssl.",
    "authentication and access": "sasl. authorizer. delegation.",
    "requests and threads": "num.io num.network background. queued. quota. fetch. max.inc max.request telemetry.",
    "topics and logs": "num.partitions auto.create delete.topic message. compression. log. min.insync",
    "share groups": "group.share. share.",
    "groups and offsets": "group. offset",
    "transactions and producers": "transaction producer.",
    "this broker's own": "pipeline. wal.",
}
"""Subjects of broker properties, each with prefixes of names; the first match counts."""


SHARED_OPTIONS = ("--bootstrap-server", "--command-config", "--set", "--timeout")
"""Options of every command for any cluster."""


def row(*cells: object) -> str:
    """Return a row of a table in Markdown."""
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def table(heading: tuple[str, ...], rows: Iterable[str]) -> str:
    """Return a table in Markdown."""
    return "\n".join([row(*heading), "|---" * len(heading) + "|", *rows])


def apis() -> str:
    """Return the APIs and their versions."""
    rows = []
    for key, api in sorted(SERVED.items()):
        declared = API_KEYS[api.key].versions
        spans = (span(api.versions[0], api.versions[-1]), span(declared[0], declared[-1]), span(*api.advertised))
        rows.append(row(int(key), api.name, *spans))
    return table(("key", "API", "served", "in Apache Kafka 4.3", "advertised"), rows)


def span(lowest: int, highest: int) -> str:
    """Return a range of versions."""
    return str(lowest) if lowest == highest else f"{lowest}-{highest}"


def subject_of(name: str) -> str:
    """Return the subject of a broker property."""
    return next(subject for subject, beginnings in SUBJECTS.items() if name.startswith(tuple(beginnings.split())))


def broker_settings(subject: str) -> str:
    """Return the broker properties of a subject that are acted on."""
    rows = [
        row(f"`{name}`", shown(definition.default), definition.documentation)
        for name, definition in sorted(broker_properties().items())
        if is_acted_on(name) and subject_of(name) == subject
    ]
    return table(("property", "default", "meaning"), rows)


def topic_settings() -> str:
    """Return the settings of topics that are acted on."""
    rows = [
        row(f"`{name}`", shown(definition.default), f"`{definition.broker_property}`", definition.documentation)
        for name, definition in sorted(topic_properties().items())
        if is_topic_setting_acted_on(name)
    ]
    return table(("setting of a topic", "default", "inherits", "meaning"), rows)


def group_settings() -> str:
    """Return the settings of groups that are acted on."""
    rows = [
        row(f"`{name}`", shown(definition.default), definition.documentation)
        for name, definition in sorted(RESOURCE_KINDS[GROUP].properties.items())
        if definition.documentation
    ]
    return table(("setting of a group", "default", "meaning"), rows)


def commands() -> dict[str, click.Command]:
    """Return each command that has options, by its title."""
    found: dict[str, click.Command] = {}
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        below = command.commands if isinstance(command, click.Group) else {}
        found |= {f"{name} {each}": value for each, value in below.items()} or {name: command}
    return {title: command for title, command in found.items() if options(command)}


def options(command: click.Command, *, shared: bool = False) -> list[click.Option]:
    """Return the options of a command, or those that all commands for any cluster share."""
    names = SHARED_OPTIONS if isinstance(command, ClientCommand) else ()
    found = [each for each in command.params if isinstance(each, click.Option)]
    return [each for each in found if (each.opts[0] in names) == shared]


def option_table(found: list[click.Option], command: click.Command) -> str:
    """Return a table of options; meanings are the texts of --help."""
    context = click.Context(command)
    rows = []
    for option in found:
        _, text = option.get_help_record(context) or ("", "")
        default = re.search(r"\[default: ([^;\]]*)", text)
        value = "" if option.is_flag else f" {option.make_metavar(context).strip('[]')}"
        names = ", ".join(f"`{name}{value}`" for name in option.opts + option.secondary_opts)
        meaning = re.sub(r"\s*\[[^\]]*\]$", "", option.help or "")
        rows.append(row(names, shown(default and default[1]), meaning))
    return table(("option", "default", "meaning"), rows)


def shown(default: str | None) -> str:
    """Return a default as a cell."""
    return f"`{default}`" if default else ""


@functools.cache
def parts() -> dict[str, Callable[[], str]]:
    """Return the generated parts by name."""
    found: dict[str, Callable[[], str]] = {
        "APIs": apis,
        "settings of topics": topic_settings,
        "settings of groups": group_settings,
    }
    found |= {subject: functools.partial(broker_settings, subject) for subject in SUBJECTS}
    for title, command in commands().items():
        found[f"options of {title}"] = functools.partial(option_table, options(command), command)
    listing = commands()["topics list"]
    found["options of commands for any cluster"] = functools.partial(
        option_table, options(listing, shared=True), listing
    )
    return found


def current(text: str) -> str:
    """Return a page with its generated parts made anew."""

    def part(found: re.Match[str]) -> str:
        name = found["name"]
        return f"<!-- generated: {name} -->\n{parts()[name]()}\n<!-- end of {name} -->"

    return PART.sub(part, text)


if __name__ == "__main__":
    for path in REFERENCE.glob("*.md"):
        path.write_text(current(path.read_text(encoding="utf-8")), encoding="utf-8")
