"""Factors of a sweep separate loads: each has its own cells, speed-ups and map, whatever the factor's name is."""

from __future__ import annotations

import json
import math

import pytest

from spark_analysis.analyse import report
from spark_analysis.convert import convert

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]
SIZES, DEPTHS, DELAYS_MS = (100, 1000), (1, 64), (0, 10)
GAIN = {(100, 1, 0): 1, (100, 1, 10): 1, (100, 64, 0): 8, (100, 64, 10): 16}
GAIN |= {(1000, *rest): 2 * gain for (_, *rest), gain in list(GAIN.items())}


def factors(size, depth, delay, side):
    """Return the factors of a run. A side is queues, commits and requests in flight of the broker; flush is the
    same.
    """
    axes = {"mode": "xy"[side], "queues": side * 8, "in_flight_max": 1 + 63 * side, "commit": "request"}
    load = {"connections": 1, "depth": depth, "commit_delay_ms": delay, "record_bytes": size}
    return {**axes, **load, "flush": "always"}


@pytest.fixture(scope="module")
def directory(synthetic, spark, tmp_path_factory):
    directory = tmp_path_factory.mktemp("factors")
    number = 0
    for (size, depth, delay), gain in GAIN.items():
        for place in range(2):
            for side, mode in enumerate(("classic", "pipelined")):
                number += 1
                told = factors(size, depth, delay, side)
                columns = {"round": place, "side": side, "mode": mode, "in_flight": depth, "commit_delay_ms": delay}
                columns["variant"] = f"hue=blue record_size={size}"
                run = synthetic.RawRun(directory / "raw", number, factors=told, **columns)
                synthetic.steady(run, [0] * 21, gap_us=1600 if side == 0 else 1600 // gain)
                run.write()
    convert(directory, spark)
    report(directory, spark)
    return directory


def test_each_load_of_the_sweep_has_a_speedup_of_its_own(directory):
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    found = {
        (entry["variant"], entry["in_flight"], entry["commit_delay_ms"]): entry["speedup"]
        for entry in summary["speedups"]
    }
    assert found == {
        (f"record_size={size}", depth, delay): pytest.approx(gain, rel=1e-3)
        for (size, depth, delay), gain in GAIN.items()
    }
    assert len(summary["cells"]) == 2 * len(GAIN)
    assert {cell["requests"] for cell in summary["cells"]} == {42}


def test_the_page_has_a_map_and_a_name_for_each_factor(directory):
    page = (directory / "report.html").read_text(encoding="utf-8")
    for size in SIZES:
        assert f"1 connection, record_size={size}: speed-up" in page
    assert page.count('class="heatmap"') == len(SIZES)
    assert "hue" not in page.split('<section id="machine"')[0], "a constant factor is not in the name of a load"


def test_the_effects_of_factors_need_every_combination(directory):
    """Requests in flight matter most. Each speed-up is over four loads, and rates are compared load by load."""
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    found = {(entry["factor"], entry["level"]): entry for entry in summary["factors"]}
    assert list(found) == [
        ("in flight", "1"),
        ("in flight", "64"),
        ("record_size", "100"),
        ("record_size", "1000"),
        ("commit delay", "0 ms"),
        ("commit delay", "10 ms"),
    ]
    for level in (1, 64):
        gains = [gain for (_, depth, _), gain in GAIN.items() if depth == level]
        entry = found["in flight", str(level)]
        assert entry["speedup"] == pytest.approx(math.prod(gains) ** (1 / len(gains)), rel=1e-3)
        assert (entry["loads"], entry["rounds"]) == (4, 2)
    assert "over_first_0" not in found["record_size", "100"]
    assert found["record_size", "1000"]["over_first_0"]["ratio"] == pytest.approx(1, rel=1e-3)
    assert found["record_size", "1000"]["over_first_1"]["ratio"] == pytest.approx(2, rel=1e-3)
    page = (directory / "report.html").read_text(encoding="utf-8")
    assert "What each factor does" in page
    assert "in flight changes the speed-up most" not in page, "two rounds are a poor run, which claims nothing"
