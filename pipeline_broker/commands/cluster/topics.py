"""`pipeline-broker topics`: list, describe, create, alter and delete topics.

Like Kafka's tools, `delete` does not ask for confirmation. It takes exact names; only `list` takes patterns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.configs import Subject, alter_settings, settings_of
from pipeline_broker.client.errors import BrokerRefused, NoSuchTopic
from pipeline_broker.client.topics import (
    DEFAULT,
    add_partitions,
    create_topic,
    delete_topic,
    describe_topic,
    list_topics,
)
from pipeline_broker.client.topology import Topic
from pipeline_broker.commands.cluster.arguments import as_json_option, is_wanted
from pipeline_broker.commands.cluster.bootstrap import Bootstrap, ClientCommand, ClientCommands, with_bootstrap
from pipeline_broker.commands.cluster.completing import complete_topics
from pipeline_broker.commands.cluster.shown import print_json, print_table
from pipeline_broker.commands.option_types import Setting

__all__ = ["topics"]

_topic = click.argument("topic", shell_complete=complete_topics)
_config = click.option(
    "--config",
    "configs",
    type=Setting("cleanup.policy=compact"),
    multiple=True,
    help="A setting of the topic, with Kafka's name; repeatable.",
)


@click.group(
    cls=ClientCommands,
    epilog="""\b
Examples:
  pipeline-broker topics list 'orders*' --long
  pipeline-broker topics create orders --partitions 6 --config cleanup.policy=compact
  pipeline-broker topics describe orders --json
  pipeline-broker topics alter orders --partitions 12 --config retention.ms=86400000
  pipeline-broker topics delete orders""",
)
def topics() -> None:
    """List, describe, create, alter and delete topics of any Kafka cluster."""


@topics.command("list", cls=ClientCommand)
@click.argument("patterns", nargs=-1)
@click.option("--internal", is_flag=True, help="Include internal topics.")
@click.option("--long", "-l", "is_long", is_flag=True, help="Show partitions, replicas and ids.")
@as_json_option
@with_bootstrap
def list_(bootstrap: Bootstrap, patterns: Sequence[str], *, internal: bool, is_long: bool, as_json: bool) -> None:
    """List topics. A PATTERN such as 'orders*' selects by name.

    Examples:
      pipeline-broker topics list
      pipeline-broker topics list 'orders*' '*-dlq' --long
      pipeline-broker topics list --json | jq -r '.[].topic'
    """

    async def program(cluster: ClusterClient) -> list[Topic]:
        return await list_topics(cluster)

    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replication_factor": topic.replication_factor,
            "id": topic.topic_id,
            "internal": topic.is_internal,
        }
        for topic in bootstrap.run(program)
        if (internal or not topic.is_internal) and is_wanted(topic.name, patterns)
    ]
    if as_json:
        print_json(rows)
    elif is_long:
        print_table(rows, ["topic", "partitions", "replication_factor", "id"])
    else:
        for row in rows:
            click.echo(row["topic"])


@topics.command(cls=ClientCommand)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@as_json_option
@with_bootstrap
def describe(bootstrap: Bootstrap, topics: Sequence[str], *, as_json: bool) -> None:
    """Show partitions with their leaders, replicas and offsets, and the topic's own settings.

    Examples:
      pipeline-broker topics describe orders
      pipeline-broker topics describe orders payments --json
    """

    async def program(cluster: ClusterClient) -> list[dict[str, Any]]:
        described = []
        for name in topics:
            topic = await describe_topic(cluster, name)
            settings = await settings_of(cluster, Subject("topic", name))
            topic["configs"] = {it.name: it.value for it in settings if it.source == "topic"}
            described.append(topic)
        return described

    described = bootstrap.run(program)
    if as_json:
        print_json(described)
        return
    for number, topic in enumerate(described):
        click.echo("\n" * (number > 0) + _heading(topic))
        print_table(topic["partitions"], ["partition", "leader", "replicas", "isr", "start", "end"])


def _heading(topic: dict[str, Any]) -> str:
    settings = ", ".join(f"{name}={value}" for name, value in topic["configs"].items())
    identity = f" ({topic['id']})" if topic["id"] else ""
    return (
        f"{topic['topic']}{identity}: {len(topic['partitions'])} partitions, "
        f"replication factor {topic['replication_factor']}" + (f", {settings}" if settings else "")
    )


@topics.command(cls=ClientCommand)
@_topic
@click.option("--partitions", type=click.IntRange(1, 1_000_000), help="Number of partitions. (default: the broker's)")
@click.option(
    "--replication-factor", type=click.IntRange(1, 32_767), help="Number of replicas. (default: the broker's)"
)
@_config
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists.")
@as_json_option
@with_bootstrap
def create(
    bootstrap: Bootstrap,
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: Sequence[tuple[str, str]],
    *,
    if_not_exists: bool,
    as_json: bool,
) -> None:
    """Create a topic.

    Examples:
      pipeline-broker topics create orders
      pipeline-broker topics create orders --partitions 6 --config retention.ms=86400000 --if-not-exists
    """

    async def program(cluster: ClusterClient) -> bool:
        try:
            await create_topic(cluster, topic, partitions or DEFAULT, replication_factor or DEFAULT, dict(configs))
        except BrokerRefused as error:
            if not if_not_exists or error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    created = bootstrap.run(program)
    if as_json:
        print_json({"topic": topic, "created": created})
    else:
        click.echo(f"created {topic}" if created else f"{topic} exists")


@topics.command(cls=ClientCommand)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="Ignore missing topics.")
@as_json_option
@with_bootstrap
def delete(bootstrap: Bootstrap, topics: Sequence[str], *, if_exists: bool, as_json: bool) -> None:
    """Delete topics with all their records, permanently and without a prompt.

    Examples:
      pipeline-broker topics delete orders
      pipeline-broker topics delete orders payments --if-exists
    """

    async def program(cluster: ClusterClient) -> list[dict[str, Any]]:
        rows = []
        for name in topics:
            try:
                await delete_topic(cluster, name)
            except NoSuchTopic:
                if not if_exists:
                    raise
                rows.append({"topic": name, "deleted": False})
            else:
                rows.append({"topic": name, "deleted": True})
        return rows

    rows = bootstrap.run(program)
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            click.echo(f"deleted {row['topic']}" if row["deleted"] else f"{row['topic']} does not exist")


@topics.command(cls=ClientCommand)
@_topic
@click.option("--partitions", type=click.IntRange(1, 1_000_000), help="New number of partitions; must be higher.")
@_config
@click.option("--delete-config", "deleted", multiple=True, help="Reset this setting to its default; repeatable.")
@as_json_option
@with_bootstrap
def alter(
    bootstrap: Bootstrap,
    topic: str,
    partitions: int | None,
    configs: Sequence[tuple[str, str]],
    deleted: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Change the settings of a topic, or add partitions.

    Examples:
      pipeline-broker topics alter orders --config retention.ms=86400000 --delete-config max.message.bytes
      pipeline-broker topics alter orders --partitions 12
    """
    changes: dict[str, str | None] = {**dict(configs), **dict.fromkeys(deleted)}
    if partitions is None and not changes:
        raise click.UsageError("nothing to change: give --partitions, --config or --delete-config")

    async def program(cluster: ClusterClient) -> None:
        if changes:
            await alter_settings(cluster, Subject("topic", topic), changes)
        if partitions is not None:
            await add_partitions(cluster, topic, partitions)

    bootstrap.run(program)
    if as_json:
        print_json({"topic": topic, "partitions": partitions, "configs": changes})
    else:
        click.echo(f"altered {topic}")
