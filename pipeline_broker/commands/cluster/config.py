"""`pipeline-broker config`: settings of topics, brokers and groups, and quotas. Secret values are never shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.configs import Setting, Subject, alter_settings, settings_of
from pipeline_broker.commands.cluster.arguments import as_json_option
from pipeline_broker.commands.cluster.bootstrap import Bootstrap, ClientCommand, ClientCommands, with_bootstrap
from pipeline_broker.commands.cluster.shown import print_json, print_table
from pipeline_broker.commands.option_types import Setting as SettingType

__all__ = ["config"]

KINDS = ("topic", "broker", "group", "client-metrics", "broker-logger", "user", "client", "ip")
_kind = click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
_words = click.argument("words", nargs=-1, metavar="[NAME] ...")
_default = click.option("--default", "is_default", is_flag=True, help="Select the default of KIND, in place of NAME.")


@click.group(
    cls=ClientCommands,
    epilog="""\b
Examples:
  pipeline-broker config get topic orders
  pipeline-broker config set topic orders retention.ms=86400000
  pipeline-broker config delete topic orders retention.ms
  pipeline-broker config get broker 1 num.io.threads
  pipeline-broker config set broker --default log.retention.hours=24
  pipeline-broker config set client billing producer_byte_rate=1048576""",
)
def config() -> None:
    """Show and change settings and quotas of any Kafka cluster.

    KIND is one of topic, broker, group, client-metrics and broker-logger, which have settings, or one of user, client
    and ip, which have quotas.
    """


@config.command(cls=ClientCommand)
@_kind
@_words
@_default
@click.option("--all", "is_all", is_flag=True, help="Include settings with default values.")
@as_json_option
@with_bootstrap
def get(
    bootstrap: Bootstrap, kind: str, words: Sequence[str], *, is_default: bool, is_all: bool, as_json: bool
) -> None:
    """Show the named settings of KIND NAME; without names, those that differ from the default.

    Examples:
      pipeline-broker config get topic orders
      pipeline-broker config get topic orders retention.ms cleanup.policy
      pipeline-broker config get broker 1 --all --json
      pipeline-broker config get user ada
    """
    name, names = _named(kind, words, is_default=is_default)

    async def program(cluster: ClusterClient) -> list[Setting]:
        return await settings_of(cluster, Subject(kind, name), names)

    # Named settings are shown even if they have their default value.
    rows = [
        {
            "name": it.name,
            "value": it.value,
            "source": it.source,
            "secret": it.is_secret,
            "read_only": it.is_read_only,
        }
        for it in bootstrap.run(program)
        if names or is_all or not it.is_default
    ]
    if as_json:
        print_json({"kind": kind, "name": name, "settings": rows})
    else:
        print_table(
            [{**row, "value": "(secret)" if row["secret"] else row["value"]} for row in rows],
            ["name", "value", "source"],
        )


@config.command("set", cls=ClientCommand)
@_kind
@_words
@_default
@as_json_option
@with_bootstrap
def set_(bootstrap: Bootstrap, kind: str, words: Sequence[str], *, is_default: bool, as_json: bool) -> None:
    """Apply every SETTING=VALUE to KIND NAME, or none of them.

    Examples:
      pipeline-broker config set topic orders retention.ms=86400000 cleanup.policy=delete
      pipeline-broker config set broker --default num.io.threads=16
      pipeline-broker config set client billing producer_byte_rate=1048576
    """
    name, settings = _named(kind, words, is_default=is_default)
    changes = dict(SettingType().convert(setting, None, None) for setting in settings)
    _change(bootstrap, kind, name, changes, as_json=as_json)


@config.command(cls=ClientCommand)
@_kind
@_words
@_default
@as_json_option
@with_bootstrap
def delete(bootstrap: Bootstrap, kind: str, words: Sequence[str], *, is_default: bool, as_json: bool) -> None:
    """Reset the named settings of KIND NAME to their defaults.

    Examples:
      pipeline-broker config delete topic orders retention.ms
      pipeline-broker config delete client billing producer_byte_rate
    """
    name, names = _named(kind, words, is_default=is_default)
    _change(bootstrap, kind, name, dict.fromkeys(names), as_json=as_json)


def _named(kind: str, words: Sequence[str], *, is_default: bool) -> tuple[str | None, Sequence[str]]:
    if is_default:
        if kind == "topic":
            raise click.UsageError("topics have no default: give NAME, or set the property of brokers")
        return None, words
    if not words or not words[0]:
        raise click.UsageError(f"{kind} needs a name: give NAME" + ("" if kind == "topic" else " or --default"))
    return words[0], words[1:]


def _change(
    bootstrap: Bootstrap, kind: str, name: str | None, changes: Mapping[str, str | None], *, as_json: bool
) -> None:
    if not changes:
        raise click.UsageError("nothing to change: name a setting")

    async def program(cluster: ClusterClient) -> str:
        subject = Subject(kind, name)
        await alter_settings(cluster, subject, changes)
        return str(subject)

    subject = bootstrap.run(program)
    if as_json:
        print_json({"kind": kind, "name": name, "changed": sorted(changes)})
    else:
        click.echo(f"changed {', '.join(sorted(changes))} of {subject}")
