"""Charts: inline SVG for curves, CSS boxes for bars.

Curves carry their numbers, from which `pointed_charts.js` redraws them if scripts run; paper and readers without
scripts get the SVG. Colours are CSS classes (`side-0`, `side-1`), so dark mode and print can change them. Lines also
differ by dash and marker, so colour is never the only difference. A drawing is 360 units wide: several fit side by
side on a desktop and below one another on a phone, with text of the same size.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import attrs

from spark_analysis.report.markup import Markup, block, csv_of, piece

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WIDTH: Final = 360
HEIGHT: Final = 236
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 10, 40
_TICK_GAP_MIN: Final = 34
_LANE_HEIGHT: Final = 9
_LANES_A_LABEL: Final = 4


_SCALES: Final[dict[str, Callable[[float], float]]] = {
    "log": math.log10,
    "linear": float,
    "tail": lambda share: -math.log10(max(1e-9, 1 - share)),
}


@attrs.frozen
class Line:
    """A line of a panel.

    Attributes:
        kind: the colour class.
        points: (x, y) pairs.
        drawn: connect the points.
        marked: mark each point, even if the panel has no markers.
        intervals: the (low, high) of each point; empty for none.
    """

    kind: str
    name: str
    points: tuple[tuple[float, float], ...]
    drawn: bool = True
    marked: bool = False
    intervals: tuple[tuple[float, float], ...] = ()


@attrs.frozen
class Lane:
    """A lane of a drawing of lanes. Its pieces are (from, to, colour class)."""

    label: str
    explained: str
    pieces: tuple[tuple[float, float, str], ...]


@attrs.frozen
class Axis:
    """An axis: a scale over [low, high] and its labelled ticks.

    Attributes:
        kind: the scale: `log`, `linear`, `tail` (of shares: equal distances for 90 %, 99 %, 99.9 %, ...) or `steps`
            (equal distances between the ticks).
    """

    title: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    kind: str = "log"

    def place(self, value: float) -> float:
        low, high = self._scaled(self.low), self._scaled(self.high)
        if high == low:
            return 0.5
        return min(1.0, max(0.0, (self._scaled(value) - low) / (high - low)))

    def _scaled(self, value: float) -> float:
        if self.kind == "steps":
            return [tick for tick, _ in self.ticks].index(value)
        return _SCALES[self.kind](value)


@attrs.frozen
class Heat:
    """A cell of a heat map.

    Attributes:
        value, more: the text, and its addition in parentheses.
        kind: the colour class.
        share: the strength of the colour, from 0 to 1.
    """

    value: str
    more: str
    kind: str
    share: float


def log_axis(title: str, values: Sequence[float], unit: Callable[[float], str]) -> Axis:
    """Return a logarithmic axis that contains all positive values; both ends are 1, 2 or 5 times a power of ten.

    Powers of ten have ticks. If there are fewer than three of them, all steps have ticks.
    """
    positive = [value for value in values if value > 0] or [1.0]
    marks = sorted(step * 10.0**power for power in range(-7, 13) for step in (1, 2, 5))
    low = max((mark for mark in marks if mark <= min(positive)), default=marks[0])
    high = min((mark for mark in marks if mark >= max(positive) and mark > low), default=marks[-1])
    inside = [mark for mark in marks if low <= mark <= high]
    decades = [mark for mark in inside if math.isclose(math.log10(mark) % 1, 0, abs_tol=1e-9)]
    ticks = decades if len(decades) > 2 else inside
    return Axis(title, low, high, tuple((mark, unit(mark)) for mark in ticks))


def linear_axis(title: str, high: float, unit: Callable[[float], str]) -> Axis:
    step = 10.0 ** math.floor(math.log10(max(high, 1e-9) / 2))
    step = next(step * factor for factor in (1, 2, 5, 10) if step * factor * 6 >= high)
    marks = [step * place for place in range(math.ceil(high / step) + 1)]
    return Axis(title, 0, marks[-1], tuple((mark, unit(mark)) for mark in marks), kind="linear")


def steps_axis(title: str, values: Sequence[float], unit: Callable[[float], str]) -> Axis:
    ordered = sorted(set(values))
    ticks = tuple((value, unit(value)) for value in ordered)
    return Axis(title, ordered[0], ordered[-1], ticks, kind="steps")


def panel(title: str, description: str, x_axis: Axis, y_axis: Axis, lines: Sequence[Line], *, markers: bool) -> Markup:
    """Draw lines over two axes, with a title for people who see the panel and a description for screen readers."""

    def across(value: float) -> float:
        return _LEFT + x_axis.place(value) * (WIDTH - _LEFT - _RIGHT)

    def down(value: float) -> float:
        return HEIGHT - _BOTTOM - y_axis.place(value) * (HEIGHT - _TOP - _BOTTOM)

    drawn = []
    for line in lines:
        places = [(across(x), down(y)) for x, y in line.points]
        is_marked = markers or line.marked or len(places) == 1
        is_path = len(places) > 1 and line.drawn
        drawn.append(
            {
                "name": line.name,
                "kind": line.kind,
                "path": "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places) if is_path else "",
                "spans": [
                    {"x": f"{x:.1f}", "low": f"{down(low):.1f}", "high": f"{down(high):.1f}"}
                    for (x, _), (low, high) in zip(places, line.intervals, strict=False)
                ],
                "marks": [
                    _mark(line.kind, *place, f"{line.name}: {y_axis.title} {value:,.4g} at {point:,.4g}")
                    for place, (point, value) in zip(places, line.points, strict=True)
                ]
                if is_marked
                else [],
            }
        )
    return piece(
        "curves",
        title=title,
        label=f"{title}. {description}",
        width=WIDTH,
        height=HEIGHT,
        grid=_grid(x_axis, y_axis, across, down),
        lines=drawn,
        data=_numbers(x_axis, y_axis, lines, markers=markers),
    )


def _numbers(x_axis: Axis, y_axis: Axis, lines: Sequence[Line], *, markers: bool) -> dict[str, Any]:
    return {
        "x": attrs.asdict(x_axis),
        "y": attrs.asdict(y_axis),
        "lines": [
            {
                "name": line.name,
                "kind": line.kind,
                "drawn": line.drawn,
                "marked": markers or line.marked or len(line.points) == 1,
                "points": [[_short_number(part) for part in point] for point in line.points],
                "intervals": [[_short_number(end) for end in ends] for ends in line.intervals],
            }
            for line in lines
        ],
    }


def _short_number(value: float) -> float:
    return float(f"{value:.6g}")


def lanes(title: str, description: str, x_title: str, rows: Sequence[Lane]) -> Markup:
    """Draw spans of time on lanes below each other.

    Args:
        title: for people who see the drawing.
        description: for screen readers.
        x_title: the title of the horizontal axis.
        rows: the lanes, the first on top; their times start at 0.
    """
    axis = linear_axis(x_title, max((end for row in rows for _, end, _ in row.pieces), default=1.0), short)
    bottom = _TOP + len(rows) * _LANE_HEIGHT
    height = bottom + _BOTTOM

    def across(value: float) -> float:
        return _LEFT + axis.place(value) * (WIDTH - _LEFT - _RIGHT)

    drawn = [
        {
            "label": row.label if place % _LANES_A_LABEL == 0 else "",
            "explained": row.explained,
            "y": _TOP + place * _LANE_HEIGHT + 1,
            "text_at": _TOP + (place + 1) * _LANE_HEIGHT - 1,
            "height": _LANE_HEIGHT - 2,
            "pieces": [
                {
                    "x": f"{across(began):.1f}",
                    "width": f"{max(0.4, across(ended) - across(began)):.1f}",
                    "kind": kind,
                }
                for began, ended, kind in row.pieces
            ],
        }
        for place, row in enumerate(rows)
    ]
    return piece(
        "lanes",
        title=title,
        label=f"{title}. {description}",
        width=WIDTH,
        height=height,
        top=_TOP,
        bottom=bottom,
        left=_LEFT,
        x_title={"label": axis.title, "at": (_LEFT + WIDTH - _RIGHT) / 2},
        ticks=[{"at": f"{across(value):.1f}", "label": label} for value, label in axis.ticks],
        rows=drawn,
    )


def short(value: float) -> str:
    """Format a number with three digits, and k or M for thousands and millions."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:.3g}M"
    return f"{value / 1000:.3g}k" if value >= 1000 else f"{value:.3g}"


