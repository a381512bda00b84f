"""Charts: inline SVG for curves, boxes of CSS for bars.

Curves have their numbers beside them, from which `pointed_charts.js` draws them again where scripts run; paper, and a
reader without scripts, has the SVG. Colours are classes (`side-0`, `side-1`), so dark mode and print can change them;
lines also differ by dash and marker, so colour is never the only difference. A drawing is narrow (360 units): several
stand side by side on a desk and below one another on a phone, with text of the same size.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final

import attrs

from spark_analysis.report.markup import Markup, csv_link, element, join, text

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
    """One line of a panel; intervals are those of its points, (low, high) each."""

    kind: str
    name: str
    points: tuple[tuple[float, float], ...]
    drawn: bool = True
    marked: bool = False
    intervals: tuple[tuple[float, float], ...] = ()


@attrs.frozen
class Lane:
    """One lane of a drawing of lanes: its pieces are (from, to, colour class)."""

    label: str
    explained: str
    pieces: tuple[tuple[float, float, str], ...]


@attrs.frozen
class Axis:
    """One axis: a scale over [low, high] and its labelled ticks.

    Attributes:
        kind: of the scale: `log`, `linear`, `tail` (of shares: each further nine has the same room) or `steps` (each
            tick has the same room).
    """

    title: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    kind: str = "log"

    def place(self, value: float) -> float:
        """Where a value lies between the ends of the axis, 0 to 1."""
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
    """One cell of a heat map: what it says, and how strongly it is coloured (0 to 1)."""

    value: str
    more: str
    kind: str
    share: float


def log_axis(title: str, values: Sequence[float], unit: Callable[[float], str]) -> Axis:
    """A logarithmic axis from one of 1, 2, 5 times a power of ten to another, which holds all values.

    The powers of ten are marked; all of them where there are fewer than three.
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
    """A linear axis from 0 with about five round ticks."""
    step = 10.0 ** math.floor(math.log10(max(high, 1e-9) / 2))
    step = next(step * factor for factor in (1, 2, 5, 10) if step * factor * 6 >= high)
    marks = [step * place for place in range(math.ceil(high / step) + 1)]
    return Axis(title, 0, marks[-1], tuple((mark, unit(mark)) for mark in marks), kind="linear")


def steps_axis(title: str, values: Sequence[float], unit: Callable[[float], str]) -> Axis:
    """An axis on which each given value has the same room."""
    ordered = sorted(set(values))
    ticks = tuple((value, unit(value)) for value in ordered)
    return Axis(title, ordered[0], ordered[-1], ticks, kind="steps")


