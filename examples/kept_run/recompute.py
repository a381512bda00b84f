"""Recompute the numbers of a report from its Parquet files, with pandas and without code of this project.

    python recompute.py [FOLDER]        (default: the run beside this file)

FOLDER contains `summary.json`, `traces/runs`, and `traces/client` or `derived/latency_by_round`. The rules are those of
"Definitions" in docs/reference/trace-format.md. Prints the number of equal values, and each difference; exits with 1 if
there are any.
"""

import functools
import json
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd

TOLERANCE = 1e-6
QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
LOAD = [
    "client",
    "connections",
    "in_flight",
    "commit_delay_ms",
    "variant",
    "offered_of",
    "offered_share",
    "offered_per_s",
]
ABLATION = ("mute-off", "group-commit", "own-queues", "both")
NOT_COMPARED = ("ablation", "self")
"""Experiments without speed-ups and latencies at equal load."""


def read(folder: Path) -> pd.DataFrame:
    """Return one row per run: its columns of `runs`, its totals, and its percentiles."""
    runs = pd.read_parquet(folder / "traces/runs")
    runs["experiment"] = [json.loads(settings).get("experiment") for settings in runs.settings]
    runs["offered_of"] = runs.offered_of.fillna("")
    runs[["offered_share", "offered_per_s"]] = runs[["offered_share", "offered_per_s"]].fillna(0.0)
    runs["variant"] = short_variants(runs)
    runs["is_open"] = (runs.client == "replay") | (runs.offered_per_s > 0)
    if (folder / "traces/client").exists():
        rows = pd.read_parquet(folder / "traces/client")
        rows["run"] = rows.run.astype(int)
        totals = pd.DataFrame([of_run(run, rows[rows.run == run.run]) for run in runs.itertuples()])
    else:
        totals = pd.read_parquet(folder / "derived/latency_by_round")
        totals = totals[["run", *(name for name in totals if name not in runs)]]
    return runs.merge(totals, on="run", how="left")


def short_variants(runs: pd.DataFrame) -> list[str]:
    """Return each variant without the words that all variants share, and without the pace, which has its own
    columns.
    """
    words = [set(variant.split()) for variant in runs.variant]
    common = set.intersection(*words)
    kept = []
    for mine, offered in zip(words, runs.offered_per_s, strict=True):
        left = mine - common
        kept.append(" ".join(sorted(word for word in left if not (offered and word.startswith("rate=")))))
    return kept


def of_run(run, rows: pd.DataFrame) -> dict:
    """Return the totals of a run over its measured rows; latencies are whole microseconds."""
    rows = rows[rows.measured]
    answered = rows[rows.answered_ns.notna()]
    from_sent = latencies(answered, "sent_ns")
    from_due = latencies(answered, "intended_ns") if run.is_open else from_sent
    found = {"run": run.run, "requests": len(rows), "samples": len(answered), "latencies": from_due}
    if len(answered):
        found["seconds"] = (answered.answered_ns.max() - rows.sent_ns.min()) / 1e9
        found |= {f"{name}_us": np.quantile(from_due, quantile) for name, quantile in QUANTILES.items()}
    if run.is_open and len(answered):
        found |= {f"sent_{name}_us": np.quantile(from_sent, quantile) for name, quantile in QUANTILES.items()}
        found["late_us"] = np.median((rows.sent_ns - rows.intended_ns) // 1000)
        found["growth"] = slope(answered.intended_ns, from_due)
    return found


def latencies(rows: pd.DataFrame, began: str) -> np.ndarray:
    return ((rows.answered_ns - rows[began]) // 1000).clip(lower=0).to_numpy(dtype=float)


def slope(due_ns: pd.Series, latency_us: np.ndarray) -> float:
    """Return the seconds by which latency grows per second: the least-squares slope over the due time."""
    due_us = (due_ns.to_numpy(dtype=float) - due_ns.min()) / 1000
    spread = due_us - due_us.mean()
    return float(spread @ latency_us / (spread @ spread)) if spread.any() else 0.0


def t_probability(value: float, freedom: int) -> float:
    """Return P(t <= value) of Student's t, by Simpson's rule over its density."""
    scale = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * math.pi)
    ends = np.linspace(0.0, math.atan(value / math.sqrt(freedom)), 2_001)  # x = sqrt(n) tan(a) makes the range finite
    density = np.cos(ends) ** (freedom - 1)
    weights = np.ones_like(ends)
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    return 0.5 + scale * math.sqrt(freedom) * float(weights @ density) * (ends[1] - ends[0]) / 3


@functools.cache
def t_quantile(freedom: int) -> float:
    """Return the 0.975 quantile of Student's t."""
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, freedom) < 0.975 else (low, middle)
    return high


