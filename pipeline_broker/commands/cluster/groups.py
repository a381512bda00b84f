"""`pipeline-broker groups`: list, describe and delete groups, and reset their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.group_description import describe_group, describe_groups
from pipeline_broker.client.group_reset import ResetPlan, commit_plan, plan_reset
from pipeline_broker.client.groups import delete_groups, list_groups
from pipeline_broker.client.rights import note_needed
from pipeline_broker.commands.cluster.arguments import as_json_option, is_wanted, partitions_by_topic, place_of
from pipeline_broker.commands.cluster.bootstrap import Bootstrap, ClientCommand, ClientCommands, with_bootstrap
from pipeline_broker.commands.cluster.completing import complete_groups
from pipeline_broker.commands.cluster.shown import print_json, print_table

__all__ = ["groups"]

STATES = (
    "Stable",
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
    "Unknown",
)
"""Kafka's names of group states, of all kinds of groups."""
_BACKUPS = (("standby", "standby"), ("warmup", "warm-up"))
_groups = click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)


@click.group(
    cls=ClientCommands,
    epilog="""\b
Examples:
  pipeline-broker groups list --state Stable
  pipeline-broker groups describe billing
  pipeline-broker groups reset-offsets billing --topic orders --to @2026-08-01T00:00
  pipeline-broker groups reset-offsets billing --to earliest --execute
  pipeline-broker groups delete billing""",
)
def groups() -> None:
    """List, describe and delete groups of any Kafka cluster, and reset their offsets."""


@groups.command("list", cls=ClientCommand)
@click.argument("patterns", nargs=-1)
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="List only groups in this state, such as Stable or Empty; repeatable.",
)
@click.option(
    "--type",
    "types",
    type=click.Choice(["classic", "consumer", "share", "streams"]),
    multiple=True,
    help="List only groups of this type; repeatable.",
)
@as_json_option
@with_bootstrap
def list_(
    bootstrap: Bootstrap, patterns: Sequence[str], states: Sequence[str], types: Sequence[str], *, as_json: bool
) -> None:
    """List groups, with member counts and lag. A PATTERN such as 'billing*' selects by id.

    Examples:
      pipeline-broker groups list
      pipeline-broker groups list 'billing*' --state Empty --json
    """

    async def program(cluster: ClusterClient) -> list[dict[str, Any]]:
        chosen = [
            it
            for it in await list_groups(cluster)
            if (not states or it.state in states) and (not types or it.type in types) and is_wanted(it.group, patterns)
        ]
        return await describe_groups(cluster, chosen)

    rows = bootstrap.run(program)
    if as_json:
        print_json(rows)
    else:
        print_table(rows, ["group", "type", "protocol", "state", "coordinator", "members", "lag"])


@groups.command(cls=ClientCommand)
@_groups
@as_json_option
@with_bootstrap
def describe(bootstrap: Bootstrap, groups: Sequence[str], *, as_json: bool) -> None:
    """Show members with their assignments, committed offsets and lag.

    Examples:
      pipeline-broker groups describe billing
      pipeline-broker groups describe billing --json | jq '.[].lag'
    """

    async def program(cluster: ClusterClient) -> list[dict[str, Any]]:
        return [await describe_group(cluster, group) for group in groups]

    described = bootstrap.run(program)
    if as_json:
        print_json(described)
        return
    for number, group in enumerate(described):
        click.echo("\n" * (number > 0) + _heading(group))
        if group["offsets"]:
            print_table(group["offsets"], ["topic", "partition", "committed", "end", "lag", "member", "host"])
        for member in group["members"]:
            assigned = "; ".join(f"{it['topic']} {','.join(map(str, it['partitions']))}" for it in member["assignment"])
            backups = [f"{kind} tasks {', '.join(member[it])}" for it, kind in _BACKUPS if member.get(it)]
            click.echo(
                f"member {member['member']} ({member['client_id']} at {member['host']}): "
                + "; ".join([assigned or "nothing", *backups])
            )


def _heading(group: dict[str, Any]) -> str:
    members = len(group["members"])
    parts = [
        f"{group['group']}: {group['type']} group, {group['state']}",
        f"{members} member{'s' * (members != 1)}",
        f"coordinator {group['coordinator']}",
    ]
    if group["assignor"]:
        parts.append(f"assignor {group['assignor']}")
    if group["lag"] is not None:
        parts.append(f"lag {group['lag']}")
    return ", ".join(parts)


@groups.command(cls=ClientCommand)
@_groups
@as_json_option
@with_bootstrap
def delete(bootstrap: Bootstrap, groups: Sequence[str], *, as_json: bool) -> None:
    """Delete groups without members, including their committed offsets.

    Examples:
      pipeline-broker groups delete billing
    """

    async def program(cluster: ClusterClient) -> None:
        await delete_groups(cluster, groups)

    bootstrap.run(program)
    if as_json:
        print_json([{"group": group, "deleted": True} for group in groups])
    else:
        for group in groups:
            click.echo(f"deleted {group}")


@groups.command("reset-offsets", cls=ClientCommand)
@click.argument("group", shell_complete=complete_groups)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:PARTITION,...]",
    help="A topic, or some of its partitions; repeatable. (default: all with committed offsets)",
)
@click.option("--to", metavar="PLACE", help="Reset to earliest, latest, an offset, -10 (ten before the end), or @TIME.")
@click.option("--shift", type=int, help="Move committed offsets by this number; back if negative.")
@click.option("--execute", is_flag=True, help="Reset the offsets; without this option, only show the plan.")
@as_json_option
@with_bootstrap
def reset_offsets(
    bootstrap: Bootstrap,
    group: str,
    topics: Sequence[str],
    to: str | None,
    shift: int | None,
    *,
    execute: bool,
    as_json: bool,
) -> None:
    """Reset the committed offsets of a group, which must have no members.

    Without --execute, the command only shows the plan.

    A TIME is 2026-08-01T12:00 (local, or with a zone), milliseconds since 1970, or -5m for five minutes ago.

    Examples:
      pipeline-broker groups reset-offsets billing --to earliest
      pipeline-broker groups reset-offsets billing --topic orders:0,1 --to @-2h --execute
      pipeline-broker groups reset-offsets billing --shift -100 --execute
    """
    if (to is None) == (shift is None):
        raise click.UsageError("give either --to or --shift")
    place = None if to is None else place_of(to, "--to")
    chosen = partitions_by_topic(topics, "--topic") if topics else None

    async def program(cluster: ClusterClient) -> ResetPlan:
        if execute:
            note_needed("read", "group", "topic")
        plan = await plan_reset(cluster, group, chosen, place, shift or 0)
        if execute:
            await commit_plan(cluster, group, plan)
        return plan

    plan = bootstrap.run(program)
    if plan.changelogs:
        click.echo(
            f"group {group} is a streams group whose state stays: records that it reads again change the state again. "
            f"To begin anew, also delete {', '.join(plan.changelogs)} and the local state of its instances "
            "(KafkaStreams.cleanUp).",
            err=True,
        )
    if plan.is_new and not execute:
        click.echo(f"group {group} does not exist: --execute would create it", err=True)
    if plan.obstacle and not execute:
        click.echo(f"--execute would be refused now: {plan.obstacle}", err=True)
    if as_json:
        print_json({"group": group, "executed": execute, "offsets": plan.rows})
        return
    print_table(plan.rows, ["topic", "partition", "from", "to"])
    click.echo("reset" if execute else "nothing was changed: give --execute to reset the offsets", err=True)
