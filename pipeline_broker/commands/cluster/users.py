"""`pipeline-broker users`: manage SCRAM users and their passwords."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from pipeline_broker.base.owner_only import exposure
from pipeline_broker.client.cluster_client import ClusterClient
from pipeline_broker.client.scram_users import UserCredential, delete_credentials, list_users, set_password
from pipeline_broker.commands.cluster.arguments import as_json_option
from pipeline_broker.commands.cluster.bootstrap import Bootstrap, ClientCommand, ClientCommands, with_bootstrap
from pipeline_broker.commands.cluster.shown import print_json, print_table
from pipeline_broker.security.scram import SCRAM_MECHANISMS

__all__ = ["users"]

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS_DEFAULT = 4096
"""Kafka's default for both mechanisms."""

_mechanisms = click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(MECHANISMS, case_sensitive=False),
    multiple=True,
    help="Change only this mechanism; repeatable. (default: both)",
)


@click.group(
    cls=ClientCommands,
    epilog="""\b
Examples:
  pipeline-broker users list
  pipeline-broker users set ada
  pipeline-broker users set ada --mechanism SCRAM-SHA-512 --password-file /run/secrets/ada
  pipeline-broker users delete ada""",
)
def users() -> None:
    """List SCRAM users of any Kafka cluster, set their passwords, and delete them, like kafka-configs."""


@users.command("list", cls=ClientCommand)
@click.argument("names", nargs=-1, metavar="[USER]...")
@as_json_option
@with_bootstrap
def list_(bootstrap: Bootstrap, names: Sequence[str], *, as_json: bool) -> None:
    """List the named users, or all, with the mechanisms for which they have a password.

    Examples:
      pipeline-broker users list
      pipeline-broker users list ada --json
    """

    async def program(cluster: ClusterClient) -> list[UserCredential]:
        return await list_users(cluster, names)

    rows = [{"user": it.user, "mechanism": it.mechanism, "iterations": it.iterations} for it in bootstrap.run(program)]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, ["user", "mechanism", "iterations"])


@users.command("set", cls=ClientCommand)
@click.argument("user", metavar="USER")
@_mechanisms
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Read the password from the first line of this file; - is standard input.",
)
@click.option(
    "--iterations",
    type=click.IntRange(1),
    default=ITERATIONS_DEFAULT,
    show_default=True,
    help="Number of hash iterations; Kafka accepts 4096 to 16384.",
)
@as_json_option
@with_bootstrap
def set_(
    bootstrap: Bootstrap,
    user: str,
    mechanisms: Sequence[str],
    password_file: str | None,
    iterations: int,
    *,
    as_json: bool,
) -> None:
    """Set the password of a user. Creates the user if necessary.

    Without --password-file, the command prompts for the password twice on a terminal. Otherwise it reads the first
    line of standard input.

    Examples:
      pipeline-broker users set ada
      pipeline-broker users set ada --password-file /run/secrets/ada --iterations 8192
    """
    password = _password(user, password_file)

    async def program(cluster: ClusterClient) -> None:
        chosen = [SCRAM_MECHANISMS[it] for it in mechanisms or MECHANISMS]
        await set_password(cluster, user, password, chosen, iterations)

    bootstrap.run(program)
    if as_json:
        print_json({"user": user, "mechanisms": list(mechanisms or MECHANISMS), "iterations": iterations})
    else:
        click.echo(f"set the password of {user} for {' and '.join(mechanisms or MECHANISMS)}")


@users.command(cls=ClientCommand)
@click.argument("user", metavar="USER")
@_mechanisms
@as_json_option
@with_bootstrap
def delete(bootstrap: Bootstrap, user: str, mechanisms: Sequence[str], *, as_json: bool) -> None:
    """Delete the passwords of a user. Open connections stay open.

    Examples:
      pipeline-broker users delete ada --mechanism SCRAM-SHA-256
      pipeline-broker users delete ada
    """

    async def program(cluster: ClusterClient) -> list[str]:
        found = mechanisms or [it.mechanism for it in await list_users(cluster, [user])]
        # A later broker may have mechanisms without a name here.
        names = [it for it in found if it in SCRAM_MECHANISMS]
        await delete_credentials(cluster, user, [SCRAM_MECHANISMS[it] for it in names])
        return names

    deleted = bootstrap.run(program)
    if as_json:
        print_json({"user": user, "deleted": deleted})
    else:
        click.echo(f"deleted the password of {user} for {' and '.join(deleted)}")


def _password(user: str, file: str | None) -> str:
    if file is None and sys.stdin.isatty():
        return str(click.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True))
    try:
        with click.open_file(file or "-") as lines:
            password = str(lines.readline()).rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        raise click.UsageError(f"--password-file: {error}") from None
    if file not in {None, "-"} and (warning := exposure(Path(file))) is not None:
        click.echo(f"Warning: {warning}", err=True)
    if not password:
        raise click.UsageError("the password is empty: write it on the first line of the file or of standard input")
    return password
