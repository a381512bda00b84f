"""`pipeline-broker load`: drive any Kafka broker with the native client.

Rules of this file: options and output only; a dead or refusing broker is one line and exit code 1.
"""

import json
from typing import Any

import click

__all__ = ["load"]

WARMUP_SHARE = 0.1
WARMUP_S_MAX = 1.0


class Address(click.ParamType[Any]):
    """HOST:PORT, with brackets around an IPv6 host."""

    name = "host:port"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Host and port."""
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            self.fail(f"{value!r} is not an address such as localhost:9092", param, ctx)
        return host.strip("[]"), int(port)


@click.command()
@click.argument("address", type=Address())
@click.option(
    "--connections", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Connections to the broker."
)
@click.option(
    "--in-flight",
    type=click.IntRange(1, 10_000),
    default=64,
    show_default=True,
    help="Requests in flight per connection.",
)
@click.option(
    "--record-size",
    type=click.IntRange(0, 1_000_000),
    default=100,
    show_default=True,
    help="Bytes of the one record in a request.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.05, 86_400),
    default=5.0,
    show_default=True,
    help="How long to send; the first tenth (at most 1 s) is warm-up.",
)
@click.option("--topic", default="load", show_default=True, help="Topic; created with 4 partitions when missing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def load(address: tuple[str, int], as_json: bool, **options: Any) -> None:
    """Keep requests in flight to the Kafka broker at ADDRESS (HOST:PORT) and print what it reached.

    A closed loop with acks=all: a connection sends its next request when an answer has come. Exit code 1 when a request
    fails, or when the broker cannot be reached or goes away.
    """
    from pipeline_broker.load.client import LoadOptions, run_load  # noqa: PLC0415 - it imports Trio
    from pipeline_broker.load.exchange import LoadError  # noqa: PLC0415 - paid for when used

    host, port = address
    warmup_s = min(WARMUP_S_MAX, options["seconds"] * WARMUP_SHARE)
    try:
        result = run_load(LoadOptions(host, port, warmup_s=warmup_s, **options))
    except LoadError as error:
        raise click.ClickException(str(error)) from None
    found = summary(result)
    click.echo(json.dumps(found) if as_json else sentence(found))
    if found["errors"]:
        raise click.exceptions.Exit(1)


def summary(result: Any) -> dict[str, Any]:
    """The figures of a run under their names."""
    from pipeline_broker.load.statistics import figures, percentile_ms  # noqa: PLC0415 - see above

    found = figures(result.rows)
    percentiles = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
    return {
        "requests": found.requests,
        "requests_per_s": round(found.requests_per_s, 1),
        **{name: percentile_ms(found.latencies_ns, quantile) for name, quantile in percentiles.items()},
        "errors": found.errors,
        "order_violations": found.order_violations,
        "client_cpu_share": round(result.client_cpu_share, 3),
    }


def sentence(found: dict[str, Any]) -> str:
    """The figures for a person."""
    percentiles = ", ".join(
        f"{name} {found[key]:.2f} ms"
        for name, key in (("p50", "p50_ms"), ("p99", "p99_ms"), ("p99.9", "p999_ms"))
        if found[key] is not None
    )
    return (
        f"{found['requests']:,} requests, {found['requests_per_s']:,.0f}/s; "
        f"{percentiles or 'too few for percentiles'}; "
        f"errors {found['errors']}, out of order {found['order_violations']}; "
        f"client {found['client_cpu_share']:.0%} of a core"
    )
