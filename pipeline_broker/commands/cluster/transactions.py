"""`pipeline-broker transactions`: list and describe transactions, and abort hanging ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import attrs
import click

from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.transactions import (
    ActiveProducer,
    HangingTransaction,
    ListedTransaction,
    TransactionDescription,
    abort_transaction,
    describe_transaction,
    find_hanging,
    list_transactions,
    producers_of,
)
from pipeline_broker.commands.cluster.arguments import PARTITION_MAX, as_json_option
from pipeline_broker.commands.cluster.bootstrap import Bootstrap, ClientCommand, ClientCommands, with_bootstrap
from pipeline_broker.commands.cluster.completing import complete_topics
from pipeline_broker.commands.cluster.shown import print_json, print_table

__all__ = ["transactions"]

TIMEOUT_MINUTES = 15
"""Kafka's default of transaction.max.timeout.ms, after which the coordinator ends every transaction that it knows."""
_partition = click.IntRange(0, PARTITION_MAX)


@click.group(
    cls=ClientCommands,
    epilog="""\b
Examples:
  pipeline-broker transactions list --state Ongoing
  pipeline-broker transactions describe transfers-1
  pipeline-broker transactions find-hanging
  pipeline-broker transactions abort orders 0 --start-offset 1200""",
)
def transactions() -> None:
    """List and describe transactions of any Kafka cluster, and abort hanging ones, like kafka-transactions."""


@transactions.command("list", cls=ClientCommand)
@click.option(
    "--state", "states", multiple=True, help="List only transactions in this state, such as Ongoing; repeatable."
)
@as_json_option
@with_bootstrap
def list_(bootstrap: Bootstrap, states: Sequence[str], *, as_json: bool) -> None:
    """List transactions with their coordinators, producers and states.

    Examples:
      pipeline-broker transactions list
      pipeline-broker transactions list --state Ongoing --json
    """

    async def program(cluster: ClusterClient) -> list[ListedTransaction]:
        return await list_transactions(cluster, states)

    rows = [attrs.asdict(it) for it in bootstrap.run(program)]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, ["transactional_id", "coordinator", "producer_id", "state"])


@transactions.command(cls=ClientCommand)
@click.argument("transactional_ids", nargs=-1, required=True, metavar="TRANSACTIONAL-ID...")
@as_json_option
@with_bootstrap
def describe(bootstrap: Bootstrap, transactional_ids: Sequence[str], *, as_json: bool) -> None:
    """Show the producers of transactions, their start times and their partitions.

    Examples:
      pipeline-broker transactions describe transfers-1
    """

    async def program(cluster: ClusterClient) -> list[TransactionDescription]:
        return [await describe_transaction(cluster, it) for it in transactional_ids]

    rows = [
        {
            **attrs.asdict(it),
            "partitions": [f"{topic}-{partition}" for topic, partition in it.partitions],
        }
        for it in bootstrap.run(program)
    ]
    if as_json:
        print_json(rows)
        return
    columns = ["transactional_id", "coordinator", "producer_id", "producer_epoch", "state", "timeout_ms"]
    print_table(rows, [*columns, "started_ms", "partitions"])


@transactions.command(cls=ClientCommand)
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--partition", "-p", "partitions", type=_partition, multiple=True, help="Show only this partition; repeatable."
)
@as_json_option
@with_bootstrap
def producers(bootstrap: Bootstrap, topic: str, partitions: Sequence[int], *, as_json: bool) -> None:
    """Show the active producers of TOPIC, and the first offsets of their open transactions.

    Examples:
      pipeline-broker transactions producers orders --partition 0
    """

    async def program(cluster: ClusterClient) -> list[ActiveProducer]:
        return await producers_of(cluster, topic, partitions)

    rows = [attrs.asdict(it) for it in bootstrap.run(program)]
    if as_json:
        print_json(rows)
        return
    columns = ["partition", "producer_id", "producer_epoch", "coordinator_epoch", "last_sequence", "last_ms"]
    print_table(rows, [*columns, "started_at"])


@transactions.command("find-hanging", cls=ClientCommand)
@click.option(
    "--topic", "topics", multiple=True, shell_complete=complete_topics, help="Search only this topic; repeatable."
)
@click.option(
    "--partition", "-p", "partitions", type=_partition, multiple=True, help="Search only this partition; repeatable."
)
@click.option(
    "--max-transaction-timeout",
    "minutes",
    type=click.FloatRange(0),
    default=TIMEOUT_MINUTES,
    show_default=True,
    help="Ignore transactions whose last batch is younger than this many minutes.",
)
@as_json_option
@with_bootstrap
def find_hanging_(
    bootstrap: Bootstrap, topics: Sequence[str], partitions: Sequence[int], minutes: float, *, as_json: bool
) -> None:
    """Find transactions that no coordinator will end. They hide all later records from read_committed consumers.

    Examples:
      pipeline-broker transactions find-hanging
      pipeline-broker transactions find-hanging --topic orders --max-transaction-timeout 1
    """
    before_ms = round(time.time() * 1000 - minutes * 60_000)

    async def program(cluster: ClusterClient) -> list[HangingTransaction]:
        return await find_hanging(cluster, topics, partitions, before_ms)

    rows: list[dict[str, Any]] = [
        {
            "topic": it.producer.topic,
            "partition": it.producer.partition,
            "producer_id": it.producer.producer_id,
            "producer_epoch": it.producer.producer_epoch,
            "coordinator_epoch": it.producer.coordinator_epoch,
            "start_offset": it.producer.started_at,
            "last_ms": it.producer.last_ms,
            "transactional_id": it.transactional_id,
        }
        for it in bootstrap.run(program)
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, ["topic", "partition", "producer_id", "producer_epoch", "start_offset", "transactional_id"])


@transactions.command(cls=ClientCommand)
@click.argument("topic", shell_complete=complete_topics)
@click.argument("partition", type=_partition)
@click.option("--start-offset", type=click.IntRange(0), required=True, help="First offset of the transaction.")
@as_json_option
@with_bootstrap
def abort(bootstrap: Bootstrap, topic: str, partition: int, start_offset: int, *, as_json: bool) -> None:
    """Abort a hanging transaction of a partition; `find-hanging` shows its first offset.

    Examples:
      pipeline-broker transactions abort orders 0 --start-offset 1200
    """

    async def program(cluster: ClusterClient) -> ActiveProducer:
        return await abort_transaction(cluster, topic, partition, start_offset)

    ended = bootstrap.run(program)
    if as_json:
        print_json({"topic": topic, "partition": partition, "producer_id": ended.producer_id, "aborted": True})
    else:
        click.echo(f"aborted the transaction of producer {ended.producer_id} in {topic}-{partition}")
