"""GetTelemetrySubscriptions: the metrics that a client should push, and the interval (KIP-714).

ApiVersions advertises this API if `pipeline.telemetry.file` is set. As in Apache Kafka, a client that does not check
ApiVersions gets an answer too.
"""

from __future__ import annotations

import uuid

from pipeline_broker.apis.call import Call
from pipeline_broker.state.client_metrics import TelemetryError
from pipeline_broker.wire.messages.cluster.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from pipeline_broker.wire.primitives import UUID_ZERO
from stages.request import Send

__all__ = ["ACCEPTED_CODECS", "client_of", "handle"]

ACCEPTED_CODECS = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy, in Kafka's order of preference; uncompressed metrics are accepted too."""


def client_of(call: Call) -> dict[str, str]:
    session = call.session
    return {
        "client_id": call.client_id or "",
        "client_software_name": session.software_name,
        "client_software_version": session.software_version,
        "client_source_address": session.host,
    }


def handle(call: Call, request: GetTelemetrySubscriptionsRequest) -> Send:
    instance_id = request.client_instance_id
    if instance_id == UUID_ZERO:
        instance_id = call.broker.new_id().bytes
    client = {**client_of(call), "client_instance_id": str(uuid.UUID(bytes=instance_id))}
    try:
        subscription = call.broker.client_metrics.subscription(instance_id, client, call.now_ms)
    except TelemetryError as error:
        return call.refuse(error.code)
    return call.send(
        GetTelemetrySubscriptionsResponse(
            client_instance_id=instance_id,
            subscription_id=subscription.subscription_id,
            accepted_compression_types=list(ACCEPTED_CODECS),
            push_interval_ms=subscription.push_interval_ms,
            telemetry_max_bytes=call.broker.config.telemetry_max_bytes,
            delta_temporality=True,
            requested_metrics=list(subscription.metrics),
        )
    )
