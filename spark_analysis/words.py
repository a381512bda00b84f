"""Text of ratios, latencies and loads, the same for the verdict and the page.

A missing number is a dash. A ratio whose interval contains 1 never appears without its interval.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from spark_analysis.tables import COMMAND_CLIENT, PAIRS_CLIENT, RAW_CLIENT, READER_CLIENT, REPLAY_CLIENT

if TYPE_CHECKING:
    from spark_analysis.cells import Load
    from spark_analysis.interval import Estimate, Ratio

DASH: Final = "\N{EN DASH}"
NATIVE: Final = "native client"
"""The name of this project's load client. In traces it is `raw`."""
OTHER_NAMES: Final = {
    "kafka-synced": "Apache Kafka that flushes every message",
    "kafka": "Apache Kafka with its defaults (page cache)",
    "other": "the other broker",
}
"""Descriptions of the modes of other brokers."""
_DIGITS: Final = 2
_DIGITS_MAX: Final = 6


def times(value: float) -> str:
    if value < 0.0995:  # two digits would be too few to compare the ends of an interval
        return f"{value:.2g}x" if value >= 0.001 else "below 0.001x"
    if value < 1.995:  # larger values round to 2.0
        return f"{value:.2f}x"
    return f"{value:.1f}x" if value < 19.95 else f"{value:,.0f}x"


def measured(ratio: Ratio) -> str:
    """Format a ratio with its interval, `2.6x (2.4x to 2.8x)`; the form of every claim."""
    return times(ratio.value) if ratio.low is None else f"{times(ratio.value)} ({ends(ratio)})"


def ends(ratio: Ratio) -> str:
    """Format the interval alone: `2.4x to 2.8x`, or `too few rounds`."""
    if ratio.low is None or ratio.high is None:
        return "too few rounds"
    return f"{_end(ratio.low, ratio)} to {_end(ratio.high, ratio)}"


def _end(value: float, ratio: Ratio) -> str:
    # An interval that excludes 1 must not end at "1.00x".
    digits = _DIGITS
    while ratio.excludes_one and digits < _DIGITS_MAX and float(f"{value:.{digits}f}") == 1:
        digits += 1
    return times(value) if digits == _DIGITS else f"{value:.{digits}f}x"


def uncorrected(ratio: Ratio) -> str:
    """Return the reason why a ratio decides nothing although its interval excludes 1; empty if it contains 1."""
    if ratio.excludes_one and not (ratio.above or ratio.below):
        return ", beyond chance alone but not after the correction for all loads"
    return ""


def milliseconds(value: float | None) -> str:
    if value is None:
        return DASH
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f} ms"


def duration(value_us: float | None) -> str:
    """Format microseconds; a millisecond or more in milliseconds. None gives a dash."""
    if value_us is None:
        return DASH
    return f"{value_us:.0f} \N{MICRO SIGN}s" if abs(value_us) < 1000 else milliseconds(value_us / 1000)


def with_interval(estimate: Estimate | None, unit: float = 1.0) -> str:
    """Format a duration and its interval: `330 us (320 us to 341 us)`.

    Args:
        estimate: the duration; None gives a dash.
        unit: microseconds per unit of the estimate.
    """
    if estimate is None:
        return DASH
    text = duration(estimate.value * unit)
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} ({duration(max(0.0, estimate.low) * unit)} to {duration(estimate.high * unit)})"


def persecond(value: float | None) -> str:
    return DASH if value is None else f"{value:,.0f}/s"


def client_settings(client: str) -> str:
    """Format the settings in a client's name: `confluent-kafka linger=5` has a linger of 5 ms."""
    return re.sub(r"linger=(\S+)", r"linger \1 ms", client.partition(" ")[2] or client)


_CLIENT_NAMES: Final = {
    RAW_CLIENT: NATIVE,
    READER_CLIENT: f"{NATIVE}, reading",
    PAIRS_CLIENT: "confluent-kafka, publish to consume",
    REPLAY_CLIENT: "replay of real events",
}


def client_name(client: str) -> str:
    if client in _CLIENT_NAMES:
        return _CLIENT_NAMES[client]
    if client == COMMAND_CLIENT:
        return "your client"
    name, _, settings = client.partition(" ")
    return f"{name}, {client_settings(client)}" if settings else name


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def describe(load: Load) -> str:
    more = f", commit delay {load.commit_delay_ms:g} ms" if load.commit_delay_ms else ""
    more += f", {load.variant}" if load.variant else ""
    if load.client == REPLAY_CLIENT:
        return f"replay over {plural(load.connections, 'connection')}{more}"
    more += f", {pace(load)}" if load.open_loop else ""
    if load.client == READER_CLIENT:
        return f"{plural(load.connections, 'connection')} x {load.in_flight} fetch in flight{more}"
    if load.client == PAIRS_CLIENT:
        return f"{plural(load.connections, 'pair')}{more}"
    if load.client == COMMAND_CLIENT:
        return f"one run of it{more}"
    if load.client != RAW_CLIENT:
        return f"{plural(load.connections, 'producer')}, {client_settings(load.client)}{more}"
    return f"{plural(load.connections, 'connection')} x {load.in_flight} in flight{more}"


def describe_alone(load: Load) -> str:
    """Describe a load without the client's settings, for text that has named the client."""
    settings = f", {client_settings(load.client)}" if ordinary(load) else ""
    return describe(load).replace(settings, "", 1) if settings else describe(load)


def describe_paced(load: Load) -> str:
    """Describe an open loop by its connections, or pairs, and its pace."""
    noun = "pair" if load.client == PAIRS_CLIENT else "connection"
    delay = f", commit delay {load.commit_delay_ms:g} ms" if load.commit_delay_ms else ""
    return f"{plural(load.connections, noun)} at {pace(load)}{delay}{load.variant and f', {load.variant}'}"


def pace(load: Load) -> str:
    if not load.offered_per_s:
        return "its own pace"
    if load.offered_of:
        return f"{load.offered_share:.0%} of {load.offered_of}'s capacity ({load.offered_per_s:,.0f}/s)"
    return f"{load.offered_per_s:,.0f}/s"


def full_name(load: Load) -> str:
    name = _CLIENT_NAMES.get(load.client) or client_name(load.client).partition(",")[0]
    return f"{name}: {describe(load)}"


def ordinary(load: Load) -> bool:
    """Return whether the client is an ordinary producer or the user's own client.

    False for the native client, the pairs of producer and consumer, and the replay.
    """
    return load.client not in _CLIENT_NAMES
