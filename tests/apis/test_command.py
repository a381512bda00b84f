import json

from click.testing import CliRunner

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.cli import main


def run(*arguments):
    result = CliRunner().invoke(main, ["apis", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_table_has_a_line_for_every_api():
    head, *lines = run().splitlines()
    assert head.split() == ["key", "API", "versions"]
    assert len(lines) == len(SERVED)
    assert ["0", "Produce", "3-13"] in [line.split() for line in lines]
    assert ["75", "DescribeTopicPartitions", "0"] in [line.split() for line in lines]


def test_the_json_holds_what_is_served_and_what_is_advertised():
    rows = json.loads(run("--json"))
    assert [row["key"] for row in rows] == sorted(SERVED)
    assert rows[0] == {"key": 0, "name": "Produce", "versions": [3, 13], "advertised": [0, 13]}
