"""Holm's correction agrees with its published procedure, and keeps false claims of a family below 5 %."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_analysis.interval import Ratio, ratio_interval
from spark_analysis.multiplicity import corrected, holm
from spark_analysis.report.common import forest
from tests.spark_analysis import made

LOADS = 20
ROUNDS = 5


def rejected_by_holm(chances, level):
    """Return the indexes that the step-down procedure rejects at a level."""
    ascending = sorted(range(len(chances)), key=lambda number: chances[number])
    rejected = set()
    for place, number in enumerate(ascending):
        if chances[number] > level / (len(chances) - place):
            break
        rejected.add(number)
    return rejected


chances = st.lists(st.floats(0, 1, exclude_max=True), max_size=12)


@given(chances, st.floats(0.0001, 0.9999))
def test_corrected_p_values_agree_with_holms_procedure(found, level):
    adjusted = holm(found)
    # A value right at the level is rejected or not by the last bit of a product or a quotient.
    clear = {number for number, chance in enumerate(adjusted) if abs(chance - level) > 1e-12}
    assert {number for number in clear if adjusted[number] <= level} == rejected_by_holm(found, level) & clear


@given(chances)
def test_a_corrected_chance_is_not_smaller_nor_above_that_of_bonferroni_and_keeps_the_order(found):
    adjusted = holm(found)
    assert all(before <= after <= min(1, before * len(found)) for before, after in zip(found, adjusted, strict=True))
    by_chance = sorted(range(len(found)), key=found.__getitem__)
    assert [adjusted[number] for number in by_chance] == sorted(adjusted)


def test_worked_by_hand():
    """0.01 x 4, 0.02 x 3, 0.03 x 2 (not below the previous one), 0.5 x 1."""
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([]) == []


def test_a_ratio_without_an_interval_does_not_count_in_its_family():
    alone = ratio_interval([2.0, 2.1, 2.2])
    family = corrected({"one": alone, "two": Ratio(3.0, None, None, 1)})
    assert family["one"].corrected == alone.chance
    assert family["two"].corrected is None
    assert not family["two"].above


def test_a_load_beyond_chance_alone_fails_the_correction_for_many():
    """An interval that just excludes 1, among 19 loads without a difference: by chance, 1 of 20 does."""
    drawn = random.Random(3)
    narrow = made.pairs(made.load(99), [1.0] * ROUNDS)
    for place, gain in enumerate((1.03, 1.09, 1.02, 1.12, 1.07)):
        narrow[2 * place + 1] = made.run(made.load(99), place, 1, 1000 * gain)
    (alone,) = made.comparison(narrow).speedups.values()
    assert alone.above
    many = [run for number in range(1, LOADS) for run in made.pairs(made.load(number), [1.0] * ROUNDS, drawn, 0.05)]
    among = made.comparison([*narrow, *many]).speedups[made.load(99)]
    assert (among.value, among.low) == (alone.value, alone.low)
    assert among.low > 1
    assert not among.above


@pytest.mark.parametrize(
    ("low", "chance", "said"),
    [
        (0.9, 0.2, "not beyond chance: 0.90x to 2.2x"),
        (1.1, 0.2, "beyond chance alone, not after the correction: 1.10x to 2.2x"),
        (1.1, 0.01, "1.50x (1.10x to 2.2x)"),
    ],
)
def test_a_drawing_marks_ratios_that_fail_only_the_correction(low, chance, said):
    drawn = forest("p99", [("a load", Ratio(1.5, low, 2.2, 5, chance=0.01, corrected=chance))], "")
    assert f">{said}<" in drawn


def test_experiments_are_families_of_their_own():
    """The native client's loads do not weaken claims about ordinary clients."""
    drawn = random.Random(4)
    client = made.load(client="confluent-kafka linger=0")
    asked = made.pairs(client, (1.03, 1.09, 1.02, 1.12, 1.07), settings={"experiment": "clients"})
    grid = [run for number in range(1, LOADS) for run in made.pairs(made.load(number), [1.0] * ROUNDS, drawn, 0.05)]
    assert made.comparison([*asked, *grid]).speedups[client].above


def equal_sides(drawn):
    """Return A/A runs of 20 loads: both sides are equal, with noise of 5 % in every run."""
    return [run for number in range(LOADS) for run in made.pairs(made.load(number), [1.0] * ROUNDS, drawn, 0.05)]


def test_equal_sides_are_called_different_under_no_load_in_19_of_20_experiments():
    """Each experiment tests 20 loads; without a correction most experiments would find a difference.

    20 experiments are few: the next test bounds the frequency.
    """
    drawn = random.Random(20)
    calls, alone = [], []
    for _ in range(20):
        ratios = made.comparison(equal_sides(drawn)).speedups.values()
        assert len(ratios) == LOADS
        calls.append(sum(ratio.above or ratio.below for ratio in ratios))
        alone.append(sum(ratio.excludes_one for ratio in ratios))
    assert sum(not count for count in calls) >= 19
    assert sum(not count for count in alone) <= 12


def test_a_family_has_a_false_claim_in_at_most_5_percent():
    """400 experiments of 20 equal loads: at most 5 % of them, with 3 standard errors of tolerance."""
    drawn = random.Random(1)
    false_claims = 0
    for _ in range(400):
        family = {
            number: ratio_interval([drawn.lognormvariate(0, 0.1) for _ in range(ROUNDS)]) for number in range(LOADS)
        }
        false_claims += any(ratio.above or ratio.below for ratio in corrected(family).values())
    assert false_claims / 400 <= 0.05 + 3 * 0.011
