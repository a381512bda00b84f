"""`pipeline-broker load`: drive any Kafka broker with the native client, and print the measurement.

A broker that fails or rejects requests is one line and exit code 1.
"""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pipeline_broker.client.errors import ClientError, with_hint
from pipeline_broker.client.security import read_security
from pipeline_broker.commands.cluster.client_file import BOOTSTRAP_PROPERTY, read_client_file, warn_of_exposed
from pipeline_broker.commands.cluster.java_properties import as_librdkafka
from pipeline_broker.commands.option_types import ACKS, Address, Duration, Setting
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.measure.load.client import drive, run_to_end
from pipeline_broker.measure.load.measurement import KINDS, Measurement, measured, sentence, summary
from pipeline_broker.measure.load.options import Arrivals, LoadOptions
from pipeline_broker.measure.load.processes import run_processes
from pipeline_broker.measure.load.recorded import drive_recorded, read_trace
from pipeline_broker.measure.load.worker import recorder_of

__all__ = ["load"]

WARMUP_SHARE = 0.1
WARMUP_S_MAX = 1.0
PROCESSES_MAX = 64
IN_FLIGHT_DEFAULT = 64


Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def _option(*names: str, **settings: Any) -> Callable[[Decorated], Decorated]:
    return click.option(*names, **{"show_default": True, **settings})


@click.command()
@click.argument("address", type=Address())
@_option("--connections", type=click.IntRange(1, 10_000), default=1, help="Number of connections.")
@_option(
    "--in-flight",
    type=click.IntRange(1, 10_000),
    default=IN_FLIGHT_DEFAULT,
    help="Maximum number of requests in flight per connection, also in an open loop.",
)
@_option(
    "--processes",
    type=click.IntRange(1, PROCESSES_MAX),
    default=1,
    help="Processes that share the connections; not with --replay.",
)
@_option(
    "--rate", "rate_per_s", type=click.FloatRange(0.01, 10_000_000), help="Run an open loop with this many requests/s."
)
@_option(
    "--arrivals",
    type=click.Choice(["constant", "poisson"]),
    default="constant",
    help="Arrival process of an open loop.",
)
@_option("--think-time", "think_s", type=Duration(), default=0.0, help="Pause after each answer, such as 5ms or 1s.")
@_option("--record-size", type=click.IntRange(0, 1_000_000), default=100, help="Bytes per record.")
@_option("--batch", "batch_records", type=click.IntRange(1, 100_000), default=1, help="Records per request.")
@_option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    help="Codec of the batches.",
)
@_option(
    "--keys",
    type=click.IntRange(0, 1_000_000),
    default=0,
    help="Number of different keys, which select partitions as in Kafka's producers; 0: no keys. They are drawn "
    "into at most 1,024 requests, which are sent in random order.",
)
@_option("--key-skew", type=click.FloatRange(0, 10), default=0.0, help="Exponent of the keys' Zipf distribution.")
@_option(
    "--acks",
    type=click.Choice(list(ACKS)),
    default="all",
    help="Acknowledgement to wait for; 0: none, only with --rate. Sent requests are then counted.",
)
@_option(
    "--idempotent",
    "is_idempotent",
    is_flag=True,
    help="Make each connection an idempotent producer, which never retries; errors are counted.",
)
@_option(
    "--transaction",
    "transaction_requests",
    type=click.IntRange(0, 100_000),
    default=0,
    help="Requests per transaction of each connection; 0: no transactions. The end of a transaction counts as a "
    "request. Needs transactions of version 2 (Kafka 4.0).",
)
@_option(
    "--read-share",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Share of Fetch requests. Readers read each partition from start to end, repeatedly.",
)
@_option("--read-bytes", type=click.IntRange(1, 64 << 20), default=1 << 20, help="Bytes that a Fetch requests.")
@_option(
    "--seconds", type=click.FloatRange(0.05, 86_400), default=5.0, help="Duration of the load, including the warm-up."
)
@_option(
    "--warmup",
    "warmup_s",
    type=Duration("s"),
    help="Time at the start that is not measured.  [default: a tenth of --seconds, at most 1s]",
)
@_option("--topic", default="load", help="Topic; created if missing.")
@_option("--partitions", type=click.IntRange(1, 10_000), default=4, help="Number of partitions of the topic to use.")
@click.option(
    "--command-config",
    "-F",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="PIPELINE_BROKER_COMMAND_CONFIG",
    help="File with TLS and SASL properties of librdkafka or Java clients.",
)
@click.option(
    "--set",
    "security",
    type=Setting(),
    multiple=True,
    help="A single property, such as security.protocol=ssl; overrides the file; repeatable.",
)
@_option("--seed", type=int, default=0, help="Seed of Poisson arrivals and keys.")
@_option(
    "--replay",
    type=click.Path(path_type=Path),
    help="Replay the Produce requests of this trace of `serve --trace`, at their recorded times. Of the other "
    "options only --topic, --partitions and --acks have an effect.",
)
@_option(
    "--speed", type=click.FloatRange(0.001, 1000), default=1.0, help="With --replay: replay this many times faster."
)
@_option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_option(
    "--histogram",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the latencies to this file as JSON: microseconds with their cumulative share.",
)
def load(address: tuple[str, int], as_json: bool, histogram: Path | None, **given: Any) -> None:
    """Send requests to the Kafka broker at ADDRESS (HOST:PORT), and print throughput and latency.

    Without --rate the load is a closed loop: a connection sends its next request after an answer. With --rate it is an
    open loop: requests are sent at scheduled times, whatever the broker does, and their latency counts from these
    times. The exit code is 1 if a request fails, an answer is out of order, or the broker cannot be reached or closes a
    connection.
    """
    try:
        found = _run(address, given)
    except ClientError as error:
        raise click.ClickException(with_hint(str(error))) from None

    figures = summary(found)
    if histogram is not None:
        _write(histogram, found)
    click.echo(json.dumps(figures) if as_json else sentence(figures))
    if figures["errors"] or figures["order_violations"]:
        raise click.exceptions.Exit(1)


