"""Only whole numbers are partitions and offsets; anything else is one line that names the option."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pipeline_broker.numbers_by_partition import MAX, numbers_of, partitions_of, whole_number


@given(st.integers(-MAX, MAX))
def test_every_number_of_64_bits_is_read(number):
    assert whole_number(str(number)) == whole_number(f" {number}\n") == number
    assert numbers_of("o", f'{{"t": {{"7": {number}}}}}') == {("t", 7): number}


@pytest.mark.parametrize("text", ["", "1_000", "1.0", "1e3", "٣", "0x1", "1 0", str(2**63)])
def test_other_texts_are_not_numbers(text):
    with pytest.raises(ValueError, match="is not a 64-bit integer"):
        whole_number(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        "1",
        "{",
        '{"t": "01"}',
        '{"t": {"0": 1}}',
        '{"t": [true]}',
        '{"t": ["0"]}',
        '{"t": [0.0]}',
        '{"t": 0}',
        '{"t": [-1]}',
        '{"t": null}',
    ],
)
def test_partitions_are_whole_numbers_in_a_list(text):
    with pytest.raises(ValueError, match=r"^assign "):
        partitions_of("assign", text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"t": [0]}',
        '{"t": 5}',
        '{"t": {"0": true}}',
        '{"t": {"0": "8"}}',
        '{"t": {"0": 8.0}}',
        '{"t": {"0": null}}',
        '{"t": {"x": 8}}',
        '{"t": {"-1": 8}}',
        '{"t": {"1_0": 8}}',
        f'{{"t": {{"0": {2**63}}}}}',
    ],
)
def test_offsets_are_whole_numbers_by_the_number_of_a_partition(text):
    with pytest.raises(ValueError, match=r"^startingOffsets "):
        numbers_of("startingOffsets", text)


def test_numbers_are_keyed_by_topic_and_partition():
    assert partitions_of("assign", '{"t": [0, 2], "u": []}') == {("t", 0), ("t", 2)}
    assert numbers_of("o", '{"t": {"0": -2, "1": 5}, "u": {}}') == {("t", 0): -2, ("t", 1): 5}
