"""`pipeline-broker compare` and `pipeline-broker report`: options and what goes wrong.

Rules of this file: options only; a wrong value is a usage error, a failed experiment one line and exit code 1.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pipeline_broker.config.duration import milliseconds
from pipeline_broker.experiment.broker_process import ExperimentError
from pipeline_broker.experiment.plan import COMPARED_MODES, KAFKA_MODES, OTHER_BROKER, PROFILES, Request
from pipeline_broker.load.command import Address

__all__ = ["compare", "report"]


class Several(click.ParamType[Any]):
    """Values with commas between them."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        """All values, in the order given and each once."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(dict.fromkeys(self._read(part.strip()) for part in str(value).split(",")))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise ValueError(f"{text!r} is not a number from 1 to 10000")
    return int(text)


def _milliseconds(text: str) -> float:
    time_ms = milliseconds(text)
    if time_ms is None:
        raise ValueError(f"{text!r} is not a time such as 0, 2ms or 0.5s")
    return time_ms


class Modes(click.ParamType[Any]):
    """Two modes with a comma between them."""

    name = "a,b"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The modes of side A and side B."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if len(parts) != 2 or not set(parts) <= set(COMPARED_MODES):
            self.fail(f"{value!r} is not two of {', '.join(COMPARED_MODES)} (or one of them twice)", param, ctx)
        return parts[0], parts[1]


_COUNTS = Several("n,...", _count)


@click.command()
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder of the results.")
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    default="quick",
    show_default=True,
    help="How much is run: about two minutes, or a quarter of an hour with the whole year of departures.",
)
@click.option("--in-flight", type=_COUNTS, default=(), help="Requests in flight per connection, such as 1,5,64.")
@click.option("--connections", type=_COUNTS, default=(), help="Connections, such as 1,16.")
@click.option(
    "--commit-delay",
    "delays_ms",
    type=Several("time,...", _milliseconds),
    default=(),
    help="Delays of every commit, such as 0,2ms,10ms.",
)
@click.option("--rounds", type=click.IntRange(1, 1000), default=None, help="Untraced rounds.  [default: the profile's]")
@click.option("--modes", type=Modes(), default=COMPARED_MODES, help="Sides A and B.  [default: classic,pipelined]")
@click.option(
    "--flush",
    type=click.Choice(["always", "os"]),
    default="always",
    show_default=True,
    help="The brokers acknowledge after a sync, or after the write.",
)
@click.option(
    "--commits-in-flight",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Group commits that may run at once.",
)
@click.option(
    "--with-kafka", is_flag=True, help="Drive Apache Kafka beside both: synced per message, and with its defaults."
)
@click.option("--against", type=Address(), help="Drive the broker at this address (HOST:PORT) beside both.")
@click.option("--no-report", is_flag=True, help="End after the table; the raw rows stay in OUT/raw.")
def compare(
    out: Path,
    flush: str,
    commits_in_flight: int,
    with_kafka: bool,
    against: tuple[str, int] | None,
    no_report: bool,
    **request: Any,
) -> None:
    """Compare two modes in one interleaved experiment and write the report.

    Without a grid of its own (--in-flight, --connections, --commit-delay) it drives both modes with the native client,
    with confluent-kafka and with a replay of departures, and runs the ablation. With one, exactly that grid.

    \b
    Examples:
      pipeline-broker compare --out out/compare
      pipeline-broker compare --out out/deep --in-flight 1,64 --connections 1 --commit-delay 0,10ms --rounds 7
    """  # noqa: D301 - click's mark for "do not rewrap"
    from pipeline_broker.experiment.compare import CompareOptions, LoadError, run_compare, run_report  # noqa: PLC0415 - Trio
    from pipeline_broker.experiment.verdict import sentence  # noqa: PLC0415 - see below

    try:
        others = (*(KAFKA_MODES if with_kafka else ()), *((OTHER_BROKER,) if against else ()))
        asked = Request(**request, others=others)
        results = run_compare(CompareOptions(out, asked, flush, commits_in_flight, against))
    except (ExperimentError, LoadError) as error:
        raise click.ClickException(str(error)) from None
    if not no_report:
        raise click.exceptions.Exit(run_report(out))
    click.echo(f"\n{sentence(results)}")  # the analysis would have said its own


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False, exists=True))
def report(directory: Path) -> None:
    """Make Parquet, summary and page from DIRECTORY/raw, or again from DIRECTORY/traces."""
    from pipeline_broker.experiment.compare import run_report  # noqa: PLC0415 - Trio

    raise click.exceptions.Exit(run_report(directory))
