"""`pipeline-broker compare` and `pipeline-broker report`: run experiments and write their report.

A wrong option exits with code 2, a failed experiment with code 1, each with one line.
"""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pipeline_broker.base.duration import milliseconds
from pipeline_broker.commands.documented_command import DocumentedCommand
from pipeline_broker.commands.option_types import Address, Duration
from pipeline_broker.commands.settings_options import commits_in_flight_option
from pipeline_broker.measure.experiment.broker_process import ExperimentError
from pipeline_broker.measure.experiment.compare import (
    ClientError,
    CompareOptions,
    alone_in,
    ensure_report,
    run_compare,
    run_report,
)
from pipeline_broker.measure.experiment.compared_store import ComparedStore
from pipeline_broker.measure.experiment.fleet import BrokerDefaults
from pipeline_broker.measure.experiment.modes import COMPARED_MODES, KAFKA_MODES, OTHER_BROKER
from pipeline_broker.measure.experiment.plan import BROKERS_MAX, PROFILES, ROUNDS_MAX, Request
from pipeline_broker.measure.experiment.progress import say
from pipeline_broker.measure.experiment.runs import BOOTSTRAP
from pipeline_broker.measure.experiment.sweep import read_sweep
from pipeline_broker.measure.experiment.sweep_run import SweepOptions, run_sweep
from pipeline_broker.measure.experiment.traced_spans import spans_of_experiment
from pipeline_broker.traces.spans import wall_clock_offset_ns, write_spans

__all__ = ["compare", "report"]


class CommaSeparated(click.ParamType[Any]):
    """An option of values separated by commas. Removes duplicates, and keeps the order.

    Args:
        name: the name of the type in `--help`.
        read: parses a value; raises ValueError if it is malformed.
    """

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(dict.fromkeys(self._read(part.strip()) for part in str(value).split(",")))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _counts(most: int) -> CommaSeparated:
    def count(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise ValueError(f"{text!r} is not a number from 1 to {most}")
        return int(text)

    return CommaSeparated("n,...", count)


def _milliseconds(text: str) -> float:
    time_ms = milliseconds(text)
    if time_ms is None:
        raise ValueError(f"{text!r} is not a time such as 0, 2ms or 0.5s")
    return time_ms


class Modes(click.ParamType[Any]):
    """An option of two modes separated by a comma: side A and side B."""

    name = "a,b"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if len(parts) != 2 or not set(parts) <= set(COMPARED_MODES):
            self.fail(
                f"{value!r} does not name two sides. Give A,B, where each is one of {', '.join(COMPARED_MODES)}",
                param,
                ctx,
            )
        return parts[0], parts[1]


class Rounds(click.ParamType[Any]):
    name = "rounds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if isinstance(value, int) or value == AUTO:
            return value
        text = str(value)
        if not text.isdecimal() or not 1 <= int(text) <= ROUNDS_MAX:
            self.fail(f"{text!r} is neither {AUTO} nor a number from 1 to {ROUNDS_MAX}", param, ctx)
        return int(text)


def price_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, dollars in (("get", 0.4), ("put", 5.0)):
        option = click.option(
            f"--{name}-price",
            type=click.FloatRange(0, 1e6),
            default=dollars,
            show_default=True,
            metavar="DOLLARS",
            help=f"Price of a million {name.upper()}s to the store, for the report.",
        )
        command = option(command)
    return command


AUTO = "auto"
AUTO_S = 600.0
_COUNTS = _counts(10_000)
GRID = ("in_flight", "connections", "delays_ms", "brokers")
"""Parameters with the levels of a grid."""
PLAN_OPTIONS = (
    "profile", *GRID, "rounds", "budget_s", "seed", "modes", "with_kafka", "against", "trace", "command",
)  # fmt: skip
"""Parameters that a sweep file determines, so they contradict --sweep."""


ARGUMENTS = "pipeline_broker.arguments"


class RecordedCommand(DocumentedCommand):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)


def _given_command() -> str:
    context = click.get_current_context()
    return shlex.join(["pipeline-broker", str(context.info_name), *context.meta[ARGUMENTS]])


