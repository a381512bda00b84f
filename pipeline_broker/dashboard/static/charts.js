// Lines over the last two minutes, drawn by uPlot in the colours of the page.

const SECONDS_KEPT = 120;

function colour(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

const charts = new Set();
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => charts.forEach((chart) => chart.draw()));
addEventListener("resize", () => charts.forEach((chart) => chart.resize()));

export class Chart {
  // series: [{label, colour (a variable of the style sheet), value (of a number)}]
  constructor(parent, series, { scale = null, label = "" } = {}) {
    this.parent = parent;
    this.series = series;
    this.scale = scale;
    this.data = [[], ...series.map(() => [])];
    parent.setAttribute("role", "img");
    this.label = label;
    charts.add(this);
    scale?.charts.push(this);
  }

  add(seconds, values) {
    this.data[0].push(seconds);
    values.forEach((value, place) => this.data[place + 1].push(value));
    while (this.data[0].length && this.data[0][0] < seconds - SECONDS_KEPT) this.data.forEach((column) => column.shift());
    if (!this.plot) this.draw();
    else this.plot.setData(this.data);
    const latest = this.series.map((line, place) => `${line.label} ${line.value(values[place])}`).join(", ");
    this.parent.setAttribute("aria-label", `${this.label}: ${latest}`);
  }

  // Charts of one scale have the same height for the same number, whichever broker they show.
  range() {
    const together = this.scale ? this.scale.charts : [this];
    return [0, (Math.max(...together.flatMap((chart) => chart.data.slice(1).flat()), 0) || 1) * 1.08];
  }

  draw() {
    if (!this.data[0].length) return;
    if (this.plot) this.plot.destroy();
    const quiet = colour("--quiet");
    const grid = { stroke: colour("--line"), width: 1 };
    const axis = { stroke: quiet, grid, ticks: { show: false }, font: "11px system-ui" };
    this.plot = new window.uPlot({
      width: Math.max(160, this.parent.clientWidth),
      height: 150,
      cursor: { y: false, drag: { x: false, y: false } },
      legend: { show: this.series.length > 1, live: false },
      scales: {
        x: { time: true, range: (plot, low, high) => [high - SECONDS_KEPT, high] },
        y: { range: () => this.range() },
      },
      axes: [
        { ...axis, size: 22, values: (plot, ticks) => ticks.map((tick) => new Date(tick * 1000).toISOString().slice(14, 19)) },
        { ...axis, size: 52, values: (plot, ticks) => ticks.map(this.series[0].value) },
      ],
      series: [
        { label: "at", value: (plot, at) => (at ? new Date(at * 1000).toISOString().slice(11, 19) : "") },
        ...this.series.map((line) => ({
          label: line.label,
          stroke: colour(line.colour),
          width: 1.6,
          points: { show: false },
          value: (plot, value) => (value === null || value === undefined ? "" : line.value(value)),
        })),
      ],
    }, this.data, this.parent);
  }

  resize() {
    if (this.plot) this.plot.setSize({ width: Math.max(160, this.parent.clientWidth), height: 150 });
  }
}
