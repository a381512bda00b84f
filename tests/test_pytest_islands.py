"""Small suites with tests that would disturb each other: in any order, on workers and repeated."""

import re

import pytest

from tests.crashes.lengths import drawn
from tests.plugin_runs import Tree


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


DISTURBING = """
    import pytest

    DAY = 86_400


    @pytest.fixture(scope="module")
    def stock(kafka_broker):
        kafka_broker.produce("stock", "of the module")
        return "stock"


    def values(broker, topic):
        return [record.value for record in broker.records(topic)]


    @pytest.fixture
    def later(kafka_broker):
        kafka_broker.advance(DAY)


    @pytest.fixture
    def untouched(kafka_broker, stock):
        def check(now_s):
            assert values(kafka_broker, stock) == [b"of the module"]
            assert kafka_broker.requests() == []
            assert kafka_broker.faults.rules == []
            assert kafka_broker.groups() == []
            assert abs(kafka_broker.produce("clock", "v").timestamp / 1000 - now_s) < 3600
            kafka_broker.advance(1)
            assert values(kafka_broker, stock) == [b"of the module"]

        return check


    def test_advance(kafka_broker, stock, untouched):
        import time

        untouched(time.time())
        kafka_broker.advance(8 * DAY)
        assert values(kafka_broker, stock) == []


    def test_a_fixture_advances(kafka_broker, stock, later):
        kafka_broker.advance(7 * DAY)
        assert values(kafka_broker, stock) == []


    def test_reset(kafka_broker, stock, untouched):
        import time

        untouched(time.time())
        kafka_broker.reset()
        assert kafka_broker.topics() == {}


    def test_rule_without_the_fixture(kafka_broker, kafka_topic, untouched):
        import time

        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        untouched(time.time())
        rule = kafka_broker.faults.when("Metadata").disconnect("before")
        admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0})
        while not rule.hits:
            with pytest.raises(KafkaException):
                admin.list_topics(timeout=0.2)


    @pytest.mark.parametrize("number", [1, 2])
    def test_the_same_group(kafka_broker, kafka_topic, untouched, number):
        import time

        from confluent_kafka import Consumer

        untouched(time.time())
        kafka_broker.produce(kafka_topic, "value")
        config = {"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": "billing", "log_level": 0}
        consumer = Consumer({**config, "auto.offset.reset": "earliest"})
        consumer.subscribe([kafka_topic])
        assert consumer.poll(30).value() == b"value"
        if number == 1:
            kafka_broker.advance(1)
        consumer.close()


    def test_asked_for_by_name(request):
        broker = request.getfixturevalue("kafka_broker")
        broker.advance(8 * DAY)


    def test_the_disk_fails(kafka_broker, kafka_faults):
        def fail():
            kafka_faults.disk_when("write").error()
            kafka_broker.produce("lost", "value")

        with pytest.raises(Exception, match="the broker failed"):
            fail()


    def test_close(kafka_broker):
        kafka_broker.close()


    def test_nothing(untouched):
        import time

        untouched(time.time())
"""
REVERSED = """
    def pytest_collection_modifyitems(items):
        items.reverse()
"""
SHUFFLED = """
    import random

    def pytest_collection_modifyitems(items):
        random.Random({seed}).shuffle(items)
"""
REPEATED = """
    from _pytest.runner import runtestprotocol

    def pytest_runtest_protocol(item, nextitem):
        "As plugins do that run a test again: the first run is not told."
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        first = runtestprotocol(item, nextitem=nextitem, log=False)
        assert all(report.passed for report in first), [str(report.longrepr) for report in first]
        runtestprotocol(item, nextitem=nextitem)
        return True
"""


@pytest.mark.parametrize(
    ("conftest", "arguments"),
    [
        ("", ()),
        (REVERSED, ()),
        *((SHUFFLED.format(seed=seed), ()) for seed in range(3)),
        (REPEATED, ()),
        ("", ("-n", "2")),
    ],
    ids=["in order", "reversed", "shuffled-0", "shuffled-1", "shuffled-2", "repeated", "on two workers"],
)
@pytest.mark.parametrize("mode", drawn("pipelined", "classic"))
def test_tests_do_not_see_the_effects_of_others(tree, conftest, arguments, mode):
    outcome = tree({"conftest.py": conftest, "test_it.py": DISTURBING}, "-q", "--kafka-mode", mode, *arguments)
    assert outcome.counts() == {"passed": 10}, outcome.text


