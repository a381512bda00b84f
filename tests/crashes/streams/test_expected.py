"""The comparison of results with the input: each wrong result is found."""

import pytest

from tests.crashes.streams.expected import Totals, Violated, WordCounts


def results_of(numbers):
    """Return the results that `totals` gives for these input records, of each bucket in order."""
    sums, totals, results = {}, {}, {}
    for number in numbers:
        key = number % 10
        sums[key] = sums.get(key, 0) + number % 7
        bucket = f"b{key % 3}"
        count, total = totals.get(bucket, (0, 0))
        totals[bucket] = (count + 1, total + sums[key])
        results.setdefault(bucket, []).append("{} {}".format(*totals[bucket]))
    return results


@pytest.fixture
def totals():
    expected = Totals()
    for number in range(50):
        expected.add(number)
    return expected


def test_results_of_all_input_are_complete(totals):
    assert totals.is_complete(results_of(range(50)), was_killed=False)


def test_results_may_still_be_missing_at_the_end(totals):
    assert not totals.is_complete(results_of(range(49)), was_killed=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values.insert(3, values[3]), "b1 counts"),
        (lambda values: values.pop(3), "b1 counts"),
        (lambda values: values.append("16 99"), "the input demands"),
        (lambda values: values.__setitem__(-1, f"{len(values)} 0"), "the input demands"),
    ],
    ids=["twice", "missing", "too many", "wrong sum"],
)
def test_a_wrong_result_is_found(totals, change, message):
    results = results_of(range(50))
    change(results["b1"])
    with pytest.raises(Violated, match=message):
        totals.is_complete(results, was_killed=True)


def test_words_counted_twice_are_wrong_without_a_kill():
    expected = WordCounts()
    expected.add(0)
    assert expected.is_complete({"w0": ["1", "2"]}, was_killed=False)
    assert expected.is_complete({"w0": ["3"]}, was_killed=True)
    assert not expected.is_complete({"w0": ["1"]}, was_killed=True)
    with pytest.raises(Violated):
        expected.is_complete({"w0": ["3"]}, was_killed=False)