def _run(address: tuple[str, int], given: dict[str, Any]) -> "Measurement":
    processes, replay, speed = given.pop("processes"), given.pop("replay"), given.pop("speed")
    options = _options(address, given)
    if replay is not None:
        if processes > 1:
            raise click.UsageError("--replay runs in one process: leave --processes out")
        recorded = read_trace(replay)
        run = functools.partial(drive_recorded, recorded=recorded, speed=speed, record=recorder_of)
    elif processes > 1:
        return run_processes(options, processes)
    else:
        run = functools.partial(drive, record=recorder_of)
    return measured(options, run_to_end(run, options))


def _options(address: tuple[str, int], given: dict[str, Any]) -> "LoadOptions":
    given["security"] = _security(given.pop("command_config"), given["security"])
    host, port = address
    given["acks"] = ACKS[given["acks"]]
    given["arrivals"] = Arrivals(given["arrivals"])
    if given["warmup_s"] is None:
        given["warmup_s"] = min(WARMUP_S_MAX, given["seconds"] * WARMUP_SHARE)
    if given["warmup_s"] >= given["seconds"]:
        raise click.UsageError("the warm-up lasts the whole run: give more --seconds or a shorter --warmup")
    return LoadOptions(host, port, **given)


def _security(config: Path | None, properties: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    if config is None and not properties:
        return ()

    try:
        given = read_client_file(config) if config is not None else {}
        given.pop(BOOTSTRAP_PROPERTY, None)  # the address is an argument
        found = as_librdkafka({**given, **dict(properties)})
        read_security(found)
    except (ClientError, ConfigError) as error:
        raise click.UsageError(str(error)) from None
    warn_of_exposed(config, found)
    return tuple(found.items())


def _write(path: Path, found: "Measurement") -> None:
    """Write a JSON object: by kind of request, pairs of a latency in us and the share of requests up to it, 0 to 1."""
    curves = {KINDS[kind]: list(histogram.cumulative()) for kind, histogram in sorted(found.histograms.items())}
    try:
        path.write_text(json.dumps(curves) + "\n")
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from None