def heat_map(
    caption: str, corner: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[Heat | None]]]
) -> Markup:
    """Return a table with cells coloured by value; the text shows the value too.

    Args:
        corner: the heading of the row names.
        columns: the column names.
        rows: name and cells of each row; None for an empty cell.
    """
    head = [corner, *columns]
    texts = [[name, *("" if cell is None else f"{cell.value} ({cell.more})" for cell in cells)] for name, cells in rows]
    shown = [
        (name, [None if cell is None else {**attrs.asdict(cell), "share": _percent(cell.share)} for cell in cells])
        for name, cells in rows
    ]
    return piece("heat_map", caption=caption, head=head, rows=shown, csv=csv_of(caption, head, texts))


def _mark(kind: str, x: float, y: float, label: str) -> dict[str, Any]:
    is_square = kind == "side-0"
    corner = 3.5 if is_square else 0.0
    return {"is_square": is_square, "x": f"{x - corner:.1f}", "y": f"{y - corner:.1f}", "label": label}


def _grid(
    x_axis: Axis, y_axis: Axis, across: Callable[[float], float], down: Callable[[float], float]
) -> dict[str, Any]:
    labelled = []
    last = -math.inf
    for value, label in x_axis.ticks:
        x = across(value)
        has_room = x - last >= _TICK_GAP_MIN
        labelled.append({"at": f"{x:.1f}", "label": label if has_room else ""})
        last = x if has_room else last
    return {
        "left": _LEFT,
        "right": WIDTH - _RIGHT,
        "top": _TOP,
        "bottom": HEIGHT - _BOTTOM,
        "across": [
            {"at": f"{down(value):.1f}", "text_at": f"{down(value) + 3.5:.1f}", "label": label}
            for value, label in y_axis.ticks
        ],
        "down": labelled,
        "x_title": x_axis.title,
        "y_title": y_axis.title,
    }


