// Numbers and times as text.

const NO_BREAK = "\u00a0"; // no line ends between a number and its unit
const whole = new Intl.NumberFormat("en");
const one = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

export function rate(value) {
  return value >= 100 ? whole.format(Math.round(value)) : one.format(value);
}

export function plural(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

// Format a rate, which is null until it is known.
export function perSecond(value, shown) {
  return value === null ? "–" : shown(value);
}

export function duration(us) {
  if (us < 1000) return `${whole.format(Math.round(us))}${NO_BREAK}µs`;
  if (us < 10000) return `${(us / 1000).toFixed(2)}${NO_BREAK}ms`;
  if (us < 1000000) return `${one.format(us / 1000)}${NO_BREAK}ms`;
  return `${one.format(us / 1000000)}${NO_BREAK}s`;
}

export function bytes(value) {
  let rest = value;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (rest < 1000 || unit === "GB") return `${unit === "B" ? whole.format(rest) : one.format(rest)}${NO_BREAK}${unit}`;
    rest /= 1000;
  }
  return "";
}

// The time of day, in UTC.
export function clock(ms) {
  return new Date(ms).toISOString().slice(11, 19);
}

export function moment(ms) {
  if (ms < 0 || ms > 8.64e15) return `${ms} ms`;
  return new Date(ms).toISOString().replace("T", " ").replace("Z", " UTC");
}

// The note of a page while only part of the requests is measured.
export function partly(watched) {
  return `At this request rate, requests are measured during only ${Math.round(watched * 100)} % of the time, as a sample.`;
}
