"""`pipeline-broker quotas`: manage quotas of users, client ids and addresses."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import click

from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.quotas import Quota, alter_quotas, entity_words, quota_text, quotas_of
from pipeline_broker.commands.cluster.arguments import Command, as_json_option, with_options
from pipeline_broker.commands.cluster.bootstrap import Bootstrap, ClientCommand, ClientCommands, with_bootstrap
from pipeline_broker.commands.cluster.shown import print_json, print_table
from pipeline_broker.commands.option_types import Setting as SettingType

__all__ = ["quotas"]

KINDS = {"user": "user", "client": "client-id", "ip": "ip"}
"""Kafka's entity types by option."""
DEFAULT_ENTITY = "(default)"


def _entity_options(function: Command) -> Command:

    @functools.wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> None:
        entity: dict[str, str | None] = {}
        for option, kind in KINDS.items():
            name, is_default = options.pop(option), options.pop(f"{option}_defaults")
            if name is not None and is_default:
                raise click.UsageError(f"--{option} and --{option}-defaults contradict each other: give one of them")
            if name is not None or is_default:
                entity[kind] = name
        if "ip" in entity and len(entity) > 1:
            raise click.UsageError("--ip cannot be combined with --user and --client: leave these out")
        function(*arguments, entity=entity, **options)

    return with_options(
        wrapper,
        click.option("--user", help="Select this user."),
        click.option("--user-defaults", is_flag=True, help="Select all users without a quota of their own."),
        click.option("--client", help="Select clients with this client id; with --user, only those of that user."),
        click.option("--client-defaults", is_flag=True, help="Select all client ids without a quota of their own."),
        click.option("--ip", help="Select connections from this address."),
        click.option("--ip-defaults", is_flag=True, help="Select all addresses without a quota of their own."),
    )


@click.group(
    cls=ClientCommands,
    epilog="""\b
Examples:
  pipeline-broker quotas list
  pipeline-broker quotas set --client billing producer_byte_rate=1048576
  pipeline-broker quotas set --user ada --client-defaults request_percentage=50
  pipeline-broker quotas delete --client billing""",
)
def quotas() -> None:
    """List, set and delete quotas of users, clients and addresses of any Kafka cluster, like kafka-configs."""


@quotas.command("list", cls=ClientCommand)
@_entity_options
@as_json_option
@with_bootstrap
def list_(bootstrap: Bootstrap, entity: Mapping[str, str | None], *, as_json: bool) -> None:
    """List the quotas of an entity and of its combinations with others; without options, all quotas.

    Examples:
      pipeline-broker quotas list
      pipeline-broker quotas list --user ada --json
    """

    async def program(cluster: ClusterClient) -> list[Quota]:
        return await quotas_of(cluster, entity, is_strict=False)

    found = bootstrap.run(program)
    if as_json:
        print_json([{"entity": it.entity, "quota": it.name, "value": it.value} for it in found])
        return
    rows = [_row(it) for it in found]
    print_table(rows, [*(option for option in KINDS if any(option in row for row in rows)), "quota", "value"])


def _row(quota: Quota) -> dict[str, str]:
    parts = {
        option: DEFAULT_ENTITY if quota.entity[kind] is None else str(quota.entity[kind])
        for option, kind in KINDS.items()
        if kind in quota.entity
    }
    return {**parts, "quota": quota.name, "value": quota_text(quota.value)}


@quotas.command("set", cls=ClientCommand)
@click.argument("settings", nargs=-1, required=True, type=SettingType(), metavar="QUOTA=VALUE...")
@_entity_options
@as_json_option
@with_bootstrap
def set_(
    bootstrap: Bootstrap, settings: Sequence[tuple[str, str]], entity: Mapping[str, str | None], *, as_json: bool
) -> None:
    """Set quotas of an entity. If one is invalid, none is set.

    The quotas are producer_byte_rate, consumer_byte_rate (bytes/s), request_percentage, controller_mutation_rate, and,
    for an address, connection_creation_rate.

    Examples:
      pipeline-broker quotas set --client billing producer_byte_rate=1048576
      pipeline-broker quotas set --ip-defaults connection_creation_rate=10
    """
    _change(bootstrap, entity, dict(settings), as_json=as_json)


@quotas.command(cls=ClientCommand)
@click.argument("names", nargs=-1, metavar="[QUOTA]...")
@_entity_options
@as_json_option
@with_bootstrap
def delete(bootstrap: Bootstrap, names: Sequence[str], entity: Mapping[str, str | None], *, as_json: bool) -> None:
    """Delete the named quotas of an entity; without names, all its quotas.

    Examples:
      pipeline-broker quotas delete --client billing
      pipeline-broker quotas delete --user ada --client-defaults request_percentage
    """
    _change(bootstrap, entity, dict.fromkeys(names), as_json=as_json)


def _change(
    bootstrap: Bootstrap, entity: Mapping[str, str | None], changes: Mapping[str, str | None], *, as_json: bool
) -> None:
    # Empty `changes` delete all quotas of the entity.
    if not entity:
        raise click.UsageError(
            "an entity is missing: give --user, --client, --ip, --user-defaults, --client-defaults or --ip-defaults"
        )

    async def program(cluster: ClusterClient) -> tuple[Mapping[str, str | None], str]:
        wanted = changes or {it.name: None for it in await quotas_of(cluster, entity, is_strict=True)}
        if not wanted:
            raise ClientError(f"{entity_words(entity)} has no quota: see `quotas list`")
        await alter_quotas(cluster, entity, wanted)
        return wanted, entity_words(entity)

    changed, words = bootstrap.run(program)
    if as_json:
        print_json({"entity": entity, "changed": sorted(changed)})
    else:
        done = "deleted" if None in changed.values() else "changed"
        click.echo(f"{done} {', '.join(sorted(changed))} of {words}")
