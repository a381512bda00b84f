"""Expected values, including codes and messages, are those of Apache Kafka."""

import pytest

from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.messages.cluster.describe_cluster import DescribeClusterRequest
from tests.apis.desk import Desk

NOT_ASKED = -(2**31)


@pytest.mark.parametrize("version", versions_of(DescribeClusterRequest))
@pytest.mark.parametrize(("asked", "operations"), [(False, NOT_ASKED), (True, 8096)])
def test_the_one_broker_is_the_cluster(version, asked, operations):
    desk = Desk("node.id=7")
    response = desk.ask(DescribeClusterRequest(include_cluster_authorized_operations=asked), version)
    assert (response.error_code, response.controller_id, response.endpoint_type) == (0, 7, 1)
    assert response.cluster_id == desk.broker.cluster_id
    assert [(each.broker_id, each.host, each.port, each.rack, each.is_fenced) for each in response.brokers] == [
        (7, "broker.test", 9092, None, False)
    ]
    assert response.cluster_authorized_operations == operations


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("endpoint", "code", "message"),
    [
        (2, 114, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"),
        (3, 115, "Unsupported endpoint type 3"),
        (0, 115, "Unsupported endpoint type 0"),
    ],
)
def test_only_broker_endpoints_are_supported(version, endpoint, code, message):
    response = Desk().ask(DescribeClusterRequest(endpoint_type=endpoint), version)
    assert (response.error_code, response.error_message, response.endpoint_type) == (code, message, 1)
    assert (response.cluster_id, response.controller_id, response.brokers) == ("", -1, [])