def mean(values) -> dict:
    """Return the mean over rounds with its 95 % interval, and the p-value of a mean of 0."""
    values = np.array(list(values), dtype=float)
    found = {"value": values.mean(), "low": None, "high": None, "p": None, "rounds": len(values)}
    if len(values) >= 3:
        error = values.std(ddof=1) / math.sqrt(len(values))
        half = t_quantile(len(values) - 1) * error
        found |= {"low": found["value"] - half, "high": found["value"] + half}
        found["p"] = 2 * (1 - t_probability(abs(found["value"]) / error, len(values) - 1)) if error else 0.0
    return found


def geometric(values) -> dict:
    found = mean(np.log(list(values)))
    return {
        name: math.exp(it) if name in ("value", "low", "high") and it is not None else it for name, it in found.items()
    }


def enough(samples: float, quantile: float, beyond: int) -> bool:
    return samples * round((1 - quantile) * 1e6) >= beyond * 1e6


def quantity(runs: pd.DataFrame, name: str, prefix: str = "") -> float | None:
    """Return the rate of some runs, or the geometric mean of their percentiles; None with too few samples."""
    if name == "rate":
        return runs.requests.sum() / runs.seconds.sum() if runs.seconds.sum() > 0 else None
    values = runs[f"{prefix}{name}_us"]
    if not all(enough(samples, QUANTILES[name], 2) for samples in runs.samples) or not (values > 0).all():
        return None
    return math.exp(np.log(values).mean())


def ratio(zeros: pd.DataFrame, ones: pd.DataFrame, name: str, prefix: str = "") -> dict | None:
    """Return side 1 over side 0, paired by round."""
    samples = []
    for number in sorted(set(zeros["round"]) & set(ones["round"])):
        pair = [quantity(side[side["round"] == number], name, prefix) for side in (zeros, ones)]
        if all(pair):
            samples.append(pair[1] / pair[0])
    return geometric(samples) if samples else None


def holm(ratios: dict) -> None:
    """Add the p-value with Holm's correction to each ratio of a family."""
    asked = sorted((it for it in ratios.values() if it is not None and it["p"] is not None), key=lambda it: it["p"])
    least = 0.0
    for place, found in enumerate(asked):
        least = max(least, min(1.0, found["p"] * (len(asked) - place)))
        found["corrected_p"] = least


def ratios_by_load(runs: pd.DataFrame, base: int, name: str, prefix: str = "", side: int = 1) -> dict:
    """Return the ratio of `side` over `base` for each load, corrected within its experiment."""
    found: dict = {}
    for _, family in runs[runs.side.isin([base, side])].groupby("experiment"):
        own = {
            load: ratio(mine[mine.side == base], mine[mine.side == side], name, prefix)
            for load, mine in family.groupby(LOAD, dropna=False)
        }
        holm(own)
        found |= own
    return found


