"""Tests with Spark's Kafka connector and the fixtures of pipeline-broker: a batch and a stream."""

import pytest
from pyspark.sql.functions import col, upper

from spark_analysis.live.connector import connector_jars
from spark_analysis.session import spark_session


@pytest.fixture(scope="session")
def spark():
    with spark_session("local[2]", {"spark.jars": connector_jars()}) as session:
        yield session


@pytest.fixture
def source(kafka_broker, kafka_topic):
    servers = kafka_broker.bootstrap_servers
    return {"kafka.bootstrap.servers": servers, "subscribe": kafka_topic, "startingOffsets": "earliest"}


def test_a_batch_has_what_was_written(spark, kafka_broker, kafka_topic, source):
    for airport in ("EWR", "IAH"):
        kafka_broker.produce(kafka_topic, airport)
    records = spark.read.format("kafka").options(**source).load()
    rows = records.select("partition", "offset", col("value").cast("string")).collect()
    assert list(map(tuple, rows)) == [(0, 0, "EWR"), (0, 1, "IAH")]


def test_a_stream_goes_on_after_a_lost_answer(spark, kafka_broker, kafka_topic, kafka_faults, source, tmp_path):
    arrivals = f"{kafka_topic}-arrivals"
    kafka_broker.create_topic(arrivals)
    fault = kafka_faults.when("Fetch", topic=kafka_topic, nth=1).disconnect("after")
    records = spark.readStream.format("kafka").options(**source).load()
    query = (
        records.select(upper(col("value").cast("string")).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka_broker.bootstrap_servers)
        .option("topic", arrivals)
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    for number, airport in enumerate(("ewr", "iah"), 1):
        kafka_broker.produce(kafka_topic, airport)
        kafka_broker.wait_records(arrivals, number, timeout=60)
    query.stop()
    assert [record.value for record in kafka_broker.records(arrivals)] == [b"EWR", b"IAH"]
    assert fault.hits == 1
