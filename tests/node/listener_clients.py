"""Clients that read the listeners of a broker, and alter its settings."""

from pipeline_broker.config.listeners import read_endpoints
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from pipeline_broker.wire.messages.configs.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from tests.apis.wire_client import WireClient

BROKER = 4
DELETE = 1


def configs_of(client, *names):
    resource = DescribeConfigsRequest.DescribeConfigsResource(BROKER, "1", list(names))
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = client.ask(request, DescribeConfigsResponse, 4).results
    assert not result.error_code, result.error_message
    return {config.name: config for config in result.configs}


def ports_of(client):
    """Return the port of each listener, as in the broker's own setting."""
    shown = configs_of(client, "listeners")["listeners"].value
    return {endpoint.name: endpoint.port for endpoint in read_endpoints("listeners", shown.split(","))}


def alter(client, *, validate_only=False, **changes):
    """Set settings of the broker, with `_` for `.`, or reset them with None; return the error message."""
    return alter_names(client, {name.replace("_", "."): text for name, text in changes.items()}, validate_only)


def alter_names(client, changes, validate_only=False):
    altered = [
        IncrementalAlterConfigsRequest.AlterableConfig(name, DELETE if text is None else 0, text)
        for name, text in changes.items()
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(BROKER, "1", altered)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (response,) = client.ask(request, IncrementalAlterConfigsResponse, 1).responses
    return response.error_message if response.error_code else None


def advertised_to(host, port):
    """Return the addresses that the broker advertises to a client of this address."""
    with WireClient(host, port) as client:
        answer = client.ask(MetadataRequest(topics=[]), MetadataResponse, 12)
    return [(broker.host, broker.port) for broker in answer.brokers]
