// Line charts of the last ten minutes, drawn by uPlot in the colours of the page. Times are UTC.

import { clock } from "./format.js";

const SECONDS_KEPT = 600;
const SECONDS_LEAST = 120;
const CHARACTER_PIXELS = 7;

function colour(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

const charts = new Set();
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => charts.forEach((chart) => chart.draw()));
addEventListener("resize", () => charts.forEach((chart) => chart.resize()));

export class Chart {
  // series: [{label, colour (a variable of the style sheet), value (formats a number)}]
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

  // Show the broker's history: the age of each row in seconds, and a column per series.
  load(ages, ...columns) {
    const now = Date.now() / 1000;
    this.data = [ages.map((age) => now - age), ...this.series.map((_, place) => columns[place] ?? ages.map(() => null))];
    this.show();
  }

  add(seconds, values) {
    this.data[0].push(seconds);
    values.forEach((value, place) => this.data[place + 1].push(value));
    while (this.data[0].length && this.data[0][0] < seconds - SECONDS_KEPT) this.data.forEach((column) => column.shift());
    this.show();
  }

  show() {
    if (!this.plot) this.draw();
    else this.plot.setData(this.data);
    const latest = this.series.map((line, place) => [line, this.data[place + 1].at(-1)])
      .map(([line, value]) => `${line.label} ${value === null || value === undefined ? "–" : line.value(value)}`).join(", ");
    this.parent.setAttribute("aria-label", `${this.label}: ${latest}`);
  }

  // Charts of one scale share a range, so that two brokers can be compared.
  range() {
    const together = this.scale ? this.scale.charts : [this];
    return [0, (Math.max(...together.flatMap((chart) => chart.data.slice(1).flat()), 0) || 1) * 1.08];
  }

  span() {
    const [first, last] = [this.data[0][0], this.data[0].at(-1)];
    return [Math.min(last - SECONDS_LEAST, Math.max(first, last - SECONDS_KEPT)), last];
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
        x: { time: true, range: () => this.span() },
        y: { range: () => this.range() },
      },
      axes: [
        { ...axis, size: 22, space: 70, values: (plot, ticks) => ticks.map((tick) => clock(tick * 1000)) },
        { ...axis, size: (plot, texts) => Math.max(52, 14 + CHARACTER_PIXELS * Math.max(0, ...(texts ?? []).map((text) => text.length))), values: (plot, ticks) => ticks.map(this.series[0].value) },
      ],
      series: [
        { label: "at", value: (plot, at) => (at ? clock(at * 1000) : "") },
        ...this.series.map((line) => ({
          label: line.label,
          stroke: colour(line.colour),
          width: 1.6,
          points: { show: false },
          spanGaps: true,
          value: (plot, value) => (value === null || value === undefined ? "" : line.value(value)),
        })),
      ],
    }, this.data, this.parent);
  }

  resize() {
    if (this.plot) this.plot.setSize({ width: Math.max(160, this.parent.clientWidth), height: 150 });
  }
}
