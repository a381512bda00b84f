"""The pytest plugin in a foreign project: another process, in a directory with blanks in its path.

Checks the outcomes that pytest reports and the files that the plugin writes. Tests of loaded modules, and those with
workers, use a new interpreter.
"""

import re

import pytest

from tests.forks import ROOT
from tests.plugin_runs import PLUGIN, THREE_CLIENTS, Tree


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


@pytest.mark.clients
@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_all_three_clients_work(tree, mode):
    outcome = tree({"tests/test_clients.py": THREE_CLIENTS}, "-q", "--kafka-mode", mode)
    assert outcome.counts() == {"passed": 3}, outcome.text


def test_a_session_has_one_broker_and_each_test_a_new_empty_topic(tree):
    outcome = tree(
        {
            "test_topics.py": """
            import pytest

            seen = set()

            @pytest.mark.parametrize("name", ["a b/c", "ü" * 300, ""])
            def test_topic(kafka_broker, kafka_topic, name):
                assert type(kafka_topic) is str
                assert kafka_broker.topics()[kafka_topic] == 1
                assert kafka_broker.records(kafka_topic) == []
                kafka_broker.produce(kafka_topic, "value")
                seen.add((kafka_broker.bootstrap_servers, kafka_topic))

            @pytest.mark.kafka(partitions=3)
            def test_partitions(kafka_broker, kafka_topic):
                assert kafka_broker.topics()[kafka_topic] == 3

            def test_one_broker():
                assert len({servers for servers, _ in seen}) == 1
                assert len({topic for _, topic in seen}) == 3
            """
        }
    )
    assert outcome.counts() == {"passed": 5}, outcome.text


def test_the_rules_of_a_test_end_with_it_also_when_it_fails(tree):
    files = {
        "test_faults.py": """
            import pytest
            from confluent_kafka import KafkaException
            from confluent_kafka.admin import AdminClient


            def topics(kafka_broker):
                servers = {"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0}
                return AdminClient(servers).list_topics(timeout=2).topics


            @pytest.mark.parametrize("fails", [False, True])
            def test_nobody_is_answered(kafka_broker, kafka_faults, fails):
                rule = kafka_faults.when("Metadata").disconnect("before")
                with pytest.raises(KafkaException):
                    topics(kafka_broker)
                assert rule.hits > 0
                assert not fails


            def test_everybody_is_answered_again(kafka_broker, kafka_topic):
                assert kafka_broker.faults.rules == []
                assert kafka_topic in topics(kafka_broker)
        """
    }
    assert tree(files).counts() == {"passed": 2, "failed": 1}


def test_a_marker_chooses_mode_and_settings_and_the_closest_one_wins(tree):
    outcome = tree(
        {
            "test_marks.py": """
            from datetime import timedelta

            import pytest

            pytestmark = pytest.mark.kafka(settings={"num.partitions": 2})

            def partitions(broker, name):
                broker.create_topic(name)
                return broker.topics()[name]

            @pytest.mark.kafka(mode=["classic", "pipelined"])
            def test_both(kafka_broker, request):
                assert kafka_broker.mode in request.node.name
                assert partitions(kafka_broker, "both") == 2

            @pytest.mark.kafka(mode="classic", settings={"num.partitions": 5})
            def test_closest(kafka_topic, kafka_broker):
                assert kafka_broker.mode == "classic"
                assert partitions(kafka_broker, "closest") == 5

            def test_neither(kafka_broker):
                assert kafka_broker.mode == "pipelined"
                assert partitions(kafka_broker, "neither") == 2

            @pytest.mark.kafka(settings={"log.retention.ms": timedelta(days=1), "log.cleanup.policy": ["compact"]})
            def test_as_people_write_them(kafka_broker):
                config = kafka_broker.on_loop(lambda running: running.broker.config.properties)
                assert config["log.retention.ms"] == "86400000"

            @pytest.mark.kafka(settings={"auto.create.topics.enable": False})
            def test_together(kafka_broker):
                assert partitions(kafka_broker, "together") == 2
                with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PARTITION"):
                    kafka_broker.produce("not there", b"value")
            """
        },
        "--strict-markers",
        "-v",
    )
    assert outcome.counts() == {"passed": 6}, outcome.text


def test_the_command_line_overrides_the_configuration_file(tree):
    files = {
        "pytest.ini": """
        [pytest]
        kafka_mode = classic
        kafka_settings =
            num.partitions = 4
            auto.create.topics.enable=false
        """,
        "test_it.py": """
        def test_it(kafka_broker, kafka_topic):
            assert kafka_broker.topics()[kafka_topic] == 4
            print("mode", kafka_broker.mode)
        """,
    }
    assert "mode classic" in tree(files, "-s").text
    assert "mode pipelined" in tree({}, "-s", "--kafka-mode", "pipelined").text


