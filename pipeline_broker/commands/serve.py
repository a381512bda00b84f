"""`pipeline-broker serve`: run a broker."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

import click
from click.core import ParameterSource

from pipeline_broker._package_check import ShadowedPackageError, ensure_package
from pipeline_broker.base.terminal import Terminal
from pipeline_broker.base.unavailable import UnavailableError
from pipeline_broker.commands.documented_command import DocumentedCommand
from pipeline_broker.commands.option_types import Duration
from pipeline_broker.commands.settings_options import (
    commits_in_flight_option,
    data_option,
    load_config,
    settings_options,
)
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.node.garbage import collect_only_new_objects
from pipeline_broker.telemetry.bounded_log import BoundedHandler
from pipeline_broker.telemetry.log_lines import LINES, LogFormat, announcement

__all__ = ["serve"]

logger = logging.getLogger("pipeline_broker.config")

EXIT_USAGE = 2
OF_MACHINE: Final = frozenset(
    {
        "brokers",
        "cluster",
        "dashboard",
        "dashboard_beside",
        "dashboard_principal",
        "dashboard_read_only",
        "data",
        "http_certificate",
        "http_users",
        "metrics",
        "metrics_hosts",
        "port",
        "request_log",
        "schema_registry",
        "trace",
    }
)
"""Options that do not apply to each broker of a machine as they are."""


class EndSignals:
    """Handlers of SIGTERM, SIGINT and SIGHUP for the times when the event loop does not receive them.

    During startup they terminate the process at once, SIGHUP only if the terminal was closed. During shutdown they are
    ignored, so a second SIGTERM does not change the exit code or leave files open. A standby that has not served yet
    exits with 0.
    """

    NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __init__(self) -> None:
        self.log_format: LogFormat = "text"
        self._has_served = False
        self._stands_by = False
        self._terminal = Terminal()
        self._before = {number: signal.signal(number, self._received) for number in self.NUMBERS}

    def _received(self, number: int, frame: object) -> None:
        del frame
        # Otherwise it requests to read certificates again, and the startup reads them anyway.
        if number == signal.SIGHUP and not self._terminal.is_closed:
            return
        if self._stands_by and not self._has_served:
            # Also in the middle of a takeover, which a kill may interrupt anywhere: it keeps no state in memory.
            os._exit(0)
        if not self._has_served:
            # Not a KeyboardInterrupt: it is lost inside a callback of the import system.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def print_standing_by(self, line: str) -> None:
        """Print the standby line. A later signal exits with 0, because a standby has no work to finish."""
        self._stands_by = True
        click.echo(announcement(line, self.log_format))

    def print_ready(self, line: str) -> None:
        """Print the ready line. Until shutdown the event loop then receives the signals."""
        self._has_served = True
        click.echo(announcement(line, self.log_format))

    def announce(self, line: str) -> None:
        """Print another line about the start, on stderr: stdout has the ready line alone."""
        click.echo(announcement(line, self.log_format), err=True)

    def refuse(self, error: Exception) -> NoReturn:
        click.echo(announcement(f"Error: {error}", self.log_format, "ERROR"), err=True)
        sys.exit(EXIT_USAGE)

    def close(self) -> None:
        """Ignore the signals until the process ends, if the broker has served.

        Otherwise restore the previous handlers.
        """
        # The interpreter removes Python handlers while it exits; SIG_IGN stays.
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_IGN if self._has_served else before)


@click.command(cls=DocumentedCommand)
@click.option(
    "--mode",
    type=click.Choice(["classic", "pipelined"]),
    default="pipelined",
    show_default=True,
    help="Request path: Apache Kafka's, or the pipelined one.",
)
@click.option(
    "--flush",
    type=click.Choice(["always", "os"]),
    default="always",
    show_default=True,
    help="Acknowledge after a sync, or after the write.",
)
@click.option("--host", default=None, help="Address to listen on.  [default: 127.0.0.1]")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=None, help="Port to listen on; 0: any free port.  [default: 9092]"
)
@data_option
@click.option(
    "--store",
    metavar="URL",
    default=None,
    help=(
        "Store data in s3://, az:// or gs://BUCKET/PREFIX, file:///DIR or memory:// (lost at shutdown); needs --wal."
    ),
)
@click.option(
    "--wal",
    type=click.Choice(["disk", "objects"]),
    default=None,
    help="With --store: keep the journal in the data directory (disk) or in the store (objects).",
)
@click.option(
    "--store-delay",
    "store_delay_seconds",
    type=Duration(),
    default=0.0,
    help="Delay every request to the store by this time, such as 50ms; for experiments.",
)
@click.option(
    "--standby",
    is_flag=True,
    help="With --wal objects: wait until the broker that owns the journal stops or fails, then take over.",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Write trace files of every request into this directory.",
)
@click.option(
    "--commit-delay",
    "commit_delay_seconds",
    type=Duration(),
    default=0.0,
    help="Delay every commit by this time, such as 10ms; for experiments.",
)
@commits_in_flight_option
@click.option(
    "--metrics",
    type=click.IntRange(0, 65535),
    default=None,
    help="Serve Prometheus metrics on this port of --host.",
)
@click.option(
    "--metrics-allowed-host",
    "metrics_hosts",
    multiple=True,
    metavar="NAME",
    help="Accept this DNS name in scrapes of the metrics; repeatable.",
)
@click.option(
    "--dashboard",
    metavar="[HOST:]PORT",
    default=None,
    help="Serve the dashboard on this port of HOST, or of 127.0.0.1 without HOST.",
)
@click.option(
    "--dashboard-beside",
    metavar="HOST:PORT",
    default=None,
    help="Also show the request path of the broker whose dashboard has this address, side by side.",
)
@click.option(
    "--dashboard-read-only",
    is_flag=True,
    help="Forbid all changes in the dashboard.",
)
@click.option(
    "--dashboard-principal",
    metavar="User:NAME",
    default=None,
    help="Limit the dashboard to the permissions of this principal.",
)
@click.option(
    "--schema-registry",
    metavar="[HOST:]PORT",
    default=None,
    help="Serve a schema registry (Confluent's REST API) on this port of HOST, or of 127.0.0.1 without HOST.",
)
@click.option(
    "--http-certificate",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Serve metrics, dashboard and schema registry by TLS, with the private key and certificates of this PEM file.",
)
@click.option(
    "--http-users",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Require a user of this file, with lines NAME:PASSWORD below [admin] or [read-only], for metrics, dashboard"
    " and schema registry.",
)
@click.option(
    "--control",
    metavar="[HOST:]PORT",
    default=None,
    help="Serve commands for tests, as JSON over HTTP, on this port of 127.0.0.1 or of another loopback HOST.",
)
@click.option(
    "--control-token",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="File with the token for --control, created if missing.  [default: control.token in the data directory]",
)
@click.option(
    "--request-log",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Append a JSON line per request to this file.",
)
@click.option(
    "--log-format",
    type=click.Choice(list(LINES)),
    default="text",
    show_default=True,
    help="Log lines of text, or one JSON object a line.",
)
@click.option(
    "--faults",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Start with the fault rules of this TOML file.",
)
@click.option(
    "--brokers",
    type=click.IntRange(1, 64),
    default=None,
    help="Run this many broker processes on this machine as a cluster, on --port and the ports after it.",
)
@click.option("--cluster", type=click.Path(path_type=Path, file_okay=False), default=None, hidden=True)
@settings_options
def serve(**options: object) -> None:
    """Run a broker until SIGTERM or Ctrl-C. It then answers the requests in flight and exits with code 0.

    Examples:
      pipeline-broker serve --port 9092 --data ./data
      pipeline-broker serve --mode classic --flush os --set num.partitions=4
    """
    end_signals = EndSignals()
    collect_only_new_objects()
    try:
        _serve(options, end_signals)
    except (ConfigError, UnavailableError) as error:
        end_signals.refuse(error)
    finally:
        end_signals.close()


def _serve(options: dict[str, object], end_signals: EndSignals) -> None:
    try:
        ensure_package("stages")
    except ShadowedPackageError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_USAGE)
    from pipeline_broker.node.process import ServeOptions, run  # noqa: PLC0415 - it imports Trio and stages

    log_format: LogFormat = "json" if options["log_format"] == "json" else "text"
    end_signals.log_format = log_format
    logging.basicConfig(level=logging.WARNING, handlers=[BoundedHandler(sys.stderr, line=LINES[log_format])])
    if options["brokers"] is not None and options["brokers"] != 1:
        _supervise(options, end_signals)
    files, settings = options.pop("config_files"), options.pop("settings")
    assert isinstance(files, tuple)
    assert isinstance(settings, tuple)
    # The supervisor of a cluster has logged the warnings.
    config = load_config(files, settings, _log_warning if options["cluster"] is None else lambda _: None)
    # `--set listeners=...` overrides --host and --port; `listeners` of a file does not.
    if any(setting.partition("=")[0].strip() == "listeners" for setting in settings):
        options["host"] = options["port"] = None
    run(
        ServeOptions.from_command_line(config, options),
        on_ready=end_signals.print_ready,
        on_standing_by=end_signals.print_standing_by,
    )


def _log_warning(line: str) -> None:
    logger.warning("%s", line.removeprefix("warning: "))


def _supervise(options: dict[str, Any], end_signals: EndSignals) -> NoReturn:
    from pipeline_broker.node.http_files import open_http_security  # noqa: PLC0415 - only for a cluster
    from pipeline_broker.node.options import memory_of_each  # noqa: PLC0415 - as above
    from pipeline_broker.node.supervisor import MetricsAddress, supervise  # noqa: PLC0415 - as above

    files, settings, brokers = options["config_files"], options["settings"], options["brokers"]
    data, port = options["data"], options["port"]
    assert isinstance(files, tuple)
    assert isinstance(settings, tuple)
    assert isinstance(brokers, int)
    assert isinstance(data, Path | None)
    config = load_config(files, settings, _log_warning)
    if options["store"] is not None:
        raise UnavailableError("--store needs a broker without --brokers: all brokers of a machine use its disk")
    if options["control"] is not None:
        raise UnavailableError("--control needs a broker without --brokers: its rules and waits are about one broker")
    arguments = _given_arguments(click.get_current_context(), without=OF_MACHINE)
    data = config.directory(data)
    first_port = port if isinstance(port, int) else config.listener_configs[0].port
    budgets = [f"{name}={value}" for name, value in memory_of_each(config, brokers).items()]

    def command(node_id: int, port: int) -> list[str]:
        own = ["--data", str(data / str(node_id)), "--port", str(port), "--cluster", str(data)]
        own += _of_broker(options, node_id)
        settings = [*budgets, *config.listeners_of_broker(node_id), f"node.id={node_id}"]
        if config.pipeline_telemetry_file:
            settings.append(f"pipeline.telemetry.file={_own_file(Path(config.pipeline_telemetry_file), node_id)}")
        for setting in settings:
            own += ["--set", setting]
        return [sys.executable, "-m", "pipeline_broker", "serve", *arguments, *own]

    metrics = None
    if options["metrics"] is not None:
        host = str(options["host"] or config.listener_configs[0].host)
        metrics = MetricsAddress(host, options["metrics"], options["metrics_hosts"])
    security = open_http_security(options["http_certificate"], options["http_users"])
    ready, announce = end_signals.print_ready, end_signals.announce
    sys.exit(supervise(command, data, brokers, first_port, ready, announce, metrics, security))


def _own_file(path: Path, node_id: int) -> Path:
    return path.with_name(f"{path.stem}-{node_id}{path.suffix}")


def _of_broker(options: dict[str, Any], node_id: int) -> list[str]:
    arguments = [] if options["metrics"] is None else ["--metrics", "0"]
    if options["trace"] is not None:
        arguments += ["--trace", str(options["trace"] / str(node_id))]
    if options["request_log"] is not None:
        arguments += ["--request-log", str(_own_file(options["request_log"], node_id))]
    if node_id == 1 or options["metrics"] is not None:
        for option in ("http_certificate", "http_users"):
            if options[option] is not None:
                arguments += [f"--{option.replace('_', '-')}", str(options[option])]
    if node_id == 1:
        for option in ("dashboard", "dashboard_beside", "dashboard_principal", "schema_registry"):
            if options[option] is not None:
                arguments += [f"--{option.replace('_', '-')}", str(options[option])]
        if options["dashboard_read_only"]:
            arguments.append("--dashboard-read-only")
    return arguments


def _given_arguments(context: click.Context, without: frozenset[str]) -> list[str]:
    """Return the options of the command line that were given, as arguments for another process."""
    arguments: list[str] = []
    for option in context.command.params:
        assert option.name is not None, "all parameters are options"
        is_given = context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
        if option.name in without or not is_given:
            continue
        value = context.params[option.name]
        if isinstance(option, click.Option) and option.is_flag:
            arguments.append(option.opts[0])
            continue
        for each in value if option.multiple else (value,):
            text = f"{each}s" if isinstance(option.type, Duration) else str(each)
            arguments += [option.opts[0], text]
    return arguments
