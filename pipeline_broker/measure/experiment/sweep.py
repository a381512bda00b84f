"""The parser of sweeps: TOML files with factors and their levels.

    rounds = 5                        # optional, as seconds, warmup, seed and traced
    [factors]
    mode = ["classic", "pipelined"]   # side A and side B
    in_flight = [1, 5, 64]
    rate = ["closed", 2000, "50% of classic"]
    commit_delay = ["0", "2ms"]
    "pipeline.queues" = [0, 8]        # any property of the broker that it acts on

A factor is a name in `FACTORS`, or a property of the broker. The level `default` of a property leaves it unset.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from pipeline_broker.base.duration import milliseconds
from pipeline_broker.config.properties import ConfigError, broker_properties, property_text
from pipeline_broker.config.settings import is_acted_on, parse_settings
from pipeline_broker.files.bounded_file import read_bounded
from pipeline_broker.measure.experiment.broker_process import ExperimentError
from pipeline_broker.measure.experiment.modes import COMPARED_MODES
from pipeline_broker.measure.experiment.plan import BROKERS_MAX, ROUNDS_MAX, TRACED_ROUNDS

FILE_BYTES_MAX = 1 << 20
RUNS_MAX = 20_000
RUN_S_MIN, RUN_S_MAX = 0.05, 600.0
SIDES = 2
DEFAULT = "default"
CLOSED = "closed"
"""The level of `rate` for a closed loop: each answer triggers the next request."""
SHARE = re.compile(rf"(?P<percent>\d{{1,4}}(\.\d+)?)% of (?P<mode>{'|'.join(COMPARED_MODES)})")
"""The level of `rate` for a share of a mode's capacity, its rate in the closed loop."""
RATE_MAX = 10_000_000
READ_SHARE_MAX = 0.9  # reads need the records that the other requests of the load write
Level = str | int | float | bool
Levels = tuple[Level, ...]


@attrs.frozen(slots=True)
class Sweep:
    """The factors and settings of a sweep.

    Attributes:
        factors: levels by name; the two levels of `mode` are side A and side B.
        rounds: untraced rounds.
        seconds, warmup: duration of each run, and the warm-up as a part of it.
        seed: seed of the order; None: a random one.
        traced: rounds in which each load is also run with a trace, which shows the stages inside the broker.
    """

    factors: Mapping[str, Levels]
    rounds: int = 5
    seconds: float = 0.4
    warmup: float = 0.1
    seed: int | None = None
    traced: int = TRACED_ROUNDS

    @property
    def modes(self) -> tuple[str, str]:
        first, second = self.factors["mode"]
        return str(first), str(second)

    @property
    def cells(self) -> int:
        count = 1
        for name, levels in self.factors.items():
            count *= 1 if name == "mode" else len(levels)
        return count

    def as_json(self) -> dict[str, Any]:
        """Return the plan that a resumed sweep must share with the interrupted one: everything except the seed."""
        found = attrs.asdict(self)
        del found["seed"]
        return {**found, "factors": {name: list(levels) for name, levels in self.factors.items()}}


def _whole(low: int, high: int) -> Callable[[object], Level]:
    def read(level: object) -> Level:
        if type(level) is not int or not low <= level <= high:
            raise ValueError(f"not a whole number from {low} to {high}")
        return level

    return read


def _one_of(*words: str) -> Callable[[object], Level]:
    def read(level: object) -> Level:
        if not isinstance(level, str) or level not in words:
            raise ValueError(f"not one of {', '.join(words)}")
        return level

    return read


def _delay(level: object) -> Level:
    found = milliseconds(str(level)) if isinstance(level, str | int | float) and not isinstance(level, bool) else None
    if found is None:
        raise ValueError('not a time such as "2ms" or 0')
    return found


def _rate(level: object) -> Level:
    if level == CLOSED or (isinstance(level, str) and (found := SHARE.fullmatch(level)) and float(found["percent"])):
        return str(level)
    if isinstance(level, int | float) and not isinstance(level, bool) and 0 < level <= RATE_MAX:
        return float(level)
    raise ValueError(f'not "{CLOSED}", a number of requests a second, or a share such as "50% of {COMPARED_MODES[0]}"')


def _share(level: object) -> Level:
    if not isinstance(level, int | float) or isinstance(level, bool) or not 0 <= level <= READ_SHARE_MAX:
        raise ValueError(f"not a share of requests that read, from 0 to {READ_SHARE_MAX:g}")
    return float(level)


def _boolean(level: object) -> Level:
    if not isinstance(level, bool):
        raise ValueError("not true or false")  # noqa: TRY004 - all invalid levels raise the same exception
    return level


FACTORS: Mapping[str, Callable[[object], Level]] = {
    "mode": _one_of(*COMPARED_MODES),
    "connections": _whole(1, 10_000),
    "in_flight": _whole(1, 10_000),
    "commit_delay": _delay,
    "flush": _one_of("always", "os"),
    "commits_in_flight": _whole(1, 64),
    "brokers": _whole(1, BROKERS_MAX),
    "record_size": _whole(0, 1_000_000),
    "batch": _whole(1, 100_000),
    "compression": _one_of("none", "gzip", "snappy", "lz4", "zstd"),
    "keys": _whole(0, 1_000_000),
    "idempotent": _boolean,
    "transaction": _whole(0, 100_000),
    "read_share": _share,
    "rate": _rate,
}
"""The factors besides the broker's properties, each with the parser of its levels."""
_OPTIONS: Mapping[str, Callable[[object], Level]] = {
    "rounds": _whole(1, ROUNDS_MAX),
    "seed": _whole(0, 1 << 53),
    "traced": _whole(0, ROUNDS_MAX),
}
_TIMES = ("seconds", "warmup")


