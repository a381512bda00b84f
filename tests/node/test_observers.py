"""All observers of a broker see the same requests: scrapes, the request log, and clients that read loggers."""

import errno
import json
import re
import signal
import time
import urllib.error
import urllib.request

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from pipeline_broker.dashboard.options import DashboardOptions
from pipeline_broker.node.observers import Observers
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.telemetry.trace_files import TraceFiles
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.messages.configs.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from pipeline_broker.wire.messages.data.fetch import FetchRequest, FetchResponse
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest, CreateTopicsResponse
from stages.mode import PIPELINED
from tests.apis.wire_client import WireClient
from tests.dashboard.board import Board
from tests.forks import run_command

BROKER, LOGGER = 4, 8
SET = 0
BATCH = build_batch([NewRecord(b"value", b"key", 1_700_000_000_000)])
SECONDS_MAX = 20.0


def alter(client, kind, **values):
    request = IncrementalAlterConfigsRequest
    configs = [request.AlterableConfig(name.replace("_", "."), SET, value) for name, value in values.items()]
    resource = request.AlterConfigsResource(kind, "1", configs)
    (response,) = client.ask(request([resource]), IncrementalAlterConfigsResponse, 1).responses
    return response.error_code


def produce(topic, *, records=BATCH):
    data = ProduceRequest.PartitionProduceData(0, records)
    return ProduceRequest(None, -1, 1000, [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])])


def fetch(topic, *, wait_ms=0, bytes_min=1):
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=10_000)
    wanted = FetchRequest.FetchTopic(topic=topic, partitions=[partition])
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=bytes_min, topics=[wanted])


def create(client, topic):
    request = CreateTopicsRequest
    client.ask(request([request.CreatableTopic(topic, 1, 1)], 5000), CreateTopicsResponse, 7)


def scrape(broker):
    (address,) = re.findall(r"^metrics on (http://\S+)$", broker.stderr, re.MULTILINE)
    with urllib.request.urlopen(address) as response:
        families = text_string_to_metric_families(response.read().decode())
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


