"""Read topics with this source and with Spark's Kafka connector; print both results, a line of JSON per scenario.

Arguments: the address of a broker, its data directory, and a file with the scenarios' options.
"""

import json
import sys
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from spark_analysis.live.connector import connector_jars
from spark_analysis.session import spark_session

COLUMNS = ("topic", "partition", "offset", "key", "value", "unix_millis(timestamp)", "timestampType")


def result_of(reader, options):
    """Return the rows as text, or that the read failed."""
    with_headers = options.get("includeHeaders") == "true"
    try:
        rows = reader.options(**options).load()
        found = rows.selectExpr(*COLUMNS, *(["CAST(headers AS STRING)"] if with_headers else [])).collect()
    except (PySparkException, Py4JJavaError) as error:  # assertions of the connector are the second
        return {"error": " ".join(str(error).split())[-600:]}
    return {"rows": sorted(json.dumps([_plain(value) for value in row]) for row in found)}


def _plain(value):
    return bytes(value).hex() if isinstance(value, bytearray | bytes) else value


def main():
    servers, directory, scenarios = sys.argv[1:]
    with spark_session("local[2]", {"spark.jars": connector_jars()}) as spark:
        for options in json.loads(Path(scenarios).read_text(encoding="utf-8")):
            ours = result_of(spark.read.format("pipeline-broker").option("path", directory), options)
            connector = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
            print(json.dumps([ours, result_of(connector, options)]), flush=True)


if __name__ == "__main__":
    main()
