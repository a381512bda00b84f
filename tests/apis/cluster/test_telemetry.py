"""Client telemetry: off unless a file is set, bounded, and written completely."""

import json
import uuid

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.compression import compress
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest
from pipeline_broker.wire.messages.cluster.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from pipeline_broker.wire.messages.cluster.push_telemetry import PushTelemetryRequest
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.registry import ApiKey
from tests.apis.desk import Desk
from tests.telemetry.test_pushed_metrics import PUSH

GZIP, ZSTD = 1, 4


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pushed.json"


@pytest.fixture
def desk(path):
    return Desk(f"pipeline.telemetry.file={path}", "telemetry.max.bytes=1000")


def subscribe(desk, **settings):
    altered = IncrementalAlterConfigsRequest
    configs = [altered.AlterableConfig(name.replace("_", "."), 0, value) for name, value in settings.items()]
    answer = desk.ask(altered([altered.AlterConfigsResource(16, "all", configs)]), 1)
    assert answer.responses[0].error_code == 0


def asked(desk, instance_id=bytes(16)):
    answer = desk.ask(GetTelemetrySubscriptionsRequest(instance_id), 0)
    assert answer.error_code == 0
    return answer


def push(desk, told, data=PUSH, codec=0, *, terminating=False):
    request = PushTelemetryRequest(told.client_instance_id, told.subscription_id, terminating, codec, data)
    return desk.ask(request, 0).error_code


def advertised(desk):
    return {each.api_key for each in desk.ask(ApiVersionsRequest("x", "1"), 3).api_keys}


def test_telemetry_is_advertised_only_if_a_file_is_set(desk):
    both = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    assert advertised(desk) >= both
    assert not advertised(Desk()) & both


def test_a_push_without_a_file_is_answered_and_discarded(tmp_path):
    desk = Desk()
    assert push(desk, asked(desk)) == ErrorCode.NONE
    assert push(desk, asked(desk), b"not gzip", GZIP) == ErrorCode.INVALID_RECORD
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("codec", range(5))
def test_pushed_metrics_are_in_the_file(desk, path, codec):
    subscribe(desk, metrics="org.apache", interval_ms="1000")
    told = asked(desk)
    assert (told.requested_metrics, told.push_interval_ms, told.telemetry_max_bytes) == (["org.apache"], 1000, 1000)
    assert push(desk, told, compress(codec, PUSH), codec) == ErrorCode.NONE
    (client,) = json.loads(path.read_text())["clients"].values()
    assert client["client_id"] == "desk"
    assert [each["name"] for each in client["metrics"]] == ["org.apache.kafka.a", "org.apache.kafka.b"]


def test_a_push_that_is_too_large_or_in_an_unknown_codec_is_refused(desk, path):
    assert push(desk, asked(desk), bytes(1001)) == ErrorCode.TELEMETRY_TOO_LARGE
    assert push(desk, asked(desk), b"x", codec=5) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert not path.exists()


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_a_bomb_is_refused_before_it_is_unpacked(desk, path, codec):
    """CVE-2026-111073: ten times the largest push, and no byte more."""
    bomb = compress(codec, bytes(50_000))
    assert len(bomb) < 1000
    assert push(desk, asked(desk), bomb, codec) == ErrorCode.INVALID_RECORD
    assert not path.exists()


@pytest.mark.parametrize(("data", "codec"), [(b"\xff\xff", 0), (b"no zstd", ZSTD), (PUSH[:-1], 0)])
def test_malformed_metrics_are_an_invalid_record(desk, data, codec):
    assert push(desk, asked(desk), data, codec) == ErrorCode.INVALID_RECORD


def test_reserved_ids_cannot_push(desk):
    told = asked(desk)
    for instance_id in (bytes(16), bytes(15) + b"\x01"):
        told.client_instance_id = instance_id
        assert push(desk, told) == ErrorCode.INVALID_REQUEST


def test_pushes_are_an_interval_apart_and_the_last_one_says_so(desk, path):
    told = asked(desk)
    assert push(desk, told) == ErrorCode.NONE
    assert push(desk, told) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(desk, told, terminating=True) == ErrorCode.NONE
    (client,) = json.loads(path.read_text())["clients"].values()
    assert client["ended"]
    desk.now_ms += 300_000
    assert push(desk, told) == ErrorCode.INVALID_REQUEST


def test_a_file_that_cannot_be_written_is_an_error_of_the_push(tmp_path):
    desk = Desk(f"pipeline.telemetry.file={tmp_path / 'missing' / 'pushed.json'}")
    assert push(desk, asked(desk)) == ErrorCode.INVALID_RECORD


def test_only_the_last_clients_are_in_the_file(desk, path, monkeypatch):
    monkeypatch.setattr("pipeline_broker.telemetry.client_metrics_file.CLIENTS_MAX", 3)
    for _ in range(5):
        assert push(desk, asked(desk)) == ErrorCode.NONE
    assert len(json.loads(path.read_text())["clients"]) == 3


def test_the_least_recently_pushing_client_is_dropped_first(desk, path, monkeypatch):
    monkeypatch.setattr("pipeline_broker.telemetry.client_metrics_file.CLIENTS_MAX", 2)
    first, second, third = (asked(desk) for _ in range(3))
    for told in (first, second):
        assert push(desk, told) == ErrorCode.NONE
    desk.now_ms += first.push_interval_ms
    for told in (first, third):
        assert push(desk, told) == ErrorCode.NONE
    assert list(json.loads(path.read_text())["clients"]) == [
        str(uuid.UUID(bytes=told.client_instance_id)) for told in (first, third)
    ]


def test_a_push_is_charged_with_what_it_may_unpack_to_until_it_is_read(desk):
    charged = []
    file, edges = desk.broker.client_metrics_file, desk.broker.edges
    keep = file.keep
    file.keep = lambda *push: charged.append(edges.size_bytes) or keep(*push)
    assert push(desk, asked(desk)) == ErrorCode.NONE
    assert (charged, edges.size_bytes) == ([file.unpacked_bytes_max], 0)


def test_a_client_with_too_many_pushes_in_progress_is_throttled(desk):
    told = asked(desk)
    edges = desk.broker.edges
    taken = edges.keep(desk.connection.session, edges.holder_bytes_max, lambda: None)
    assert push(desk, told) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    taken.release()
    assert push(desk, told, terminating=True) == ErrorCode.NONE


def test_a_push_that_fails_unexpectedly_is_answered(desk, caplog):
    def fail(*push):
        raise ZeroDivisionError(len(push))

    told = asked(desk)
    desk.broker.client_metrics_file.keep = fail
    assert push(desk, told) == ErrorCode.INVALID_RECORD
    assert "ZeroDivisionError" in caplog.text
    assert desk.broker.edges.size_bytes == 0
