"""Fixtures of the plugin with a client, a group, or topics of a wider scope, in a foreign project."""

import pytest

from tests.plugin_runs import Tree


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


TOPICS = """
    import pytest

    @pytest.fixture(scope="session")
    def stock(kafka_broker, kafka_topic_factory):
        topic = kafka_topic_factory("stock of/all", partitions=2, configs={"retention.ms": "-1"})
        kafka_broker.produce(topic, "10 apples")
        return topic

    @pytest.fixture(scope="module")
    def orders(kafka_topic_factory):
        return kafka_topic_factory("orders")

    seen = []

    @pytest.mark.parametrize("number", [1, 2])
    def test_it(kafka_broker, stock, orders, number):
        assert stock.startswith("stock-of-all-")
        assert kafka_broker.topics()[stock] == 2
        assert len(kafka_broker.records(stock)) == 1
        assert orders != stock
        seen.append((stock, orders))
        assert len(set(seen)) == 1
"""


def test_a_topic_of_a_factory_serves_tests_of_a_module_and_a_session(tree):
    outcome = tree({"test_it.py": TOPICS}, "--strict-markers")
    assert outcome.counts() == {"passed": 2}, outcome.text


def test_each_test_has_a_group_of_its_own(tree):
    test = """
    import pytest

    seen = set()

    @pytest.mark.parametrize("number", [1, 2])
    def test_it(kafka_group, number):
        assert kafka_group.startswith("test_it-")
        assert kafka_group not in seen
        seen.add(kafka_group)
    """
    assert tree({"test_it.py": test}).counts() == {"passed": 2}


CONFLUENT = """
    def test_it(kafka_broker, kafka_producer, kafka_consumer, kafka_topic, kafka_group):
        kafka_producer.produce(kafka_topic, "value")
        kafka_producer.flush(30)
        kafka_consumer.subscribe([kafka_topic])
        assert kafka_consumer.poll(30).value() == b"value"
        assert kafka_broker.wait_assigned(kafka_group).assigned == {(kafka_topic, 0)}

    def test_that_the_group_has_ended(kafka_broker):
        assert kafka_broker.groups() == []

    def test_that_closes_its_clients(kafka_producer, kafka_consumer):
        kafka_consumer.close()

    def test_under_a_rule_that_answers_nothing(kafka_producer, kafka_topic, kafka_faults):
        kafka_faults.when("Produce").drop()
        kafka_producer.produce(kafka_topic, "value")
        assert kafka_producer.flush(0.5) == 1

    def test_without_a_broker(kafka_broker, kafka_producer, kafka_consumer, kafka_topic):
        kafka_producer.produce(kafka_topic, "value")
        kafka_broker.close()
"""
KAFKA_PYTHON = """
    def test_it(kafka_producer, kafka_consumer, kafka_topic):
        assert type(kafka_producer).__name__ == "KafkaProducer"
        kafka_producer.send(kafka_topic, b"value").get(30)
        kafka_consumer.subscribe([kafka_topic])
        assert next(kafka_consumer).value == b"value"
"""


@pytest.mark.clients
def test_a_producer_and_a_consumer_end_with_their_test_whatever_it_did(tree):
    outcome = tree({"test_it.py": CONFLUENT}, is_fork=False)
    assert outcome.counts() == {"passed": 5}, outcome.text
    assert [line for line in outcome.errors.splitlines() if "Connection refused" not in line] == []


@pytest.mark.clients
def test_the_library_of_the_clients_is_an_option(tree):
    files = {"test_it.py": KAFKA_PYTHON, "pytest.ini": "[pytest]\nkafka_client = kafka-python\n"}
    outcome = tree(files, "-W", "ignore::DeprecationWarning", "-W", "ignore:unclosed:ResourceWarning")
    assert outcome.counts() == {"passed": 1}, outcome.text


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("rdkafka", "kafka_producer: kafka_client 'rdkafka' is unknown; use one of confluent-kafka, kafka-python"),
        ("kafka-python", "kafka_producer: kafka-python is not installed; run: pip install kafka-python"),
    ],
)
def test_a_library_that_is_unknown_or_missing_is_one_line(tree, option, line):
    files = {
        "pytest.ini": f"[pytest]\nkafka_client = {option}\n",
        "conftest.py": "import sys\nsys.modules['kafka'] = None\n",
        "test_it.py": "def test_it(kafka_producer):\n    pass\n",
    }
    outcome = tree(files, is_fork=False)
    assert outcome.counts() == {"error": 1}, outcome.text
    assert line in outcome.text
    assert "Traceback" not in outcome.text