class Check:
    """The number of equal values, and the differing ones."""

    def __init__(self) -> None:
        self.agreeing, self.differing = 0, []

    def number(self, where: str, published, computed) -> None:
        if published is None or computed is None:
            same = published is None and computed is None
        else:
            same = math.isclose(published, computed, rel_tol=TOLERANCE, abs_tol=1e-9)
        self.agreeing += same
        if not same:
            self.differing.append(f"{where}: published {published}, computed {computed}")

    def ratio(self, where: str, published, computed, value: str = "ratio") -> None:
        if published is None or computed is None:
            self.number(where, *(None if it is None else 1.0 for it in (published, computed)))
            return
        for name in (value, "low", "high", "rounds", "corrected_p"):
            if name in published:
                self.number(f"{where} {name}", published[name], computed.get("value" if name == value else name))


def load_of(entry: dict) -> tuple:
    """Return the load of an entry of summary.json, in the order of LOAD."""
    defaults = {"variant": "", "offered_of": "", "offered_share": 0.0, "offered_per_s": 0.0}
    return tuple({**defaults, **entry}[name] for name in LOAD)


def find(found: dict, load: tuple):
    """Look up a load. Its pace is published with nine digits, so it is compared with a tolerance."""
    return next(
        (it for key, it in found.items() if key[:7] == load[:7] and math.isclose(key[7], load[7], rel_tol=1e-6)), None
    )


def check_cells(check: Check, summary: dict, runs: pd.DataFrame) -> None:
    counted = runs[~runs.traced & (runs.experiment != "self")]
    unquoted = unquoted_sides(summary)
    for entry in [*summary["cells"], *summary["ablation"]]:
        load = load_of(entry)
        mine = counted[(counted["mode"] == entry["mode"]) & of_load(counted, load)]
        where = f"{entry['mode']} {load}"
        check.number(f"{where} requests", entry["requests"], mine.requests.sum())
        check.number(f"{where} requests_per_s", entry["requests_per_s"], quantity(mine, "rate"))
        is_quoted = (entry["mode"], load) not in unquoted
        if "latencies" in mine:
            waits = np.concatenate([*mine.latencies, np.array([])])
            for name, quantile in QUANTILES.items():
                known = is_quoted and enough(len(waits), quantile, 10)
                check.number(
                    f"{where} {name}", entry[f"{name}_ms"], np.quantile(waits, quantile) / 1000 if known else None
                )
        for published, run in zip(entry["rounds"], sorted(mine.run), strict=True):
            alone = mine[mine.run == run]
            check.number(f"{where} rate of run {run}", published["requests_per_s"], quantity(alone, "rate"))
            for name in QUANTILES:
                value = quantity(alone, name) if is_quoted else None
                check.number(f"{where} {name} of run {run}", published[f"{name}_ms"], value and value / 1000)


def of_load(runs: pd.DataFrame, load: tuple) -> pd.Series:
    same = np.isclose(runs.offered_per_s, load[7], rtol=1e-6)
    for name, value in zip(LOAD[:7], load[:7], strict=True):
        same &= runs[name] == value
    return pd.Series(same, index=runs.index)


def unquoted_sides(summary: dict) -> set:
    return {
        (side["mode"], load_of(entry))
        for entry in summary["equal_load"]
        for side in entry["sides"]
        if not side["kept_pace"]
    }