@click.command(cls=RecordedCommand)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the results.")
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    default="quick",
    show_default=True,
    help="Size of the experiment. quick: about three minutes with the report, five rounds of three turns, three "
    "loads that write and one that reads. full: half an hour, with Kafka 35 minutes: seven rounds of two "
    "turns, delays of 0, 0.3, 2 and 10 ms, two loads with flush=os, all loads traced, departures of a whole year.",
)
@click.option("--in-flight", type=_COUNTS, default=(), help="Requests in flight per connection, such as 1,5,64.")
@click.option("--connections", type=_COUNTS, default=(), help="Connections, such as 1,16.")
@click.option(
    "--commit-delay",
    "delays_ms",
    type=CommaSeparated("time,...", _milliseconds),
    default=(),
    help="Delays of every commit, such as 0,2ms,10ms.",
)
@click.option(
    "--brokers",
    type=_counts(BROKERS_MAX),
    default=(),
    help="Broker processes per side, such as 1,2. Several are a cluster, which is not traced.",
)
@click.option(
    "--rounds",
    type=Rounds(),
    default=None,
    metavar="N|auto",
    help="Number of untraced rounds. auto: 3 to 25; it stops when half of all intervals end at most at 1.3 times their "
    "start, and each A/A interval at most at 1.2 times, or when --time is over.  [default: the profile's]",
)
@click.option(
    "--time",
    "budget_s",
    type=Duration("s"),
    default=None,
    help="With --rounds auto: stop after this time, such as 1800s.  [default: 600s]",
)
@click.option(
    "--seed", type=click.IntRange(0, 1 << 53), help="Seed for the order of the runs.  [default: random, and printed]"
)
@click.option(
    "--modes",
    type=Modes(),
    default=COMPARED_MODES,
    help="Modes to compare, side A and side B.  [default: classic,pipelined]",
)
@click.option(
    "--flush",
    type=click.Choice(["always", "os"]),
    default="always",
    show_default=True,
    help="Acknowledge after a sync, or after the write.",
)
@commits_in_flight_option
@click.option(
    "--with-kafka",
    is_flag=True,
    help="Also drive Apache Kafka twice: kafka-synced flushes every message, kafka has its defaults. Needs Java "
    "17 and, the first time, Maven, which stores jars under ~/.cache/pipeline-broker. The variable KAFKA_VERSION "
    "chooses its release.",
)
@click.option("--against", type=Address(), help="Also drive the broker at this HOST:PORT, as other; it is not stopped.")
@click.option(
    "--store",
    "store_url",
    metavar="URL",
    help="Store journal and archive of both sides in s3://, az:// or gs://BUCKET/PREFIX, file:///DIR or memory://.",
)
@click.option(
    "--store-delay",
    "store_delay_seconds",
    type=Duration(),
    default=0.0,
    help="Delay every request to the store by this time, such as 50ms.",
)
@price_options
@click.option(
    "--replay",
    "trace",
    type=click.Path(path_type=Path),
    help="Replay the Produce requests of this trace: requests.ring of serve --trace, or its folder. Each "
    "request has its recorded moment, connection and size, with generated records; each round replays a part.",
)
@click.option(
    "--client",
    "command",
    default="",
    metavar="COMMAND",
    help="Run this client once per run, at most ten minutes, against a new broker, whose address is {bootstrap}. Its "
    "requests come from the broker's trace. JSON lines with sent_ns and done_ns (time.monotonic_ns()) are its messages "
    "and latencies.",
)
@click.option(
    "--sweep",
    "sweep_file",
    type=click.Path(path_type=Path),
    help="Run the factors and levels of this TOML file; the same command resumes an interrupted sweep.",
)
@click.option(
    "--otlp",
    "spans_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the requests of traced runs to this file, as OpenTelemetry spans (OTLP JSON).",
)
@click.option(
    "--no-report",
    is_flag=True,
    help="Print the table, but write no report. This does not need the extra `spark`. The raw rows remain in OUT/raw.",
)
def compare(
    out: Path,
    seed: int | None,
    with_kafka: bool,
    sweep_file: Path | None,
    spans_file: Path | None,
    no_report: bool,
    put_price: float,
    get_price: float,
    **given: Any,
) -> None:
    """Compare two modes in one interleaved experiment and write the report.

    Without a grid (--in-flight, --connections, --commit-delay, --brokers) it drives both modes with the native client,
    with confluent-kafka and with a replay of departures. It also runs the ablation. Parts whose package or events are
    missing are skipped. With --store it runs no replay. With a grid it runs only that grid.

    Examples:
      pipeline-broker compare --out out/compare
      pipeline-broker compare --out out/deep --in-flight 1,64 --connections 1 --commit-delay 0,10ms --rounds 7
      pipeline-broker compare --out out/cores --brokers 1,2 --connections 16 --in-flight 16 --flush os
      pipeline-broker compare --out out/sweep --sweep docs/guides/sweep.toml
      pipeline-broker compare --out out/store --store memory:// --store-delay 50ms
    """
    how = _how(given, with_kafka=with_kafka)
    if how.store is not None and max(given["brokers"], default=1) > 1:
        raise click.UsageError("--store needs a broker without a cluster: leave --brokers out")
    try:
        if not no_report:
            ensure_report()
        with alone_in(out):
            if sweep_file is not None:
                _run_sweep(sweep_file, out, how)
            else:
                others = (*(KAFKA_MODES if with_kafka else ()), *((OTHER_BROKER,) if how.against else ()))
                _check_own_traffic(given)
                asked = Request(**_rounds(given), others=others, on_store=how.store is not None)
                run_compare(CompareOptions(out, asked, how, seed, _given_command()), with_report=not no_report)
            if spans_file is not None:
                _write_spans(spans_file, out)
            if not no_report:
                raise click.exceptions.Exit(run_report(out, put_price, get_price))
    except (ExperimentError, ClientError) as error:
        raise click.ClickException(str(error)) from None


