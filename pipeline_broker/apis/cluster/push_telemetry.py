"""PushTelemetry: client metrics (KIP-714), decompressed in a thread and appended to the telemetry file, if any."""

from __future__ import annotations

import logging
import threading
import uuid

from pipeline_broker.apis.call import Call
from pipeline_broker.apis.cluster.get_telemetry_subscriptions import ACCEPTED_CODECS, client_of
from pipeline_broker.base.byte_budget import OverBudgetError
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.errors import RecordError
from pipeline_broker.state.client_metrics import TelemetryError
from pipeline_broker.telemetry.pushed_metrics import MalformedMetricsError
from pipeline_broker.wire.messages.cluster.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from stages.request import Parked, Result, Send

NOT_COMPRESSED = 0
# Client instance ids that no client may use.
RESERVED_IDS = frozenset({bytes(16), bytes(15) + b"\x01"})

logger = logging.getLogger(__name__)


def handle(call: Call, request: PushTelemetryRequest) -> Result:
    code = _refusal(call, request)
    if code is not ErrorCode.NONE or not request.metrics:
        return call.send(PushTelemetryResponse(error_code=code))
    file = call.broker.client_metrics_file
    instance_id = str(uuid.UUID(bytes=request.client_instance_id))
    client = {**client_of(call), "received_ms": call.now_ms, "ended": request.terminating}
    given_up = threading.Event()
    size_bytes = min(file.unpacked_bytes_max, call.broker.edges.holder_bytes_max)
    try:
        kept = call.broker.edges.keep(call.session, size_bytes, given_up.set)
    except OverBudgetError:  # earlier pushes of this client are still in progress
        return call.send(PushTelemetryResponse(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED))

    def check() -> None:
        if given_up.is_set():
            raise MalformedMetricsError("other clients need the memory")

    def work() -> Send:
        try:
            file.keep(instance_id, client, request.compression_type, request.metrics, check)
        except (RecordError, MalformedMetricsError) as error:
            logger.info("cannot read the metrics of client instance %s: %s", instance_id, error)
            return call.send(PushTelemetryResponse(error_code=ErrorCode.INVALID_RECORD))
        except OSError as error:
            logger.warning("cannot write client metrics: %s", error)
            return call.send(PushTelemetryResponse(error_code=ErrorCode.INVALID_RECORD))
        except Exception:
            logger.exception("a metrics push of client instance %s failed", instance_id)
            return call.send(PushTelemetryResponse(error_code=ErrorCode.INVALID_RECORD))
        return call.send(PushTelemetryResponse())

    def end(answer: Send) -> Send:
        kept.release()
        return answer

    return Parked(work, then=end)


def _refusal(call: Call, request: PushTelemetryRequest) -> ErrorCode:
    instance_id = request.client_instance_id
    if instance_id in RESERVED_IDS:
        return ErrorCode.INVALID_REQUEST
    client = {**client_of(call), "client_instance_id": str(uuid.UUID(bytes=instance_id))}
    try:
        call.broker.client_metrics.check_push(
            instance_id,
            client,
            request.subscription_id,
            call.now_ms,
            is_last=request.terminating,
            is_codec_known=request.compression_type in {NOT_COMPRESSED, *ACCEPTED_CODECS},
        )
    except TelemetryError as error:
        return error.code
    if len(request.metrics) > call.broker.config.telemetry_max_bytes:
        return ErrorCode.TELEMETRY_TOO_LARGE
    return ErrorCode.NONE
