"""`pipeline-broker apis`: list the supported APIs and versions."""

from __future__ import annotations

import json

import click

from pipeline_broker.apis.registry import SERVED

__all__ = ["apis"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, including the advertised versions.")
def apis(*, as_json: bool) -> None:
    """List the supported APIs and their versions.

    As in Apache Kafka, the versions that ApiVersions advertises may begin with unsupported ones.
    """
    served = sorted(SERVED.values(), key=lambda api: api.key)
    if as_json:
        rows = [
            {
                "key": int(api.key),
                "name": api.name,
                "versions": [api.versions[0], api.versions[-1]],
                "advertised": list(api.advertised),
            }
            for api in served
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    width = max(len(api.name) for api in served)
    click.echo(f"{'key':>3}  {'API':<{width}}  versions")
    for api in served:
        lowest, highest = api.versions[0], api.versions[-1]
        versions = f"{lowest}" if lowest == highest else f"{lowest}-{highest}"
        click.echo(f"{int(api.key):>3}  {api.name:<{width}}  {versions}")
