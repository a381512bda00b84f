"""The command line: `pipeline-broker COMMAND`.

Rules of this room: a command's module is imported when the command is used, so that `--help` and the start of a broker
pay for nothing else; a mistake of the user is one line that says what to do, exit code 2; options of a broker are
Kafka's property names where Kafka has one.
"""

from __future__ import annotations

import errno
import importlib
from typing import TYPE_CHECKING, Any

import click

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.first_cause import first_cause

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["main"]

COMMANDS = {
    "serve": ("pipeline_broker.commands.serve", "Run a broker until SIGTERM."),
    "topics": (
        "pipeline_broker.commands.cluster.topics",
        "List, describe, create, alter and delete topics of any cluster.",
    ),
    "produce": ("pipeline_broker.commands.cluster.produce", "Write records from standard input or files."),
    "consume": ("pipeline_broker.commands.cluster.consume", "Print records of topics."),
    "groups": ("pipeline_broker.commands.cluster.groups", "List, describe and delete groups, and reset their offsets."),
    "config": ("pipeline_broker.commands.cluster.config", "Read and change settings and quotas."),
    "cluster": ("pipeline_broker.commands.cluster.cluster", "Show brokers and their disks."),
    "acls": ("pipeline_broker.commands.cluster.acls", "List, add and delete access rules."),
    "users": ("pipeline_broker.commands.cluster.users", "List users with passwords, set and delete these."),
    "quotas": ("pipeline_broker.commands.cluster.quotas", "List, set and delete quotas."),
    "transactions": (
        "pipeline_broker.commands.cluster.transactions",
        "List and describe transactions, end those that hang.",
    ),
    "delete-records": ("pipeline_broker.commands.cluster.delete_records", "Delete the beginning of partitions."),
    "compare": ("pipeline_broker.commands.compare", "Compare the modes and write the report."),
    "load": ("pipeline_broker.commands.load", "Drive any Kafka broker and print what it reached."),
    "report": ("pipeline_broker.commands.compare", "Make the report again from traces."),
    "inspect": ("pipeline_broker.commands.inspect", "Show and verify the journal of a data directory."),
    "compact": ("pipeline_broker.commands.upkeep", "Compact logs now."),
    "retain": ("pipeline_broker.commands.upkeep", "Delete what retention lets go, now."),
    "faults": ("pipeline_broker.commands.faults", "Make, list and remove fault rules of a running broker."),
    "timelines": ("pipeline_broker.commands.timelines", "Publish request timelines to a topic, or stop it."),
    "apis": ("pipeline_broker.commands.apis", "List the APIs and versions that are served."),
    "completion": ("pipeline_broker.commands.completion", "Print the script with which a shell completes commands."),
}
"""Command name: the module that defines it under that name, and its line in the help."""


_NO_ARGUMENTS: type[Exception] | tuple[()] = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""Older versions of click than 8.2 do not have it: they show the help themselves."""


class Refused(click.ClickException):
    """What the user asked for cannot be done; one line says why."""

    exit_code = 2


DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})
"""Errors of the system that concern a disk, whether they name a file or not."""


def _file_error(error: BaseException) -> click.ClickException | None:
    """The one line about a file or folder that a command cannot use; None for any other error."""
    cause = first_cause(error)
    if not isinstance(cause, OSError) or (cause.filename is None and cause.errno not in DISK_ERRORS):
        return None
    what = "a file" if cause.filename is None else cause.filename
    return click.ClickException(f"cannot use {what}: {cause.strerror}. Name another place, or make this one usable.")


class LazyGroup(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in the order of a newcomer's walk."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, without importing them, and click's own options."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - click has imported it when it calls this

        found = [CompletionItem(name, help=line) for name, (_, line) in COMMANDS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a mistake in its options or in the configuration, or a place of no use, is one line."""
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            raise Refused(str(error)) from None
        except click.UsageError as error:
            if isinstance(error, _NO_ARGUMENTS):  # it shows the help of a subject
                raise
            raise Refused(error.format_message()) from None
        except (OSError, BaseExceptionGroup) as error:
            told = _file_error(error)
            if told is None:
                raise
            raise told from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; where there is none, name the nearest."""
        if args and args[0] not in COMMANDS:
            import difflib  # noqa: PLC0415 - a start that goes well does not pay for it

            nearest = difflib.get_close_matches(args[0], COMMANDS, 1, 0.0)
            raise Refused(f"there is no command {args[0]!r}; did you mean {nearest[0]}?")
        return super().resolve_command(ctx, args)


def _show_version(ctx: click.Context, _parameter: click.Parameter, is_wanted: bool) -> None:
    """Show the version, and which build of it runs: see docs/performance.md."""
    if not is_wanted or ctx.resilient_parsing:
        return
    from importlib import metadata  # noqa: PLC0415 - a start does not pay for it

    from pipeline_broker._stages_check import commit, is_compiled  # noqa: PLC0415 - see above

    made_of = f" ({commit()})" if commit() else ""
    kind = "compiled" if is_compiled() else "pure"
    click.echo(f"pipeline-broker {metadata.version('pipeline-broker')}{made_of}, {kind}")
    ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, its commit, and whether the request path is compiled.",
)
def main() -> None:
    """A Kafka-compatible broker with a classic and a pipelined request path."""