def read_sweep(path: Path) -> Sweep:
    """Read a sweep from a file.

    Raises:
        ExperimentError: the file cannot be read, or contains an invalid setting, which the one-line message names.
    """
    try:
        return parse_sweep(tomllib.loads(read_bounded(path, FILE_BYTES_MAX)[0].decode()))
    except OSError as error:
        raise ExperimentError(f"cannot read {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ExperimentError(f"{path}: the file is not TOML: {error}") from None
    except ValueError as error:
        raise ExperimentError(f"{path}: {error}") from None


def parse_sweep(tables: Mapping[str, Any]) -> Sweep:
    """Return the sweep of parsed TOML.

    Raises:
        ValueError: a setting is invalid; the one-line message names it.
    """
    given = dict(tables)
    named = given.pop("factors", None)
    if not isinstance(named, dict) or not named:
        raise ValueError("[factors] is missing: add it, with factors such as in_flight = [1, 64]")
    options = {name: _option(name, value) for name, value in given.items()}
    factors: dict[str, Levels] = {"mode": COMPARED_MODES}
    factors |= {name: _levels(name, levels) for name, levels in _flat(named)}
    sweep = Sweep(factors, **options)  # type: ignore[arg-type]  # `_option` checked each type by its name
    if sweep.warmup >= sweep.seconds:
        raise ValueError(f"warmup {sweep.warmup:g} must be less than seconds {sweep.seconds:g}")
    _check_shares(sweep)
    if any(sweep.factors.get("transaction", ())) and any(sweep.factors.get("read_share", ())):
        raise ValueError("factor read_share: a transaction only writes: leave out read_share or transaction")
    runs = sweep.cells * 2 * (sweep.rounds + min(sweep.traced, sweep.rounds))
    if runs > RUNS_MAX:
        raise ValueError(f"{sweep.cells:,} loads in {sweep.rounds} rounds are {runs:,} runs: use at most {RUNS_MAX:,}")
    return sweep


def _check_shares(sweep: Sweep) -> None:
    rates = sweep.factors.get("rate", ())
    for level in rates:
        found = SHARE.fullmatch(str(level))
        if found is None:
            continue
        if CLOSED not in rates:
            raise ValueError(
                f'factor rate: "{level}" is a share of the capacity in a closed loop: add the level "{CLOSED}"'
            )
        if found["mode"] not in sweep.modes:
            raise ValueError(
                f'factor rate: "{level}" is a share of a mode that the factor mode does not name: add this mode'
            )


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, object]]:
    # TOML turns an unquoted name with dots into nested tables.
    found: list[tuple[str, object]] = []
    for name, value in table.items():
        found += _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [(f"{prefix}{name}", value)]
    return found


def _option(name: str, value: object) -> Level:
    if name in _TIMES:
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= RUN_S_MAX:
            raise ValueError(f"{name} {value!r} is not a number of seconds up to {RUN_S_MAX:g}")
        if name == "seconds" and value < RUN_S_MIN:
            raise ValueError(f"seconds {value!r} is too short: use {RUN_S_MIN:g} or more")
        return float(value)
    read = _OPTIONS.get(name)
    if read is None:
        raise ValueError(_unknown("setting", name, [*_OPTIONS, *_TIMES, "factors"]))
    return _read(name, read, value)


def _levels(name: str, value: object) -> Levels:
    given: Sequence[object] = value if isinstance(value, list) else [value]
    if not given:
        raise ValueError(f"factor {name} has no levels: give at least one")
    read = FACTORS.get(name)
    if read is None:
        levels = [_property_level(name, level) for level in given]
    else:
        levels = [_read(f"factor {name}:", read, level) for level in given]
    if name == "mode":
        if len(levels) != SIDES:
            raise ValueError(
                f'factor mode: name side A and side B, such as ["{COMPARED_MODES[0]}", "{COMPARED_MODES[1]}"]'
            )
    elif len(set(levels)) != len(levels):
        raise ValueError(f"factor {name} lists a level twice: remove one of the two")
    return tuple(levels)


def _read(what: str, read: Callable[[object], Level], level: object) -> Level:
    try:
        return read(level)
    except ValueError as error:
        raise ValueError(f"{what} {level!r} is {error}") from None


def _property_level(name: str, level: object) -> Level:
    if name not in broker_properties():
        raise ValueError(_unknown("factor", name, [*FACTORS], [*broker_properties()]))
    if not is_acted_on(name):
        raise ValueError(f"factor {name}: the broker ignores this property, so all levels would be the same: remove it")
    if not isinstance(level, str | int | float):
        raise ValueError(f"factor {name}: {level!r} is not a string, a number, or a boolean")  # noqa: TRY004 - see _boolean
    text = property_text(level)
    if text == DEFAULT:
        return text
    try:
        parse_settings([(name, text)])
    except ConfigError as error:
        raise ValueError(f"factor {error}") from None
    return text


def _unknown(kind: str, name: str, names: Sequence[str], properties: Sequence[str] = ()) -> str:
    # Broker properties are searched for the nearest name, but not listed: they are too many.
    near = difflib.get_close_matches(name, [*names, *properties], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    more = ", or a property of the broker" if properties else ""
    return f"unknown {kind} {name!r}{hint} (known: {', '.join(names)}{more})"