def closed(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[~runs.traced & ~runs.is_open & ~runs.experiment.isin(NOT_COMPARED)]


def check_speedups(check: Check, summary: dict, runs: pd.DataFrame) -> None:
    compared = closed(runs)
    bases = {0: summary["speedups"]} | {
        int(side): [entry for entry in summary.get("over_others", ()) if entry["mode"] == mode]
        for (side, mode), _ in compared[compared.side > 1].groupby(["side", "mode"])
    }
    for base, entries in bases.items():
        rates = ratios_by_load(compared, base, "rate")
        waits = {name: ratios_by_load(compared, base, name) for name in QUANTILES}
        check.number(f"loads over side {base}", len(entries), sum(it is not None for it in rates.values()))
        for entry in entries:
            load = load_of(entry)
            check.ratio(f"speed-up {load}", entry, find(rates, load), "speedup")
            for name in QUANTILES:
                check.ratio(f"{name} {load}", entry[name], find(waits[name], load))
        mode = compared[compared.side == base]["mode"].iloc[0]
        zeros = ratios_by_load(compared, base, "rate", side=0)
        for entry in summary.get("base_over_others", ()):
            if base and entry["mode"] == mode:
                check.ratio(f"side 0 over {mode} {load_of(entry)}", entry, find(zeros, load_of(entry)), "speedup")


def check_equal_load(check: Check, summary: dict, runs: pd.DataFrame) -> None:
    loops = runs[~runs.traced & runs.is_open & ~runs.experiment.isin(NOT_COMPARED)].copy()
    if loops.empty:
        return
    growth = loops.growth.fillna(0.0).clip(lower=0.0)
    loops["share"] = (loops.samples / loops.requests / (1 + growth)).fillna(0.0)
    sides = {}
    for entry in summary["equal_load"]:
        load = load_of(entry)
        for side in entry["sides"]:
            mine = loops[(loops.side == side["side"]) & of_load(loops, load)]
            late_ms = median_ms(mine.late_us) or 0.0
            sides[load, side["side"]] = (mine.share.mean() >= 0.98, late_ms)
            check_side(check, f"{side['mode']} {load}", side, mine)
    fair = [load for load in map(load_of, summary["equal_load"]) if all(sides[load, side][0] for side in (0, 1))]
    usable = pd.concat([loops[:0], *(loops[of_load(loops, load)] for load in fair)])
    for name in QUANTILES:
        from_due, from_sent = (ratios_by_load(usable, 0, name, prefix) for prefix in ("", "sent_"))
        for entry in summary["equal_load"]:
            load = load_of(entry)
            found, other = find(from_due, load), find(from_sent, load)
            if found and other and any(sides[load, side][1] > 1 for side in (0, 1)):
                found = spanning(found, other)
            check.ratio(f"{name} at equal load {load}", entry[name], found)


def median_ms(values_us: pd.Series) -> float | None:
    """Return None without values, as of a side that answered nothing."""
    return None if values_us.isna().all() else values_us.median() / 1000


def check_side(check: Check, where: str, side: dict, mine: pd.DataFrame) -> None:
    check.number(f"{where} requests", side["requests"], mine.requests.sum())
    check.number(f"{where} answered_share", side["answered_share"], mine.share.mean())
    check.number(f"{where} late_ms", side["late_ms"], median_ms(mine.late_us))
    for prefix in ("", "sent_"):
        for name, quantile in QUANTILES.items():
            values = [
                getattr(run, f"{prefix}{name}_us") / 1000
                for run in mine.itertuples()
                if enough(run.samples, quantile, 2)
            ]
            found = geometric(values) if side["kept_pace"] and values else None
            check.ratio(f"{where} {prefix}{name}", side[f"{prefix}{name}_ms"], found, "value")


def spanning(one: dict, other: dict) -> dict:
    """Return the first ratio with an interval that contains both intervals."""
    if one["low"] is None or other["low"] is None:
        return {**one, "low": None, "high": None}
    corrected = max(one["corrected_p"], other["corrected_p"])
    return {
        **one,
        "low": min(one["low"], other["low"]),
        "high": max(one["high"], other["high"]),
        "corrected_p": corrected,
    }


def check_self(check: Check, summary: dict, runs: pd.DataFrame) -> None:
    own = runs[~runs.traced & (runs.experiment == "self")]
    if own.empty or summary["self"] is None:
        return
    for name, published in (
        ("rate", summary["self"]),
        ("p50", summary["self"]["p50"]),
        ("p99", summary["self"]["p99"]),
    ):
        by_round: dict = {}
        for _, mine in own.groupby(LOAD, dropna=False):
            for number, both in mine.groupby("round"):
                zero, one = (quantity(both[both.side == side], name) for side in (0, 1))
                if zero and one:
                    by_round.setdefault(number, []).append(math.log(one / zero))
        found = geometric(math.exp(np.mean(logs)) for logs in by_round.values()) if by_round else None
        check.ratio(f"A/A {name}", published, found)


def check_ablation(check: Check, summary: dict, runs: pd.DataFrame) -> None:
    own = runs[~runs.traced & ((runs.experiment == "ablation") | runs["mode"].isin(ABLATION))]
    classic = own[own["mode"] == "classic"]
    if classic.empty:
        classic = runs[
            ~runs.traced & ~runs.is_open & ~runs.experiment.isin(["ablation", "self"]) & (runs["mode"] == "classic")
        ]
    for entry in summary.get("over_classic", ()):
        load = load_of(entry)
        mine = own[(own["mode"] == entry["mode"]) & of_load(own, load)]
        check.ratio(
            f"{entry['mode']} over classic {load}",
            entry,
            ratio(classic[of_load(classic, load)], mine, "rate"),
            "speedup",
        )


def stages_of(folder: Path, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the parts of the mean Produce request of each traced run, in microseconds."""
    rows = pd.read_parquet(folder / "traces/requests")
    rows["run"] = rows.run.astype(int)
    rows = rows[rows.api == 0]
    stages = {
        "queue": ("received_ns", "dequeued_ns"),
        "local": ("dequeued_ns", "decided_ns"),
        "remote": ("decided_ns", "completed_ns"),
        "commit": ("submitted_ns", "durable_ns"),
        "response": ("completed_ns", "send_started_ns"),
        "order": ("completed_ns", "released_ns"),
        "send": ("send_started_ns", "sent_ns"),
    }
    for name, (began, ended) in stages.items():
        rows[name] = ((rows[ended] - rows[began]) // 1000).clip(lower=0)
    means = rows.groupby("run")[list(stages)].mean().fillna(0.0)
    inside_local = np.minimum(means.local, (means.commit - means.remote).clip(lower=0))
    parts = {
        "request queue": means.queue,
        "handler": means.local - inside_local,
        "commit wait": means.commit,
        "other wait": (means.remote - means.commit).clip(lower=0),
        "order wait": means.order,
        "response queue": (means.response - means.order).clip(lower=0),
        "send": means.send,
    }
    found = pd.DataFrame(parts)
    answers = pd.read_parquet(folder / "traces/client").dropna(subset="answered_ns")
    waited = ((answers.answered_ns - answers.sent_ns) // 1000).groupby(answers.run.astype(int)).mean()
    is_raw = runs.set_index("run").client.reindex(found.index) == "raw"
    found.insert(0, "socket wait", (waited.reindex(found.index) - found.sum(axis=1)).clip(lower=0).where(is_raw))
    return found


def check_stages(check: Check, summary: dict, runs: pd.DataFrame, parts: pd.DataFrame) -> None:
    traced = runs[runs.run.isin(parts.index)]
    for entry in summary["stages"]:
        load = load_of(entry)
        mine = traced[(traced["mode"] == entry["mode"]) & of_load(traced, load)].set_index("run")
        by_round = parts.loc[mine.index].groupby(mine["round"]).mean()
        where = f"stages of {entry['mode']} {load}"
        check.ratio(f"{where} total", entry["total_us"], mean(by_round.sum(axis=1)), "value")
        for name, published in entry["parts_us"].items():
            check.ratio(f"{where} {name}", published, mean(by_round[name].dropna()), "value")


def recompute(folder: Path) -> Check:
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    runs, check = read(folder), Check()
    for part in (check_cells, check_speedups, check_equal_load, check_self, check_ablation):
        part(check, summary, runs)
    if (folder / "traces/requests").exists():
        check_stages(check, summary, runs, stages_of(folder, runs))
    return check


def main() -> None:
    check = recompute(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "run")
    print("\n".join(check.differing) or f"{check.agreeing:,} numbers of summary.json agree with the Parquet files")
    sys.exit(bool(check.differing))


if __name__ == "__main__":
    main()
