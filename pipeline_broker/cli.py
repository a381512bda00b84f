"""The command line: `pipeline-broker COMMAND`. Imports the module of a command only when it is used."""

from __future__ import annotations

import errno
import importlib
from typing import TYPE_CHECKING, Any

import click

from pipeline_broker.base.first_cause import first_cause
from pipeline_broker.config.properties import ConfigError

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
    "users": ("pipeline_broker.commands.cluster.users", "List SCRAM users, and set and delete their passwords."),
    "quotas": ("pipeline_broker.commands.cluster.quotas", "List, set and delete quotas."),
    "transactions": (
        "pipeline_broker.commands.cluster.transactions",
        "List and describe transactions, and abort hanging ones.",
    ),
    "delete-records": ("pipeline_broker.commands.cluster.delete_records", "Delete records before an offset."),
    "compare": ("pipeline_broker.commands.compare", "Compare modes and write a report."),
    "load": ("pipeline_broker.commands.load", "Drive any Kafka broker, and print throughput and latency."),
    "report": ("pipeline_broker.commands.compare", "Write the report of a comparison again."),
    "inspect": ("pipeline_broker.commands.inspect", "Show and verify the journal and archive of a data directory."),
    "compact": ("pipeline_broker.commands.upkeep", "Compact logs now."),
    "retain": ("pipeline_broker.commands.upkeep", "Delete expired records now."),
    "faults": ("pipeline_broker.commands.faults", "Add, list and remove fault rules of a running broker."),
    "timelines": ("pipeline_broker.commands.timelines", "Start or stop publishing request timelines to a topic."),
    "apis": ("pipeline_broker.commands.apis", "List the supported APIs and versions."),
    "completion": ("pipeline_broker.commands.completion", "Print a shell completion script."),
}
"""Commands, with the module that defines each under its name, and its line in `--help`."""


_NO_ARGUMENTS: type[Exception] | tuple[()] = getattr(click.exceptions, "NoArgsIsHelpError", ())
# Missing in click before 8.2, which shows the help without raising.


class Refused(click.ClickException):
    exit_code = 2


DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})
"""Error numbers about a disk, which often have no file name."""


def _file_error(error: BaseException) -> click.ClickException | None:
    cause = first_cause(error)
    if not isinstance(cause, OSError) or (cause.filename is None and cause.errno not in DISK_ERRORS):
        return None
    what = "a file" if cause.filename is None else cause.filename
    return click.ClickException(f"cannot use {what}: {cause.strerror}. Name another path, or repair this one.")


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands, in the order in which a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands without importing them, and click's options."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - click has imported it when it calls this

        found = [CompletionItem(name, help=line) for name, (_, line) in COMMANDS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. An error in its options, the configuration or a file is one line."""
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            raise Refused(str(error)) from None
        except click.UsageError as error:
            if isinstance(error, _NO_ARGUMENTS):  # a subject without a command shows its help
                raise
            raise Refused(error.format_message()) from None
        except (OSError, BaseExceptionGroup) as error:
            shown = _file_error(error)
            if shown is None:
                raise
            raise shown from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            import difflib  # noqa: PLC0415 - only for a mistyped command

            nearest = difflib.get_close_matches(args[0], COMMANDS, 1, 0.0)
            raise Refused(f"unknown command {args[0]!r}; did you mean {nearest[0]}?")
        return super().resolve_command(ctx, args)


def _show_version(ctx: click.Context, _parameter: click.Parameter, is_wanted: bool) -> None:
    # `resilient_parsing` is set during shell completion.
    if not is_wanted or ctx.resilient_parsing:
        return
    from importlib import metadata  # noqa: PLC0415 - only for --version

    from pipeline_broker._package_check import commit, is_compiled  # noqa: PLC0415 - see above

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
    help="Show the version, its commit, and whether the request path is compiled, and exit.",
)
def main() -> None:
    """A Kafka-compatible broker with a classic and a pipelined request path."""
