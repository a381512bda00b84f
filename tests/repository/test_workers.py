"""What `make test` relies on in the tools that spread tests over workers, and how it spreads them."""

from collections import Counter

import attrs
import pytest

from tests.conftest import ROOT
from tests.spreading import TOGETHER, group_of, spread


@pytest.mark.xdist_group("together")
def test_a_group_of_tests_is_known_to_the_scheduler(request):
    """A Spark session and Apache Kafka are started once, in the worker to which all tests of their group go."""
    if not request.config.getoption("loadgroup", default=False):
        pytest.skip("tests are not spread by group: make test does")
    assert request.node.nodeid.endswith("@together"), "this pytest and this pytest-xdist do not fit together"


@pytest.fixture(scope="module", params=["classic", "pipelined"])
def shared(request):
    return request.param_index


@pytest.fixture
def own():
    """Of one test."""


def test_tests_that_share_a_fixture_of_their_module_go_to_one_worker_for_each_of_its_parameters(shared, request):
    assert group_of(request.node) == f"repository-test_workers-shared-shared-{shared}"


@pytest.mark.parametrize("number", [1, 2])
def test_tests_that_share_nothing_go_to_any_worker(own, number, request):
    assert group_of(request.node) is None


def test_units_are_handed_out_in_the_order_of_collection():
    """Else pytest-xdist sorts them by the number of their tests, and the longest ones come last."""
    assert "--dist loadgroup --no-loadscope-reorder\n" in (ROOT / "Makefile").read_text(encoding="utf-8")


@attrs.define(eq=False)
class Item:
    """A test as far as it is spread."""

    name: str
    markers: dict = attrs.field(factory=dict)

    @property
    def path(self):
        return ROOT / "tests" / self.name

    def get_closest_marker(self, name):
        return self.markers.get(name)

    def add_marker(self, decorator):
        self.markers[decorator.name] = decorator.mark


def item(name, *decorators):
    made = Item(name)
    for decorator in decorators:
        made.add_marker(decorator)
    return made


def test_long_tests_come_first_and_chains_before_all():
    small, faults = item("wire/test_codec.py"), item("crashes/test_kill.py", pytest.mark.faults)
    kafka = item("differential/test_rights.py", pytest.mark.xdist_group("kafka"))
    spark, compare = item("spark_analysis/test_gaps.py", pytest.mark.spark), item("measure/experiment/test_compare.py")
    items = [small, compare, faults, spark, kafka]
    spread(items)
    assert items == [kafka, spark, faults, compare, small]
    assert [group_of(it) for it in items] == ["kafka", "spark", None, None, "wire-test_codec-0"]


def test_small_tests_of_a_file_go_in_units():
    many = [item("wire/test_codec.py") for _ in range(2 * TOGETHER + 1)]
    same_name = [item("records/test_codec.py") for _ in range(TOGETHER + 1)]
    few = [item("wire/test_header.py") for _ in range(TOGETHER)]
    spread([*many, *same_name, *few])
    assert sorted(Counter(map(group_of, many)).values()) == [1, TOGETHER, TOGETHER]
    assert not set(map(group_of, many)) & set(map(group_of, same_name))
    assert len(set(map(group_of, few))) == 1
