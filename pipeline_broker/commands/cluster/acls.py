"""`pipeline-broker acls`: manage access rules, with the options of kafka-acls."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import click

from pipeline_broker.client.acls import create_acls, delete_acls, list_acls
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.commands.cluster.arguments import Command, as_json_option, with_options
from pipeline_broker.commands.cluster.bootstrap import Bootstrap, ClientCommand, ClientCommands, with_bootstrap
from pipeline_broker.commands.cluster.shown import print_json, print_table
from pipeline_broker.security.acl import AclBinding, AclFilter, AclOperation, PatternType, PermissionType, ResourceType

__all__ = ["acls"]

OPERATIONS = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
    "create-tokens",
    "describe-tokens",
    "two-phase-commit",
)
RESOURCES = {
    "topics": "TOPIC",
    "groups": "GROUP",
    "transactional_ids": "TRANSACTIONAL_ID",
    "delegation_tokens": "DELEGATION_TOKEN",
    "users": "USER",
}
"""Resource types by option."""
EVERY_HOST = "*"
COLUMNS = ["type", "name", "pattern", "principal", "host", "operation", "permission"]


def _resource_options(function: Command) -> Command:
    """Add the options that name resources. The function receives them as `resources`, a list of (type, name)."""

    @functools.wraps(function)
    def wrapper(*, is_cluster: bool, **options: Any) -> None:
        resources = [(kind, name) for option, kind in RESOURCES.items() for name in options.pop(option)]
        if is_cluster:
            resources.append(("CLUSTER", "kafka-cluster"))
        function(resources=resources, **options)

    return with_options(
        wrapper,
        click.option("--topic", "topics", multiple=True, help="A topic, or * for all; repeatable."),
        click.option("--group", "groups", multiple=True, help="A group; repeatable."),
        click.option("--cluster", "is_cluster", is_flag=True, help="The cluster itself."),
        click.option("--transactional-id", "transactional_ids", multiple=True, help="A transactional id; repeatable."),
        click.option("--delegation-token", "delegation_tokens", multiple=True, help="A delegation token; repeatable."),
        click.option("--user-principal", "users", multiple=True, help="An owner of delegation tokens; repeatable."),
    )


_operations = click.option(
    "--operation",
    "operations",
    type=click.Choice(OPERATIONS, case_sensitive=False),
    multiple=True,
    help="An operation; repeatable.",
)


def _filter_options(function: Command) -> Command:
    return with_options(
        function,
        click.option(
            "--resource-pattern-type",
            "pattern",
            type=click.Choice(["any", "match", "literal", "prefixed"], case_sensitive=False),
            default="any",
            show_default=True,
            help="Pattern type of the rules; match selects every rule that applies to the name.",
        ),
        click.option(
            "--principal",
            "principals",
            multiple=True,
            help="Select rules for this principal, such as User:ada; repeatable.",
        ),
        click.option("--host", help="Select rules for this address."),
        _operations,
        click.option(
            "--permission",
            type=click.Choice(["allow", "deny"], case_sensitive=False),
            help="Select rules with this permission.",
        ),
    )


@click.group(
    cls=ClientCommands,
    epilog="""\b
