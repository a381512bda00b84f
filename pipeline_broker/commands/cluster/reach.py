"""How a command reaches a cluster, and how it ends.

Rules of this file: every command of the room has the same options for it, and says the same when it fails: a mistake of
the user is one line and exit code 2, what the cluster does not do is one line and exit code 1, Ctrl-C is 130 and
silent, a reader that has gone (`| head`) is no failure. Trio is imported when a command runs, not for its help.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from pipeline_broker.base.host_and_port import PORT_DEFAULT
from pipeline_broker.commands.cluster.arguments import Command, with_options
from pipeline_broker.commands.duration import Duration
from pipeline_broker.commands.load import Setting, address_of
from pipeline_broker.config.properties import ConfigError

if TYPE_CHECKING:
    from pipeline_broker.client.cluster import Cluster
    from pipeline_broker.client.security import ClientSecurity

__all__ = ["BOOTSTRAP_DEFAULT", "EXIT_INTERRUPTED", "Addresses", "ClientCommand", "ClientCommands", "Reach", "reaching"]

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
BOOTSTRAP_PROPERTY = "bootstrap.servers"
TIMEOUT_S_DEFAULT = 30.0
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
_SENTENCE_MAX = 1000
_ENVIRONMENT = "PIPELINE_BROKER_"

Result = TypeVar("Result")


class Addresses(click.ParamType[Any]):
    """HOST:PORT, or several of them with commas between; 9092 where a port is left out."""

    name = "host:port,..."

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, int], ...]:
        """Hosts and ports."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",") if part.strip()]
        if not parts:
            self.fail("give an address such as localhost:9092", param, ctx)
        return tuple(address_of(part, param, ctx, PORT_DEFAULT) for part in parts)


@attrs.frozen
class Reach:
    """The options of a command that say where the cluster is and how it is spoken to."""

    addresses: tuple[tuple[str, int], ...]
    properties: Mapping[str, str]
    timeout_s: float

    def run(self, program: Callable[[Cluster], Awaitable[Result]]) -> Result:
        """What a program of a command gives that is run with the cluster.

        Raises:
            click.UsageError: the properties are wrong.
            ClientError: see `connected` and the program.
        """
        from pipeline_broker.client.cluster import connected  # noqa: PLC0415 - it imports Trio
        from pipeline_broker.client.running import run_client  # noqa: PLC0415 - see above

        security = self.security()

        async def inside() -> Result:
            async with connected(self.addresses, self.timeout_s, security) as cluster:
                return await program(cluster)

        return run_client(inside)

    def security(self) -> ClientSecurity:
        """What the properties describe."""
        from pipeline_broker.client.errors import ClientError  # noqa: PLC0415 - see above
        from pipeline_broker.client.security import read_security  # noqa: PLC0415 - see above
        from pipeline_broker.commands.cluster.java_properties import (  # noqa: PLC0415 - see above
            as_librdkafka,
        )

        try:
            return read_security(as_librdkafka(self.properties))
        except (ClientError, ConfigError) as error:
            raise click.UsageError(str(error)) from None


def reaching(function: Command) -> Command:
    """Give a command the options for the cluster; its function gets a Reach as `reach`."""

    @functools.wraps(function)
    def wrapper(
        *arguments: Any,
        bootstrap_server: tuple[tuple[str, int], ...] | None,
        command_config: Path | None,
        properties: tuple[tuple[str, str], ...],
        timeout_s: float,
        **options: Any,
    ) -> None:
        reach = reach_of(bootstrap_server, command_config, properties, timeout_s)
        function(*arguments, reach=reach, **options)

    return with_options(
        wrapper,
        click.option(
            "--bootstrap-server",
            "-b",
            type=Addresses(),
            envvar=_ENVIRONMENT + "BOOTSTRAP_SERVER",
            help=f"A broker of the cluster, or several.  {BOOTSTRAP_DEFAULT} if nothing names one.",
        ),
        click.option(
            "--command-config",
            "-F",
            type=click.Path(dir_okay=False, path_type=Path),
            envvar=_ENVIRONMENT + "COMMAND_CONFIG",
            help="A file of properties for TLS and SASL, of librdkafka or of Java's clients.",
        ),
        click.option(
            "--set",
            "-X",
            "properties",
            type=Setting(),
            multiple=True,
            help="One such property, such as security.protocol=ssl; repeatable, goes over the file.",
        ),
        click.option(
            "--timeout",
            "timeout_s",
            type=Duration("s"),
            default=TIMEOUT_S_DEFAULT,
            show_default=True,
            help="How long to wait for an answer, and to try again: seconds, or 500ms.",
        ),
    )


def reach_of(
    addresses: tuple[tuple[str, int], ...] | None,
    config: Path | None,
    properties: tuple[tuple[str, str], ...],
    timeout_s: float,
) -> Reach:
    """What the options say: single properties go over the file, the address over both.

    Raises:
        ConfigError: the file cannot be read.
    """
    from pipeline_broker.config.sources import read_settings_file  # noqa: PLC0415 - for those who have a file

    found = dict(read_settings_file(config)) if config is not None else {}
    found.update(properties)
    named = found.pop(BOOTSTRAP_PROPERTY, None) or BOOTSTRAP_DEFAULT
    return Reach(addresses or Addresses().convert(named, None, None), found, timeout_s)


class ClientCommand(click.Command):
    """A command that ends as the rules of this file say."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        from pipeline_broker.client.errors import ClientError  # noqa: PLC0415 - not for help

        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except ClientError as error:
            raise click.ClickException(str(error)) from None
        except KeyboardInterrupt:
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
        except BrokenPipeError:
            _forget_output()
            raise click.exceptions.Exit(0) from None
        else:
            return result


class ClientCommands(click.Group):
    """Commands about one subject, whose help and errors say more than click's own."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """List the commands with a whole sentence about each, which click would cut off."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(_SENTENCE_MAX)) for name, command in sorted(self.commands.items())]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; where there is none, name all, which are few."""
        if args[0] not in self.commands:
            ctx.fail(
                f"there is no command {args[0]!r} for {ctx.info_name}; there are {', '.join(sorted(self.commands))}"
            )
        return super().resolve_command(ctx, args)


def _forget_output() -> None:
    """Nobody reads standard output any more: what Python still holds for it must not fail at the end."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - os.devnull is no path of ours
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
