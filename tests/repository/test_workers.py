"""What `make test` relies on in the tools that spread tests over workers."""

import pytest


@pytest.mark.xdist_group("together")
def test_a_group_of_tests_is_known_to_the_scheduler(request):
    """A Spark session and Apache Kafka are started once, in the worker to which all tests of their group go."""
    if not request.config.getoption("loadgroup", default=False):
        pytest.skip("tests are not spread by group: make test does")
    assert request.node.nodeid.endswith("@together"), "this pytest and this pytest-xdist do not fit together"
