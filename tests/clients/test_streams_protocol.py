"""An application of Kafka Streams with a streams group (KIP-1071), and Kafka's tool for such groups."""

from __future__ import annotations

import pytest

from tests import kafka_tools
from tests.crashes.streams.instances import Compiled
from tests.crashes.streams.run import SETTINGS, Run

pytestmark = pytest.mark.clients

NAME = "word-count"


class Started:
    """A broker that a fixture has started and will stop."""

    def __init__(self, broker):
        host, port = broker.bootstrap.split(":")
        self.address = host, int(port)

    def start(self):
        pass

    def kill(self):
        pass


@pytest.mark.parametrize("arguments", [(), ("--brokers", "3")], ids=["one broker", "a cluster"])
def test_kafkas_tool_describes_resets_and_deletes_the_group_of_an_application(broker_process, arguments, tmp_path):
    kafka_tools.require_kafka_streams()
    longer = [setting for setting in SETTINGS if "session.timeout" not in setting]
    broker = broker_process(arguments=arguments, settings=longer)
    run_tool = kafka_tools.kafka_tool(tmp_path)

    def tool(*arguments):
        return run_tool("streams.StreamsGroupCommand", "--bootstrap-server", broker.bootstrap, *arguments).stdout

    with Run(0, tmp_path, Started(broker), Compiled(tmp_path), NAME, count=1) as run:
        run.run(0)
        assert [line.split() for line in tool("--list", "--state").splitlines()[1:] if line] == [[NAME, "Stable"]]
        state = ("--describe", "--group", NAME, "--state")
        assert tool(*state).split()[-3:] == ["sticky", "Stable", "2"]
        members = tool("--describe", "--group", NAME, "--members", "--verbose")
        assert sum(line.count("ACTIVE:") - line.count("TARGET-ACTIVE:") for line in members.splitlines()) == 2
        for instance in run._instances:
            instance.close()
        assert tool(*state).split()[-3:] == ["sticky", "Empty", "0"]
        reset = tool("--reset-offsets", "--group", NAME, "--all-input-topics", "--to-earliest", "--execute")
        assert sorted(line.split()[-3:] for line in reset.splitlines() if line.startswith(NAME)) == [
            ["in", str(index), "0"] for index in range(3)
        ]
        assert "was successful" in tool("--delete", "--group", NAME)
        assert NAME not in tool("--list")
