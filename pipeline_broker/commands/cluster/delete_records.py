"""`pipeline-broker delete-records`: delete records before an offset. Shows a plan unless `--execute` is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.record_deletion import delete_planned, plan_deletion
from pipeline_broker.client.rights import note_needed
from pipeline_broker.commands.cluster.arguments import as_json_option, partitions_by_topic, place_of
from pipeline_broker.commands.cluster.bootstrap import Bootstrap, ClientCommand, with_bootstrap
from pipeline_broker.commands.cluster.completing import complete_topics
from pipeline_broker.commands.cluster.shown import print_json, print_table

__all__ = ["delete_records"]


@click.command("delete-records", cls=ClientCommand)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:PARTITION,...]...", shell_complete=complete_topics)
@click.option(
    "--before",
    metavar="PLACE",
    required=True,
    help="Delete records before end, an offset, -10 (ten before the end), or @TIME.",
)
@click.option("--execute", is_flag=True, help="Delete the records; without this option, only show the plan.")
@as_json_option
@with_bootstrap
def delete_records(bootstrap: Bootstrap, topics: Sequence[str], before: str, *, execute: bool, as_json: bool) -> None:
    """Delete the records of topics before a position, permanently, like kafka-delete-records.

    Without --execute, the command only shows the plan.

    A TIME is 2026-08-01T12:00 (local, or with a zone), milliseconds since 1970, or -5m for five minutes ago.

    Examples:
      pipeline-broker delete-records orders --before latest
      pipeline-broker delete-records orders:0,1 --before 1200 --execute
      pipeline-broker delete-records orders payments --before @-7d --execute
    """
    place = place_of(before, "--before")
    chosen = partitions_by_topic(topics, "TOPIC")

    async def program(cluster: ClusterClient) -> list[dict[str, Any]]:
        if execute:
            note_needed("delete", "topic")
        plan = await plan_deletion(cluster, chosen, place)
        if execute:
            await delete_planned(cluster, plan)
        return plan

    plan = bootstrap.run(program)
    if as_json:
        print_json({"executed": execute, "partitions": plan})
        return
    print_table(plan, ["topic", "partition", "start", "to", "end"])
    click.echo("deleted" if execute else "nothing was deleted: give --execute to delete these records", err=True)