def test_a_rule_that_never_struck_is_a_warning_and_an_error_on_request(tree):
    files = {
        "test_it.py": """
        def test_typo(kafka_broker, kafka_topic, kafka_faults):
            kafka_faults.when("Produce", topic="typo", nth=2).error("NOT_LEADER_OR_FOLLOWER")

        def test_that_fails_first(kafka_broker, kafka_topic, kafka_faults):
            kafka_faults.when("Produce", topic="never").drop()
            assert False

        def test_without_rules(kafka_broker):
            pass
        """
    }
    category = "pipeline_broker.pytest_plugin.UnusedFaultWarning"
    text = "this fault rule never struck: Produce topic=typo nth=2: error NOT_LEADER_OR_FOLLOWER"
    outcome = tree(files, "-q", "-W", f"default::{category}")
    assert outcome.counts() == {"passed": 2, "failed": 1, "warning": 1}, outcome.text
    assert text in outcome.text
    assert "topic=never" not in outcome.text.split("warnings summary")[1]
    outcome = tree(files, "-q", "-W", f"error::{category}")
    assert outcome.counts() == {"passed": 2, "failed": 1, "error": 1}, outcome.text
    assert text in outcome.text


def test_a_rule_without_an_effect_fails_its_test(tree):
    outcome = tree(
        {
            "test_it.py": """
            def test_forgotten(kafka_broker, kafka_faults):
                kafka_faults.when("Produce", topic="t", nth=2)

            def test_next(kafka_broker):
                pass
            """
        },
        "-q",
    )
    assert outcome.counts() == {"passed": 1, "failed": 1}, outcome.text
    assert "this fault rule has no effect: Produce topic=t nth=2. Give it one, such as .error(...)" in outcome.text
    assert not re.search(r"pytest_plugin.py:\d+", outcome.text)


def test_the_report_of_a_failure_shows_only_the_failed_test_in_every_phase(tree):
    files = {
        "conftest.py": REVERSED,
        "test_it.py": """
        import pytest
        from confluent_kafka import Producer


        def produce(broker, topic):
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
            producer.produce(topic, b"value")
            assert producer.flush(30) == 0


        @pytest.fixture(scope="module")
        def of_the_module(kafka_broker):
            produce(kafka_broker, "of-the-module")
            assert False


        @pytest.fixture
        def at_the_end(kafka_broker):
            yield
            produce(kafka_broker, "at-the-end")
            assert False


        def test_d(of_the_module):
            pass


        def test_c(at_the_end):
            pass


        def test_b(kafka_broker, kafka_faults):
            kafka_broker.advance(3600)
            kafka_faults.when("Metadata", topic="in-b").delay(0.001)
            produce(kafka_broker, "in-b")
            assert False


        def test_a(kafka_broker):
            produce(kafka_broker, "in-a")
        """,
    }
    outcome = tree(files, "-q")
    assert outcome.counts() == {"passed": 2, "failed": 1, "error": 2}, outcome.text
    sections = re.split(r"^-+ kafka broker -+$", outcome.text, flags=re.MULTILINE)[1:]
    shown = ["\n".join(re.findall(r"^(?:<Em|  ).*$", section.split("\n__")[0], re.MULTILINE)) for section in sections]
    topics = [set(re.findall(r"Produce v\d+ +(\S+)\[0\]", text)) for text in shown]
    assert sorted(map(sorted, topics)) == [["at-the-end"], ["in-b"], ["of-the-module"]], outcome.text
    (in_b,) = [text for text in shown if "in-b[0]" in text]
    assert "its clock 1:00:00 ahead" in in_b
    assert re.search(r"^  Metadata topic=in-b: delay 1ms +\d+ +[1-9]", in_b, re.MULTILINE), in_b
    assert "in-a" not in outcome.text.split("def test_a")[0]