Examples:
  pipeline-broker acls list --topic orders
  pipeline-broker acls add --allow-principal User:ada --producer --topic orders
  pipeline-broker acls delete --principal User:ada""",
)
def acls() -> None:
    """List, add and delete access rules (ACLs) of any Kafka cluster, like kafka-acls."""


@acls.command("list", cls=ClientCommand)
@_resource_options
@_filter_options
@as_json_option
@with_bootstrap
def list_(bootstrap: Bootstrap, *, as_json: bool, **selection: Any) -> None:
    """List the rules that match all options; without options, all rules.

    A repeated option matches any of its values.

    Examples:
      pipeline-broker acls list
      pipeline-broker acls list --topic orders --resource-pattern-type match
      pipeline-broker acls list --principal User:ada --json
    """
    _print(_for_each_filter(bootstrap, selection, deletes=False), as_json=as_json)


@acls.command(cls=ClientCommand)
@_resource_options
@click.option(
    "--resource-pattern-type",
    "pattern",
    type=click.Choice(["literal", "prefixed"], case_sensitive=False),
    default="literal",
    show_default=True,
    help="literal: apply to the exact names; prefixed: to all names that begin with them.",
)
@click.option(
    "--allow-principal",
    "allowed",
    multiple=True,
    help="Allow this principal, such as User:ada, or User:* for all; repeatable.",
)
@click.option(
    "--deny-principal", "denied", multiple=True, help="Deny this principal, even if a rule allows it; repeatable."
)
@click.option(
    "--allow-host", "allowed_hosts", multiple=True, help="Allow from this address only; repeatable. (default: all)"
)
@click.option(
    "--deny-host", "denied_hosts", multiple=True, help="Deny from this address only; repeatable. (default: all)"
)
@_operations
@click.option(
    "--producer",
    "is_producer",
    is_flag=True,
    help="Add the operations of a producer on --topic and --transactional-id.",
)
@click.option(
    "--consumer", "is_consumer", is_flag=True, help="Add the operations of a consumer on --topic and --group."
)
@click.option(
    "--idempotent", "is_idempotent", is_flag=True, help="With --producer: also add IdempotentWrite on the cluster."
)
@as_json_option
@with_bootstrap
def add(bootstrap: Bootstrap, *, as_json: bool, **rule: Any) -> None:
    """Add a rule for each combination of principal, host, resource and operation.

    Without --operation, --producer and --consumer the rules apply to all operations.

    Examples:
      pipeline-broker acls add --allow-principal User:ada --operation read --topic orders
      pipeline-broker acls add --allow-principal User:ada --consumer --topic orders --group billing
      pipeline-broker acls add --deny-principal User:eve --topic pay --resource-pattern-type prefixed
    """
    bindings = _bindings(**rule)

    async def program(cluster: ClusterClient) -> None:
        await create_acls(cluster, bindings)

    bootstrap.run(program)
    _print(bindings, as_json=as_json)


@acls.command(cls=ClientCommand)
@_resource_options
@_filter_options
@as_json_option
@with_bootstrap
def delete(bootstrap: Bootstrap, *, as_json: bool, **selection: Any) -> None:
    """Delete the rules that match all options, and show them.

    A repeated option matches any of its values.

    Examples:
      pipeline-broker acls delete --principal User:ada
      pipeline-broker acls delete --topic orders --operation write --permission allow
    """
    if not any(value for name, value in selection.items() if name != "pattern"):
        raise click.UsageError(
            "the rules to delete are not selected: give a resource, --principal, --host, --operation or --permission"
        )
    _print(_for_each_filter(bootstrap, selection, deletes=True), as_json=as_json)


def _for_each_filter(bootstrap: Bootstrap, selection: Mapping[str, Any], *, deletes: bool) -> list[AclBinding]:
    filters = _filters(**selection)

    async def program(cluster: ClusterClient) -> list[AclBinding]:
        ask = delete_acls if deletes else list_acls
        return sorted({rule for wanted in filters for rule in await ask(cluster, wanted)})

    return bootstrap.run(program)


def _filters(
    resources: Sequence[tuple[str, str]],
    pattern: str,
    principals: Sequence[str],
    host: str | None,
    operations: Sequence[str],
    permission: str | None,
) -> list[AclFilter]:
    wanted: Sequence[tuple[str, str | None]] = resources or [("ANY", None)]
    wanted_principals: Sequence[str | None] = principals or [None]
    return [
        AclFilter(
            ResourceType[kind],
            name,
            PatternType[pattern.upper()],
            None if principal is None else _principal(principal),
            host,
            AclOperation[_constant(operation)],
            PermissionType[(permission or "any").upper()],
        )
        for kind, name in wanted
        for principal in wanted_principals
        for operation in operations or ["any"]
    ]


def _bindings(
    resources: Sequence[tuple[str, str]],
    pattern: str,
    allowed: Sequence[str],
    denied: Sequence[str],
    allowed_hosts: Sequence[str],
    denied_hosts: Sequence[str],
    operations: Sequence[str],
    *,
    is_producer: bool,
    is_consumer: bool,
    is_idempotent: bool,
) -> list[AclBinding]:
    if is_idempotent and not is_producer:
        raise click.UsageError("--idempotent needs --producer")
    if is_producer or is_consumer:
        what = _client_rules(
            resources, operations, is_producer=is_producer, is_consumer=is_consumer, is_idempotent=is_idempotent
        )
    else:
        what = [(kind, name, operation) for kind, name in resources for operation in operations or ["all"]]
    who = [(it, host, "ALLOW") for it in allowed for host in allowed_hosts or [EVERY_HOST]]
    who += [(it, host, "DENY") for it in denied for host in denied_hosts or [EVERY_HOST]]
    if not who:
        raise click.UsageError("a principal is missing: give --allow-principal or --deny-principal")
    if not what:
        raise click.UsageError(
            "a resource is missing: give --topic, --group, --cluster, --transactional-id, --delegation-token or"
            " --user-principal"
        )
    return [
        AclBinding(
            ResourceType[kind],
            name,
            # The cluster has a fixed name, so --resource-pattern-type does not apply to it.
            PatternType.LITERAL if kind == "CLUSTER" else PatternType[pattern.upper()],
            _principal(principal),
            host,
            AclOperation[_constant(operation)],
            PermissionType[permission],
        )
        for principal, host, permission in who
        for kind, name, operation in what
    ]


def _client_rules(
    resources: Sequence[tuple[str, str]],
    operations: Sequence[str],
    *,
    is_producer: bool,
    is_consumer: bool,
    is_idempotent: bool,
) -> list[tuple[str, str, str]]:
    """Return (type, name, operation) of the rules that kafka-acls adds for a producer or a consumer."""
    if operations:
        raise click.UsageError("--producer and --consumer choose the operations: leave --operation out")
    kinds = {kind for kind, _ in resources}
    if "TOPIC" not in kinds or (is_consumer and "GROUP" not in kinds):
        raise click.UsageError("--producer needs --topic; --consumer needs --topic and --group")
    found = []
    for kind, name in resources:
        if kind == "TOPIC":
            wanted = ["write", "describe", "create"] * is_producer + ["read", "describe"] * is_consumer
        elif kind == "GROUP":
            wanted = ["read"] * is_consumer
        elif kind == "TRANSACTIONAL_ID":
            wanted = ["write", "describe"] * is_producer
        else:
            raise click.UsageError("--producer and --consumer accept only --topic, --group and --transactional-id")
        found += [(kind, name, operation) for operation in dict.fromkeys(wanted)]
    if is_idempotent:
        found.append(("CLUSTER", "kafka-cluster", "idempotent-write"))
    return found


def _principal(text: str) -> str:
    kind, separator, name = text.partition(":")
    if not separator or not kind or not name:
        raise click.UsageError(f"{text!r} is not a principal: write it like User:ada")
    return text


def _constant(operation: str) -> str:
    return operation.upper().replace("-", "_")


def _print(bindings: Sequence[AclBinding], *, as_json: bool) -> None:
    rows = [
        {
            "type": it.resource_type.name,
            "name": it.resource_name,
            "pattern": it.pattern_type.name,
            "principal": it.principal,
            "host": it.host,
            "operation": it.operation.name,
            "permission": it.permission.name,
        }
        for it in bindings
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, COLUMNS)
