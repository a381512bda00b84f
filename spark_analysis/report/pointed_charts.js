// Interactive charts: if scripts run, uPlot redraws each panel from the numbers beside its SVG.
(() => {
  const RATIO = 236 / 360;
  const SCALES = {
    log: [Math.log10, (place) => 10 ** place],
    linear: [Number, Number],
    tail: [(share) => -Math.log10(Math.max(1e-9, 1 - share)), (place) => 1 - 10 ** -place],
  };

  function scaleOf(axis) {
    if (axis.kind !== "steps") return SCALES[axis.kind];
    const values = axis.ticks.map(([value]) => value);
    return [(value) => values.indexOf(value), (place) => values[Math.round(place)]];
  }

  function short(value) {
    if (Math.abs(value) >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
    return Math.abs(value) >= 1e3 ? `${+(value / 1e3).toPrecision(3)}k` : `${+value.toPrecision(3)}`;
  }

  function format(axis, value) {
    if (value === null || value === undefined) return "\u2013";
    const found = scaleOf(axis)[1](value);
    if (axis.kind === "tail") return `${+(100 * found).toFixed(found > 0.99 ? 3 : 1)} %`;
    return axis.ticks.find(([tick]) => tick === found)?.[1] ?? short(found);
  }

  // Return the colour and the dashes of a kind of line in the style sheet.
  function lineStyle(svg, kind) {
    const probe = svg.appendChild(document.createElementNS(svg.namespaceURI, "path"));
    probe.setAttribute("class", `line ${kind}`);
    const { stroke, strokeDasharray } = getComputedStyle(probe);
    probe.remove();
    return { stroke, dash: strokeDasharray === "none" ? [] : strokeDasharray.split(/[, ]+/).map(parseFloat) };
  }

  // Interpolate between two points of a line; beyond its ends it has no value.
  function valueAt(points, x) {
    const next = points.findIndex(([at]) => at >= x);
    if (next < 0 || (next === 0 && points[0][0] > x)) return null;
    const [at, value] = points[next];
    if (at === x) return value;
    const [before, last] = points[next - 1];
    return last + ((value - last) * (x - before)) / (at - before);
  }

  function columns(chart) {
    const [across] = scaleOf(chart.x), [up] = scaleOf(chart.y);
    const lines = chart.lines.map((line) => line.points.map(([x, y]) => [across(x), up(y)]).sort((a, b) => a[0] - b[0]));
    const xs = [...new Set(lines.flat().map(([x]) => x))].sort((a, b) => a - b);
    const exact = (points, x) => points.find(([at]) => at === x)?.[1] ?? null;
    return [xs, ...lines.map((points, place) => xs.map((x) => (chart.lines[place].drawn ? valueAt : exact)(points, x)))];
  }

  function axisOf(axis, colours) {
    const [scale] = scaleOf(axis);
    return {
      label: axis.title || undefined,
      labelSize: 16, labelFont: "11px system-ui", font: "11px system-ui",
      stroke: colours.soft, grid: { stroke: colours.grid, width: 1 }, ticks: { show: false },
      splits: (plot, place, low, high) => {
        const inside = axis.ticks.map(([value]) => scale(value)).filter((at) => at >= low - 1e-9 && at <= high + 1e-9);
        return inside.length > 1 ? inside : [0, 1, 2, 3].map((step) => low + ((high - low) * step) / 3);
      },
      values: (plot, places) => places.map((at) => format(axis, at)),
    };
  }

  function drawIntervals(chart, looks) {
    const [across] = scaleOf(chart.x), [up] = scaleOf(chart.y);
    return (plot) => chart.lines.forEach((line, place) => (line.intervals ?? []).forEach(([low, high], number) => {
      const x = plot.valToPos(across(line.points[number][0]), "x", true);
      if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) return;
      plot.ctx.strokeStyle = looks[place].stroke;
      plot.ctx.lineWidth = 1.5 * devicePixelRatio;
      plot.ctx.beginPath();
      plot.ctx.moveTo(x, plot.valToPos(up(low), "y", true));
      plot.ctx.lineTo(x, plot.valToPos(up(high), "y", true));
      plot.ctx.stroke();
    }));
  }

  function size(panel) {
    return { width: panel.clientWidth, height: Math.round(panel.clientWidth * RATIO) };
  }

  function draw(panel) {
    panel.plot?.destroy();
    const svg = panel.querySelector("svg");
    const chart = JSON.parse(panel.querySelector("script").textContent);
    const style = getComputedStyle(document.documentElement);
    const colours = { soft: style.getPropertyValue("--soft"), grid: style.getPropertyValue("--grid") };
    const looks = chart.lines.map((line) => lineStyle(svg, line.kind));
    const ends = (axis) => [axis.low, axis.high].map(scaleOf(axis)[0]);
    const data = columns(chart);
    const [first, last] = [data[0][0], data[0].at(-1)];
    panel.classList.add("pointed");
    panel.plot = new uPlot({
      ...size(panel),
      cursor: { drag: { x: true, y: false } },
      scales: {
        x: { time: false, range: (plot, low, high) => (low > first || high < last ? [low, high] : ends(chart.x)) },
        y: { range: () => ends(chart.y) },
      },
      axes: [{ ...axisOf(chart.x, colours), size: 22 }, { ...axisOf(chart.y, colours), size: 52 }],
      hooks: { draw: [drawIntervals(chart, looks)] },
      series: [
        { label: chart.x.title || "at", value: (plot, place) => format(chart.x, place) },
        ...chart.lines.map((line, place) => ({
          label: line.name, ...looks[place], width: 1.8, spanGaps: true,
          paths: line.drawn ? undefined : () => null,
          points: { show: line.marked, size: 7, fill: looks[place].stroke },
          value: (plot, value) => format(chart.y, value),
        })),
      ],
    }, data, panel);
    panel.plot.root.setAttribute("aria-hidden", "true"); // a table has the same figures
    panel.plot.root.title = "Drag to zoom, double-click to see all";
  }

  const panels = [...document.querySelectorAll(".panel:has(> script)")];
  const seen = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (!entry.isIntersecting) return;
    seen.unobserve(entry.target);
    draw(entry.target);
  }), { rootMargin: "200px" });
  panels.forEach((panel) => seen.observe(panel));
  addEventListener("resize", () => panels.forEach((panel) => panel.plot?.setSize(size(panel))));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => panels.forEach((panel) => panel.plot && draw(panel)));
})();
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
