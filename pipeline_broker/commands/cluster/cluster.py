"""`pipeline-broker cluster`: describe the brokers of a cluster and their disks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.cluster_description import describe_cluster, log_dirs_of
from pipeline_broker.commands.cluster.arguments import as_json_option
from pipeline_broker.commands.cluster.bootstrap import Bootstrap, ClientCommand, ClientCommands, with_bootstrap
from pipeline_broker.commands.cluster.completing import complete_topics
from pipeline_broker.commands.cluster.shown import print_json, print_table

__all__ = ["cluster"]


@click.group(
    cls=ClientCommands,
    epilog="""\b
Examples:
  pipeline-broker cluster describe
  pipeline-broker cluster log-dirs --topic orders""",
)
def cluster() -> None:
    """Describe the brokers of any Kafka cluster and their disks, like kafka-cluster and kafka-log-dirs."""


@cluster.command(cls=ClientCommand)
@as_json_option
@with_bootstrap
def describe(bootstrap: Bootstrap, *, as_json: bool) -> None:
    """Show the cluster id, the controller, and each broker with the number of partitions that it leads.

    Examples:
      pipeline-broker cluster describe
      pipeline-broker cluster describe --json | jq -r .cluster_id
    """

    async def program(cluster: ClusterClient) -> dict[str, Any]:
        return await describe_cluster(cluster)

    described = bootstrap.run(program)
    if as_json:
        print_json(described)
        return
    count = len(described["brokers"])
    controller = described["controller"]
    click.echo(
        f"cluster {described['cluster_id']}: {count} broker{'s' * (count != 1)}, "
        f"controller {'-' if controller is None else controller}"
    )
    print_table(described["brokers"], ["broker", "host", "port", "rack", "leads"])


@cluster.command("log-dirs", cls=ClientCommand)
@click.option("--broker", "brokers", type=click.IntRange(0), multiple=True, help="Show only this broker; repeatable.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    shell_complete=complete_topics,
    help="Show only partitions of this topic; repeatable.",
)
@as_json_option
@with_bootstrap
def log_dirs(bootstrap: Bootstrap, brokers: Sequence[int], topics: Sequence[str], *, as_json: bool) -> None:
    """Show the log directories of brokers, the free space on their disks, and the size of each partition.

    Examples:
      pipeline-broker cluster log-dirs
      pipeline-broker cluster log-dirs --broker 1 --topic orders --json
    """

    async def program(cluster: ClusterClient) -> list[dict[str, Any]]:
        return await log_dirs_of(cluster, brokers, topics)

    found = bootstrap.run(program)
    if as_json:
        print_json(found)
        return
    print_table(found, ["broker", "directory", "total_bytes", "usable_bytes"])
    rows = [{"broker": it["broker"], **row} for it in found for row in it["partitions"]]
    if rows:
        click.echo()
        print_table(rows, ["broker", "topic", "partition", "bytes"])