def panels(drawings: Sequence[Markup], *, pairs: bool = False) -> Markup:
    """Place drawings side by side if there is space; with `pairs`, two in a row."""
    return block(*drawings, class_="panels pairs" if pairs else "panels")


@attrs.frozen
class Bar:
    """A bar from `start` to `start + length` of the track (0 to 1).

    Attributes:
        whisker: the ends of an interval on the track. The bar is then a dot at `start`; None for a bar.
        reference: the position of a reference line on the track; None for no line.
    """

    label: str
    value: str
    start: float
    length: float
    kind: str
    whisker: tuple[float, float] | None = None
    reference: float | None = None


def bars(title: str, entries: Sequence[Bar]) -> Markup:
    rows = []
    for bar in entries:
        pieces = []
        if bar.reference is not None:
            pieces.append({"kind": "reference", "style": f"left:{_percent(bar.reference)}"})
        if bar.whisker is not None:
            low, high = bar.whisker
            style = f"left:{_percent(low)};width:{_percent(high - low)}"
            pieces.append({"kind": f"whisker {bar.kind}", "style": style})
            pieces.append({"kind": f"dot {bar.kind}", "style": f"left:{_percent(bar.start)}"})
        elif bar.length > 0:
            style = f"left:{_percent(bar.start)};width:{_percent(bar.length)}"
            pieces.append({"kind": f"bar {bar.kind}", "style": style})
        rows.append({"label": bar.label, "value": bar.value, "pieces": pieces})
    return piece("bars", title=title, rows=rows)


def _percent(share: float) -> str:
    return f"{max(0.0, min(1.0, share)) * 100:.2f}%"