def _check_own_traffic(given: dict[str, Any]) -> None:
    if given["command"] and BOOTSTRAP not in given["command"]:
        raise click.UsageError(f"--client has no {BOOTSTRAP}: write {BOOTSTRAP} in place of the broker's address")
    own = [name for name in ("trace", "command") if given[name]]
    if len(own) > 1:
        raise click.UsageError("--replay and --client are different experiments: leave one of them out")
    if own and any(given[name] for name in GRID):
        raise click.UsageError(
            "--replay and --client run without a grid: leave --in-flight, --connections, --commit-delay and --brokers"
            " out"
        )


def _rounds(given: dict[str, Any]) -> dict[str, Any]:
    if given["rounds"] == AUTO:
        return {**given, "rounds": None, "budget_s": given["budget_s"] or AUTO_S}
    if given["budget_s"]:
        raise click.UsageError(f"--time needs --rounds {AUTO}")
    return {**given, "budget_s": None}


def _how(given: dict[str, Any], *, with_kafka: bool) -> "BrokerDefaults":
    """Remove the options about the start of brokers from `given`, and return them as one value."""
    flush, commits, against = (given.pop(name) for name in ("flush", "commits_in_flight", "against"))
    url, delay_seconds = given.pop("store_url"), given.pop("store_delay_seconds")
    store = _store(url, delay_seconds, beside=with_kafka or against is not None)
    return BrokerDefaults(flush, commits, against, store)


def _store(url: str | None, delay_seconds: float, *, beside: bool) -> "ComparedStore | None":
    if url is None:
        if delay_seconds:
            raise click.UsageError("--store-delay needs --store")
        return None
    if beside:
        raise click.UsageError("--store would not apply to another broker: leave --with-kafka and --against out")

    return ComparedStore(url, delay_seconds * 1000)


def _run_sweep(path: Path, out: Path, how: "BrokerDefaults") -> None:
    context = click.get_current_context()
    for name in PLAN_OPTIONS:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            option = next(it.opts[0] for it in context.command.params if it.name == name)
            raise click.UsageError(f"{path} determines the runs: leave {option} out")
    try:
        sweep = read_sweep(path)
    except ExperimentError as error:
        raise click.UsageError(str(error)) from None
    run_sweep(sweep, SweepOptions(out, how, _given_command()))


def _write_spans(path: Path, out: Path) -> None:
    try:
        count = write_spans(path, spans_of_experiment(out / "raw"), wall_clock_offset_ns())
    except OSError as error:
        raise ExperimentError(f"cannot write {path}: {error.strerror or error}") from None
    say(f"spans of {count:,} requests: {path}")


@click.command(cls=DocumentedCommand)
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False, exists=True))
@price_options
def report(directory: Path, put_price: float, get_price: float) -> None:
    """Write tables, summary and page again, from DIRECTORY/raw or DIRECTORY/traces."""
    raise click.exceptions.Exit(run_report(directory, put_price, get_price))
