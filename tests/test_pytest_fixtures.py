"""Fixtures of the plugin other than the session's broker: named topics, and a broker per test."""

import re

import pytest

from tests.plugin_runs import Tree


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_topics_are_named_after_their_test_and_unique(tree):
    outcome = tree(
        {
            "test_it.py": """
            import pytest

            @pytest.mark.kafka(partitions=2)
            @pytest.mark.parametrize("name", ["first", "x" * 300])
            def test_it(kafka_broker, kafka_topics, name):
                orders, bills = kafka_topics("orders", "bills", configs={"cleanup.policy": "compact"})
                (more,) = kafka_topics("orders", partitions=1)
                assert [kafka_broker.topics()[topic] for topic in (orders, bills, more)] == [2, 2, 1]
                assert orders.startswith("test_it") and orders.endswith("-orders") and bills.endswith("-bills")
                assert len({orders, bills, more}) == 3
                assert kafka_topics() == []
            """
        }
    )
    assert outcome.counts() == {"passed": 2}, outcome.text


def test_a_fresh_broker_has_the_modes_of_the_marker_and_may_be_closed(tree):
    outcome = tree(
        {
            "test_it.py": """
            import pytest

            seen = set()

            @pytest.mark.kafka(mode=["classic", "pipelined"], settings={"num.partitions": 3})
            @pytest.mark.parametrize("number", [1, 2])
            def test_fresh(kafka_broker, kafka_broker_fresh, request, number):
                assert kafka_broker_fresh.mode in request.node.name
                assert kafka_broker_fresh.mode == kafka_broker.mode
                assert kafka_broker_fresh.topics() == {}
                kafka_broker_fresh.create_topic("t")
                kafka_broker_fresh.advance(86_400)
                assert kafka_broker_fresh.topics() == {"t": 3}
                seen.add(kafka_broker_fresh.bootstrap_servers)

            def test_that_closes_it(kafka_broker_fresh):
                assert kafka_broker_fresh.bootstrap_servers not in seen
                kafka_broker_fresh.close()

            def test_whose_disk_fails(kafka_broker_fresh):
                kafka_broker_fresh.faults.disk_when("write").error()
                with pytest.raises(Exception, match="the broker failed"):
                    kafka_broker_fresh.produce("t", "value")

            def test_next(kafka_broker_fresh):
                kafka_broker_fresh.produce("t", "value")
            """
        },
        "-q",
        "--kafka-mode=classic",
    )
    assert outcome.counts() == {"passed": 7}, outcome.text


def test_a_fresh_broker_has_a_report_section_and_its_rules_are_checked(tree):
    outcome = tree(
        {
            "test_it.py": """
            def test_fails(kafka_broker, kafka_broker_fresh):
                kafka_broker.produce("shared", "in the session")
                kafka_broker_fresh.produce("own", "in the test")
                assert False

            def test_forgets(kafka_broker_fresh):
                kafka_broker_fresh.faults.when("Produce")

            def test_never(kafka_broker_fresh):
                kafka_broker_fresh.faults.when("Produce", topic="typo").drop()
            """
        },
        "-q",
        "--kafka-dump=dumps",
        "-W",
        "default::pipeline_broker.pytest_plugin.UnusedFaultWarning",
    )
    assert outcome.counts() == {"failed": 2, "passed": 1, "warning": 1}, outcome.text
    shared, fresh = re.split(r"^-+ kafka broker(?:, fresh)? -+$", outcome.text, flags=re.MULTILINE)[1:3]
    assert ("in the session" in shared, "in the test" in shared.split("____")[0]) == (True, False)
    assert ("in the session" in fresh, "in the test" in fresh) == (False, True)
    assert "this fault rule has no effect: Produce. Give it one" in outcome.text
    assert "this fault rule never struck: Produce topic=typo: drop" in outcome.text
    pages = sorted(page.name for page in (tree.folder / "dumps").iterdir())
    names = ["test_it.py-test_fails-fresh.html", "test_it.py-test_fails.html", "test_it.py-test_forgets-fresh.html"]
    assert pages == names
