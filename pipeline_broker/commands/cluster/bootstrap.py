"""The options by which every command reaches a cluster, and the exit codes with which it ends.

A mistake of the user exits with 2, a failed request with 1, Ctrl-C with 130 and no message. A closed output, as with
`| head`, is a success.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click

from pipeline_broker.base.host_and_port import PORT_DEFAULT
from pipeline_broker.client.cluster_client import ClusterClient, connected
from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.running import run_client
from pipeline_broker.client.security import ClientSecurity, read_security
from pipeline_broker.commands.cluster.arguments import Command, with_options
from pipeline_broker.commands.cluster.client_file import BOOTSTRAP_PROPERTY, read_client_file, warn_of_exposed
from pipeline_broker.commands.cluster.java_properties import as_librdkafka
from pipeline_broker.commands.documented_command import DocumentedCommand
from pipeline_broker.commands.option_types import Duration, Setting, address_of
from pipeline_broker.config.properties import ConfigError

__all__ = [
    "BOOTSTRAP_DEFAULT",
    "EXIT_INTERRUPTED",
    "Addresses",
    "Bootstrap",
    "ClientCommand",
    "ClientCommands",
    "with_bootstrap",
]

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
TIMEOUT_S_DEFAULT = 30.0
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
_SENTENCE_MAX = 1000
_ENVIRONMENT = "PIPELINE_BROKER_"

Result = TypeVar("Result")


class Addresses(click.ParamType[Any]):
    """An option of one or more HOST:PORT, separated by commas. The default port is 9092."""

    name = "host:port,..."

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, int], ...]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",") if part.strip()]
        if not parts:
            self.fail("the address is missing: give one such as localhost:9092", param, ctx)
        return tuple(address_of(part, param, ctx, PORT_DEFAULT) for part in parts)


@attrs.frozen
class Bootstrap:
    """The cluster options of a command.

    Attributes:
        addresses: hosts and ports of bootstrap brokers.
        properties: properties of librdkafka or Java clients.
        timeout_s: the longest wait for an answer, including retries.
    """

    addresses: tuple[tuple[str, int], ...]
    properties: Mapping[str, str] = attrs.field(repr=False)  # with passwords
    timeout_s: float

    def run(self, program: Callable[[ClusterClient], Awaitable[Result]]) -> Result:
        """Connect to the cluster, run an async function with it, and return its result.

        Raises:
            click.UsageError: a property is invalid.
            ClientError: the cluster cannot be reached, or the function raised it.
        """
        security = self.security()

        async def inside() -> Result:
            async with connected(self.addresses, self.timeout_s, security) as cluster:
                return await program(cluster)

        return run_client(inside)

    def security(self) -> ClientSecurity:
        """Return the security that the properties describe.

        Raises:
            click.UsageError: a property is invalid.
        """
        try:
            return read_security(as_librdkafka(self.properties))
        except (ClientError, ConfigError) as error:
            raise click.UsageError(str(error)) from None


def with_bootstrap(function: Command) -> Command:
    """Add the cluster options to a command. Its function receives a Bootstrap as `bootstrap`."""

    @functools.wraps(function)
    def wrapper(
        *arguments: Any,
        bootstrap_server: tuple[tuple[str, int], ...] | None,
        command_config: Path | None,
        properties: tuple[tuple[str, str], ...],
        timeout_s: float,
        **options: Any,
    ) -> None:
        bootstrap = bootstrap_of(bootstrap_server, command_config, properties, timeout_s)
        warn_of_exposed(command_config, bootstrap.properties)
        function(*arguments, bootstrap=bootstrap, **options)

    return with_options(
        wrapper,
        click.option(
            "--bootstrap-server",
            "-b",
            type=Addresses(),
            envvar=_ENVIRONMENT + "BOOTSTRAP_SERVER",
            help=f"One or more brokers of the cluster. (default: {BOOTSTRAP_DEFAULT})",
        ),
        click.option(
            "--command-config",
            "-F",
            type=click.Path(dir_okay=False, path_type=Path),
            envvar=_ENVIRONMENT + "COMMAND_CONFIG",
            help="File with TLS and SASL properties of librdkafka or Java clients.",
        ),
        click.option(
            "--set",
            "-X",
            "properties",
            type=Setting(),
            multiple=True,
            help="A single property, such as security.protocol=ssl; overrides the file; repeatable.",
        ),
        click.option(
            "--timeout",
            "timeout_s",
            type=Duration("s"),
            default=TIMEOUT_S_DEFAULT,
            show_default=True,
            help="Longest wait for an answer, including retries, such as 30 (seconds) or 500ms.",
        ),
    )


def bootstrap_of(
    addresses: tuple[tuple[str, int], ...] | None,
    config: Path | None,
    properties: tuple[tuple[str, str], ...],
    timeout_s: float,
) -> Bootstrap:
    """Combine the cluster options: `--set` overrides the file, and `--bootstrap-server` overrides both.

    Raises:
        ConfigError: the file cannot be read, or a reference in it cannot be resolved.
        click.BadParameter: `bootstrap.servers` is not a list of addresses.
    """
    found = read_client_file(config) if config is not None else {}
    found.update(properties)
    named = found.pop(BOOTSTRAP_PROPERTY, None) or BOOTSTRAP_DEFAULT
    return Bootstrap(addresses or Addresses().convert(named, None, None), found, timeout_s)


class ClientCommand(DocumentedCommand):
    def invoke(self, ctx: click.Context) -> Any:
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
    """A group of commands about one subject. Its help and errors are more complete than click's."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(_SENTENCE_MAX)) for name, command in sorted(self.commands.items())]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands:
            ctx.fail(
                f"unknown command {args[0]!r} for {ctx.info_name}: choose one of {', '.join(sorted(self.commands))}"
            )
        return super().resolve_command(ctx, args)


def _forget_output() -> None:
    # Python flushes standard output at exit. Into the closed pipe this would fail, so redirect it to /dev/null.
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