def panel(title: str, description: str, x_axis: Axis, y_axis: Axis, lines: Sequence[Line], *, markers: bool) -> Markup:
    """Lines over two axes, with a title for people who see it and a description for those who do not."""

    def across(value: float) -> float:
        return _LEFT + x_axis.place(value) * (WIDTH - _LEFT - _RIGHT)

    def down(value: float) -> float:
        return HEIGHT - _BOTTOM - y_axis.place(value) * (HEIGHT - _TOP - _BOTTOM)

    drawn = [_grid(x_axis, y_axis, across, down)]
    for line in lines:
        places = [(across(x), down(y)) for x, y in line.points]
        if len(places) > 1 and line.drawn:
            path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
            drawn.append(element("path", element("title", text(line.name)), d=path, class_=f"line {line.kind}"))
        for (x, _), ends in zip(places, line.intervals, strict=False):
            low, high = (f"{down(end):.1f}" for end in ends)
            drawn.append(element("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=low, y2=high, class_=f"span {line.kind}"))
        if markers or line.marked or len(places) == 1:
            drawn += [
                _marker(line.kind, x, y, f"{line.name}: {y_axis.title} {value:,.4g} at {point:,.4g}")
                for (x, y), (point, value) in zip(places, line.points, strict=True)
            ]
    label = f"{title}. {description}"
    svg = element("svg", *drawn, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label)
    return element("div", element("h4", text(title)), svg, _numbers(x_axis, y_axis, lines, markers), class_="panel")


def _numbers(x_axis: Axis, y_axis: Axis, lines: Sequence[Line], markers: bool) -> Markup:
    """Return the data of a panel for `pointed_charts.js`."""
    data = {
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
    text_of_data = json.dumps(data).replace("<", r"\u003c")  # no name of a line ends the script
    return Markup(f'<script type="application/json">{text_of_data}</script>')


def _short_number(value: float) -> float:
    return float(f"{value:.6g}")


def lanes(title: str, description: str, x_title: str, rows: Sequence[Lane]) -> Markup:
    """Spans of time on lanes below each other, the first on top.

    Args:
        title: for people who see it.
        description: for those who do not.
        x_title: what is along.
        rows: the lanes; their times begin at 0.
    """
    axis = linear_axis(x_title, max((end for row in rows for _, end, _ in row.pieces), default=1.0), short)
    bottom = _TOP + len(rows) * _LANE_HEIGHT
    height = bottom + _BOTTOM

    def across(value: float) -> float:
        return _LEFT + axis.place(value) * (WIDTH - _LEFT - _RIGHT)

    drawn = []
    for value, label in axis.ticks:
        x = f"{across(value):.1f}"
        drawn.append(element("line", x1=x, x2=x, y1=_TOP, y2=bottom, class_="grid"))
        drawn.append(element("text", text(label), x=x, y=bottom + 15, class_="tick middle"))
    drawn.append(element("text", text(axis.title), x=(_LEFT + WIDTH - _RIGHT) / 2, y=height - 6, class_="axis middle"))
    for place, row in enumerate(rows):
        y = _TOP + place * _LANE_HEIGHT
        if place % _LANES_A_LABEL == 0:
            drawn.append(element("text", text(row.label), x=_LEFT - 6, y=y + _LANE_HEIGHT - 1, class_="tick end"))
        pieces = [
            element(
                "rect",
                x=f"{across(began):.1f}",
                y=y + 1,
                width=f"{max(0.4, across(ended) - across(began)):.1f}",
                height=_LANE_HEIGHT - 2,
                class_=f"piece {kind}",
            )
            for began, ended, kind in row.pieces
        ]
        drawn.append(element("g", element("title", text(row.explained)), *pieces))
    label = f"{title}. {description}"
    svg = element("svg", *drawn, viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label=label)
    return element("div", element("h4", text(title)), svg, class_="panel")


def short(value: float) -> str:
    """A number with three digits and k or M for thousands and millions."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1000:.3g}k" if value >= 1000 else f"{value:.3g}"


def heat_map(
    caption: str, corner: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[Heat | None]]]
) -> Markup:
    """A table whose cells are coloured by what they say; the text says it too.

    Args:
        caption: what it shows.
        corner: what the names of rows and columns are.
        columns: the names of the columns.
        rows: each row's name and cells; None where there is nothing.
    """
    head = element("tr", *(element("th", text(name), scope="col") for name in (corner, *columns)))
    body = []
    for name, cells in rows:
        drawn = [element("th", text(name), scope="row")]
        for cell in cells:
            if cell is None:
                drawn.append(element("td", text("\N{EN DASH}"), class_="heat"))
                continue
            style = f"--share:{_percent(cell.share)}"
            more = element("small", text(cell.more))
            drawn.append(element("td", element("b", text(cell.value)), more, class_=f"heat {cell.kind}", style=style))
        body.append(element("tr", *drawn))
    whole = element(
        "table", element("caption", text(caption)), element("thead", head), element("tbody", *body), class_="heatmap"
    )
    scrolled = element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)
    said = [[name, *("" if cell is None else f"{cell.value} ({cell.more})" for cell in cells)] for name, cells in rows]
    return element("div", scrolled, csv_link(caption, [corner, *columns], said), class_="table")


def _marker(kind: str, x: float, y: float, label: str) -> Markup:
    title = element("title", text(label))
    if kind == "side-0":
        return element("rect", title, x=f"{x - 3.5:.1f}", y=f"{y - 3.5:.1f}", width=7, height=7, class_=f"mark {kind}")
    return element("circle", title, cx=f"{x:.1f}", cy=f"{y:.1f}", r=4, class_=f"mark {kind}")


def _grid(x_axis: Axis, y_axis: Axis, across: Callable[[float], float], down: Callable[[float], float]) -> Markup:
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    parts = []
    for value, label in y_axis.ticks:
        y = down(value)
        parts.append(element("line", x1=_LEFT, x2=right, y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid"))
        parts.append(element("text", text(label), x=_LEFT - 6, y=f"{y + 3.5:.1f}", class_="tick end"))
    last = -math.inf
    for value, label in x_axis.ticks:
        x = across(value)
        parts.append(element("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=_TOP, y2=bottom, class_="grid"))
        if x - last >= _TICK_GAP_MIN:
            last = x
            parts.append(element("text", text(label), x=f"{x:.1f}", y=bottom + 15, class_="tick middle"))
    parts.append(element("text", text(x_axis.title), x=(_LEFT + right) / 2, y=HEIGHT - 6, class_="axis middle"))
    if not y_axis.title:
        return element("g", *parts, aria_hidden="true")
    turn = f"translate(11 {(_TOP + bottom) / 2}) rotate(-90)"
    parts.append(element("text", text(y_axis.title), transform=turn, class_="axis middle"))
    return element("g", *parts, aria_hidden="true")


def panels(drawings: Sequence[Markup], *, pairs: bool = False) -> Markup:
    """Drawings side by side where there is room; two of them in a row where they belong together in pairs."""
    return element("div", *drawings, class_="panels pairs" if pairs else "panels")


@attrs.frozen
class Bar:
    """One bar: from `start` to `start + length` of the track (0 to 1)."""

    label: str
    value: str
    start: float
    length: float
    kind: str
    whisker: tuple[float, float] | None = None
    reference: float | None = None


def bars(title: str, entries: Sequence[Bar]) -> Markup:
    """Horizontal bars with their labels and values as text: no picture needed to read them."""
    rows = []
    for bar in entries:
        pieces = []
        if bar.reference is not None:
            pieces.append(element("i", class_="reference", style=f"left:{_percent(bar.reference)}"))
        if bar.whisker is not None:
            low, high = bar.whisker
            style = f"left:{_percent(low)};width:{_percent(high - low)}"
            pieces.append(element("i", class_=f"whisker {bar.kind}", style=style))
            pieces.append(element("i", class_=f"dot {bar.kind}", style=f"left:{_percent(bar.start)}"))
        elif bar.length > 0:
            style = f"left:{_percent(bar.start)};width:{_percent(bar.length)}"
            pieces.append(element("i", class_=f"bar {bar.kind}", style=style))
        rows.append(
            element(
                "li",
                element("span", text(bar.label), class_="label"),
                element("span", *pieces, class_="track", aria_hidden="true"),
                element("span", text(bar.value), class_="value"),
            )
        )
    return element("ul", join(rows), class_="bars", aria_label=title)


def _percent(share: float) -> str:
    return f"{max(0.0, min(1.0, share)) * 100:.2f}%"