def logged(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_a_scrape_has_errors_topics_and_fetches(broker_process, mode):
    broker = broker_process(mode=mode, arguments=["--metrics", "0"])
    with WireClient(broker.host, broker.port) as client:
        create(client, "t")
        for _ in range(3):
            client.ask(produce("t"), ProduceResponse, 9)
        client.ask(produce("missing"), ProduceResponse, 9)
        client.ask(produce("t", records=BATCH[:-1] + b"?"), ProduceResponse, 9)
        client.ask(fetch("t"), FetchResponse, 12)
        client.send(fetch("t", wait_ms=60_000, bytes_min=10_000), 12)
        deadline = time.monotonic() + SECONDS_MAX
        waiting = ("kafka_server_delayedoperationpurgatory_numdelayedoperations", ("delayedoperation", "Fetch"))
        while not (samples := scrape(broker))[waiting]:
            assert time.monotonic() < deadline

    errors = "kafka_network_requestmetrics_errors_total"
    found = {dict(key[1:])["error"]: value for key, value in samples.items()
             if key[0] == errors and ("request", "Produce") in key}  # fmt: skip
    assert found == {"NONE": 3, "UNKNOWN_TOPIC_OR_PARTITION": 1, "CORRUPT_MESSAGE": 1}
    topics, of_topic = "kafka_server_brokertopicmetrics", ("topic", "t")
    assert samples[f"{topics}_messagesin_total", of_topic] == 3
    assert samples[f"{topics}_bytesin_total", of_topic] == samples[f"{topics}_bytesin_total",] == 3 * len(BATCH)
    assert samples[f"{topics}_bytesout_total", of_topic] == 3 * len(BATCH)
    assert [samples[f"{topics}_totalproducerequests_total", *labels] for labels in ((of_topic,), ())] == [4, 5]
    assert samples[f"{topics}_totalfetchrequests_total", of_topic] == 2
    assert samples[f"{topics}_invalidmessagecrcrecords_total",] == 1
    assert samples["kafka_server_fetchsessioncache_numincrementalfetchsessions",] == 0


def test_metrics_are_served_until_the_broker_ends(broker_process):
    """Behaviour 31: while a broker drains its request metrics are served, per version and error; afterwards nothing."""
    broker = broker_process(arguments=["--metrics", "0", "--commit-delay", "500ms"])
    with WireClient(broker.host, broker.port) as client:
        create(client, "t")
        client.send(produce("t"), 9)
        broker.process.send_signal(signal.SIGTERM)
        samples = scrape(broker)
        assert client.expect(ProduceResponse, 9).responses[0].partition_responses[0].error_code == 0
    broker.stop()

    created = (("request", "CreateTopics"), ("version", "7"))
    assert samples["kafka_network_requestmetrics_requests_total", *created] == 1
    assert samples["kafka_network_requestmetrics_errors_total", ("error", "NONE"), created[0]] == 1
    with pytest.raises(urllib.error.URLError):
        scrape(broker)


def test_requests_are_logged_from_the_start_into_the_given_file(broker_process, tmp_path):
    """Behaviour 2 among them: the software of a client is unknown on the request that tells it."""
    path = tmp_path / "requests.jsonl"
    broker = broker_process(arguments=["--request-log", str(path)])
    with WireClient(broker.host, broker.port) as client:
        client.ask(ApiVersionsRequest("lib", "1.0"), ApiVersionsResponse, 3)
        create(client, "t")
        for _ in range(2):
            client.ask(produce("t"), ProduceResponse, 9)
    broker.stop()

    lines = logged(path)
    assert [line["requestHeader"]["requestApiKeyName"] for line in lines] == [
        "API_VERSIONS",
        "CREATE_TOPICS",
        "PRODUCE",
        "PRODUCE",
    ]
    assert [line["clientInformation"]["softwareName"] for line in lines] == ["unknown", "lib", "lib", "lib"]
    offsets = [line["response"]["responses"][0]["partitionResponses"][0]["baseOffset"] for line in lines[2:]]
    assert offsets == [0, 1]
    for line in lines:
        stages = ("requestQueueTimeMs", "localTimeMs", "remoteTimeMs", "responseQueueTimeMs", "sendTimeMs")
        assert sum(line[name] for name in stages) == pytest.approx(line["totalTimeMs"], abs=0.01)


def test_a_client_switches_the_log_of_a_running_broker(broker_process):
    """From the next request until the request that switches it off, which is not logged. Secrets are hidden."""
    broker = broker_process()
    with WireClient(broker.host, broker.port) as client:
        create(client, "before")
        alter(client, LOGGER, kafka_request_logger="DEBUG")
        alter(client, BROKER, ssl_key_password="hush", log_cleaner_threads="2")
        alter(client, LOGGER, kafka_request_logger="INFO")
        create(client, "after")
        alter(client, LOGGER, kafka_request_logger="TRACE")
        create(client, "again")
        alter(client, LOGGER, kafka_request_logger="WARN")
    broker.stop()

    text = (broker.data / "kafka-request.log").read_text(encoding="utf-8")
    lines = logged(broker.data / "kafka-request.log")
    assert [line["requestHeader"]["requestApiKeyName"] for line in lines] == [
        "INCREMENTAL_ALTER_CONFIGS",
        "CREATE_TOPICS",
    ]
    values = {one["name"]: one["value"] for one in lines[0]["request"]["resources"][0]["configs"]}
    assert values == {"ssl.key.password": "[hidden]", "log.cleaner.threads": "2"}
    assert "hush" not in text


def test_an_unwritable_file_is_one_line_at_startup(tmp_path):
    path = tmp_path / "missing" / "requests.jsonl"
    ended = run_command("serve", "--port", "0", "--data", str(tmp_path / "data"), "--request-log", str(path))

    assert ended.returncode == 2
    assert ended.stderr == (
        f"Error: cannot write the request log {path}: No such file or directory; choose another --request-log\n"
    )
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("principal", "status"), [("User:alice", 409), ("User:root", 200), (None, 200)])
def test_changes_in_the_dashboard_need_the_rights_of_its_principal(principal, status, tmp_path, capsys):
    board = Board(
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:root"
    )
    options = DashboardOptions(0, principal=principal)
    observers = Observers(PIPELINED, None, None, tmp_path / "log", dashboard=options)

    async def main():
        async with observers.observing(board.server, board.desk.broker):
            board.link = capsys.readouterr().err.removeprefix("dashboard on ").strip()
            board.port = int(board.link.split(":")[2].split("/")[0])
            return await board.change("/api/changes/create-topic", {"topic": "new"})

    found, answer = trio.run(main)
    assert found == status, answer
    assert (board.desk.broker.topics.get("new") is not None) == (status == 200)


def test_the_request_log_is_flushed_although_the_trace_files_fail(tmp_path, monkeypatch, caplog):
    class Log:
        is_closed = False

        def close(self):
            self.is_closed = True

    def close(files):
        raise OSError(errno.ENOSPC, "No space left on device")

    observers = Observers(PIPELINED, tmp_path / "trace", None, tmp_path / "log")
    observers._request_log = log = Log()
    with monkeypatch.context() as patch:
        patch.setattr(TraceFiles, "close", close)
        observers.close()
    assert log.is_closed
    assert "trace rows were lost: [Errno 28] No space left on device" in caplog.text
    observers.close()
