"""A soak of a broker that is killed again and again: it loses nothing, and it does not grow.

`SECONDS` is its length (a few in the ordinary run), `SEED` its seed, `OUT` the directory of the result, `LEDGER` a
ledger that remembers it. Whether it grows is asked of runs of some minutes only: a short one is warm-up all along.
"""

import os
from pathlib import Path

import attrs
import pytest

from tests.crashes.ledger import HELD, Ledger, current_commit
from tests.crashes.soak import Soak, write_result
from tests.crashes.soak_samples import MARGINS, Sample, growth, medians

pytestmark = [pytest.mark.faults, pytest.mark.soak]
SECONDS = float(os.environ.get("SECONDS", "6"))
JUDGED_SECONDS_MIN = 240.0
KIND = "soak"


def test_a_soak_ends_as_large_as_it_was_and_loses_nothing(tmp_path):
    """Case 87."""
    seed = int(os.environ.get("SEED", "0"))
    ledger = Ledger(os.environ.get("LEDGER"), current_commit(), KIND)
    if any(line["seed"] == seed and line["outcome"] == HELD and line["seconds"] >= SECONDS for line in ledger.lines):
        print("\nthe ledger has it")
        return
    soak = Soak(seed, tmp_path / "soak", SECONDS)
    try:
        found = soak.run()
    except Exception:
        print(f"after {soak.counts.kills} kills: what is left is in {soak.broker.directory}")
        raise
    print("\n" + write_result(Path(os.environ.get("OUT") or tmp_path / "out"), soak.counts, found))
    assert soak.counts.kills > 0
    assert soak.counts.compared > 0
    assert soak.counts.topics_turned > 0
    if SECONDS >= JUDGED_SECONDS_MIN:
        assert growth(found) == []
    ledger.append(seed=seed, outcome=HELD, **attrs.asdict(soak.counts))


def samples(sizes):
    return [Sample(second, size, 20, 10, 1 << 30) for second, size in enumerate(sizes)]


def test_what_grows_is_seen_and_what_stays_or_warms_up_is_not():
    size = 100 << 20
    grows = [size + second * (size // 100) for second in range(90)]
    warms_up = [size // 2] * 30 + [size] * 60
    assert [text.split()[0] for text in growth(medians(samples(grows), 90))] == ["resident_bytes"]
    assert growth(medians(samples(warms_up), 90)) == []
    assert set(medians(samples(warms_up), 90)) == set(MARGINS)