FAILING = """
    def test_that_fails(kafka_broker, kafka_topic):
        kafka_broker.produce(kafka_topic, "what was there <&>", key="k")
        assert len(kafka_broker.records(kafka_topic)) == 2

    def test_that_passes(kafka_broker, kafka_topic):
        kafka_broker.produce(kafka_topic, "nobody asks")
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_failed_test_shows_the_brokers_view_and_on_request_writes_a_page(tree, workers):
    outcome = tree({"test_it.py": FAILING}, "--kafka-dump", "dumps of it", *workers)
    assert outcome.counts() == {"passed": 1, "failed": 1}, outcome.text
    assert re.search(r"^-+ kafka broker -+$", outcome.text, re.MULTILINE)
    assert re.search(r"test_that_fails-\d+ +0 +0 +\d[^k]+ +k +what was there <&>", outcome.text)
    assert "nobody asks" not in outcome.text
    (page,) = (tree.folder / "dumps of it").iterdir()
    assert page.name == "test_it.py-test_that_fails.html"
    assert f"the complete page: {page}" in outcome.text
    assert "what was there &lt;&amp;&gt;" in page.read_text(encoding="utf-8")


def test_a_dump_that_cannot_be_written_does_not_hide_the_failure(tree):
    outcome = tree({"test_it.py": FAILING, "file": ""}, "--kafka-dump", "file")
    assert outcome.counts() == {"passed": 1, "failed": 1}, outcome.text
    assert "the state of the broker cannot be shown: " in outcome.text


def test_another_package_named_stages_fails_only_tests_with_a_broker_with_one_line(tree):
    outcome = tree(
        {
            "stages/__init__.py": "theirs = 1\n",
            "test_it.py": """
            import stages

            def test_theirs():
                assert stages.theirs

            def test_ours(kafka_broker):
                pass
            """,
        },
        "-q",
        is_fork=False,
    )
    assert outcome.counts() == {"passed": 1, "error": 1}, outcome.text
    assert "is another package named stages and shadows the one of pipeline-broker" in outcome.text
    assert "Traceback" not in outcome.text
    assert "During handling" not in outcome.text
    assert "_pytest/python.py" not in outcome.text, "the line of the plugin does not help"


@pytest.mark.parametrize("statement", ["from spark_analysis import load_run", "import spark_analysis.session"])
def test_a_test_that_imports_another_spark_analysis_learns_which_one(tree, statement):
    files = {
        "spark_analysis/__init__.py": "theirs = 1\n",
        "test_it.py": f"def test_it():\n    {statement}\n",
        "test_collected.py": f"{statement}\n",
        "test_theirs.py": "import spark_analysis\n\ndef test_theirs(kafka_broker):\n    assert spark_analysis.theirs\n",
    }
    outcome = tree(files, "--continue-on-collection-errors", is_fork=False)
    assert outcome.counts() == {"passed": 1, "failed": 1, "error": 1}, outcome.text
    assert outcome.text.count("is another package named spark_analysis and shadows the one of pipeline-broker") == 2


def test_a_run_without_our_fixtures_imports_no_module_of_ours(tree):
    outcome = tree(
        {
            "test_it.py": f"""
            import sys

            def test_it():
                ours = [name for name in sys.modules if name.startswith(("pipeline_broker.", "stages"))]
                assert sorted(ours) == ["pipeline_broker._pytest_marker", {PLUGIN!r}]
                assert "trio" not in sys.modules
            """
        },
        is_fork=False,
    )
    assert outcome.counts() == {"passed": 1}, outcome.text


@pytest.mark.parametrize(
    ("marker", "line"),
    [
        ("mode='fast'", "@pytest.mark.kafka takes classic or pipelined as mode, not 'fast'"),
        ("mode=['classic', 3]", "@pytest.mark.kafka takes classic or pipelined as mode, not 3"),
        ("mode=None", "@pytest.mark.kafka takes classic or pipelined as mode, not None"),
        ("mode={'classic': {}}", "@pytest.mark.kafka takes classic or pipelined as mode, not {'classic': {}}"),
        ("modes='classic'", "@pytest.mark.kafka takes mode=..., settings={...}, partitions=1, not modes"),
        ("partition=3", "@pytest.mark.kafka takes mode=..., settings={...}, partitions=1, not partition"),
        ("partitions='3'", "@pytest.mark.kafka takes at least 1 partition, not '3'"),
        ("partitions=0", "@pytest.mark.kafka takes at least 1 partition, not 0"),
        ("settings=3", "@pytest.mark.kafka takes settings={NAME: VALUE}, not 3"),
        ("'classic'", "@pytest.mark.kafka takes mode=..., settings={...}, partitions=1, not 'classic'"),
        (
            "settings={'num.partitions': None}",
            "kafka_broker: settings: num.partitions needs a text, a number, a bool or a timedelta, not None",
        ),
        (
            "settings={'num.partition': 1}",
            "kafka_broker: settings: unknown property 'num.partition'; did you mean num.partitions?",
        ),
    ],
)
def test_an_invalid_marker_fails_only_its_test_with_one_line(tree, marker, line):
    test = f"""
    import pytest

    @pytest.mark.kafka({marker})
    def test_it(kafka_broker):
        pass

    def test_other(kafka_broker):
        pass
    """
    outcome = tree({"test_it.py": test}, "-q")
    assert outcome.counts() == {"passed": 1, "error": 1}, outcome.text
    assert outcome.text.count(f"\n{line}\n") == 1
    assert "Traceback" not in outcome.text
    assert "another exception" not in outcome.text


def test_without_our_fixtures_a_marker_of_the_same_name_is_the_projects_own(tree):
    files = {
        "conftest.py": """
            import pytest

            @pytest.fixture(params=["real"])
            def kafka_broker(request):
                return request.param

            @pytest.fixture
            def topic(kafka_broker):
                return kafka_broker
            """,
        "test_it.py": """
            import pytest

            @pytest.mark.kafka("integration")
            def test_plain():
                pass

            @pytest.mark.kafka(topic="orders")
            class TestAll:
                @pytest.mark.kafka(mode="classic", settings={"a": "b"})
                def test_theirs(self, kafka_broker, topic):
                    assert kafka_broker == topic == "real"
            """,
    }
    assert tree(files, "-q").counts() == {"passed": 2}


def test_a_fixture_that_wraps_ours_uses_the_marker(tree):
    files = {
        "test_it.py": """
            import pytest

            @pytest.fixture(scope="session")
            def kafka_broker(kafka_broker):
                return kafka_broker

            @pytest.mark.kafka(settings={"num.partitions": 3})
            def test_settings(kafka_broker, kafka_topic):
                assert kafka_broker.topics()[kafka_topic] == 3

            @pytest.mark.kafka(partitions=2)
            def test_partitions(kafka_topic, kafka_broker):
                assert kafka_broker.topics()[kafka_topic] == 2
            """
    }
    outcome = tree(files, "-q")
    assert outcome.counts() == {"passed": 2}, outcome.text


@pytest.mark.parametrize("name", ["kafka_topic", "kafka_topics", "kafka_faults", "kafka_schema_registry"])
def test_a_projects_own_kafka_broker_under_our_fixture_is_one_line(tree, name):
    files = {
        "test_it.py": f"""
            import pytest

            @pytest.fixture(scope="session")
            def kafka_broker():
                return object()

            def test_it({name}):
                pass
            """
    }
    outcome = tree(files, "-q")
    assert outcome.counts() == {"error": 1}, outcome.text
    line = f"{name} needs the kafka_broker of pipeline-broker, but this project defines a fixture of that name"
    assert line in outcome.text
    assert "Traceback" not in outcome.text


def test_a_failed_wait_is_reported_at_the_line_of_the_test(tree):
    files = {
        "test_it.py": """
        import asyncio

        import pytest

        import pipeline_broker

        ASKED = {
            "records": lambda broker: broker.wait_records("t", timeout=0.1),
            "assigned": lambda broker: broker.wait_assigned("g", timeout=0.1),
            "fetching": lambda broker: broker.wait_fetching("t", timeout=0.1),
            "awaited": lambda broker: asyncio.run(broker.wait_records_async("t", timeout=0.1)),
            "no topic": lambda broker: broker.records("nope"),
            "refused": lambda broker: broker.create_topic("a topic"),
            "no group": lambda broker: broker.faults.force_rebalance("nope"),
            "back": lambda broker: broker.advance(-1),
            "no API": lambda broker: broker.faults.when("Produc"),
            "no API asked": lambda broker: broker.requests("Produc"),
            "no condition": lambda broker: broker.faults.when("Produce", topics="t"),
            "no number": lambda broker: broker.faults.when("Produce", nth=0),
            "no error": lambda broker: broker.faults.when("Produce").error("NOT_LEADR_OR_FOLLOWER"),
            "no content": lambda broker: broker.produce("t", {"a": 1}),
            "no property": lambda broker: pipeline_broker.EmbeddedBroker(settings={"num.partition": 1}).start(),
            "no mode": lambda broker: pipeline_broker.EmbeddedBroker(mode="clasic"),
            "other records": lambda broker: broker.assert_records("t", ["a"], timeout=0.1),
        }

        @pytest.mark.parametrize("name", ASKED)
        def test_it(kafka_broker, name):
            ASKED[name](kafka_broker)
        """
    }
    outcome = tree(files, "-q")
    assert outcome.counts() == {"failed": 17}, outcome.text
    assert "WaitTimeoutError: the topic 't' has 0 of 1 records, after 0.1 s" in outcome.text
    assert not re.search(r"pipeline_broker[/.]\S+:\d+: ", outcome.text), outcome.text


def test_an_invalid_line_of_kafka_settings_is_reported(tree):
    files = {"pytest.ini": "[pytest]\nkafka_settings = nonsense\n", "test_it.py": "def test_it(kafka_broker): pass\n"}
    assert tree(files, "-q").text.strip() == "ERROR: kafka_settings: 'nonsense' is not of the form NAME=VALUE"


def test_the_options_and_the_marker_are_documented(tree):
    text = tree({}, "--help").text + tree({}, "--markers").text
    for name in ("--kafka-mode", "--kafka-dump", "kafka_mode", "kafka_settings", "@pytest.mark.kafka"):
        assert name in text


def test_the_package_registers_the_plugin_with_pytest():
    """The wheel's metadata are built from this file."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"pipeline_broker": PLUGIN}
