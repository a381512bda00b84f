// The latest requests: all of rarely used APIs, and a sample of busy ones.

import { element, filter, name, none, replace, table, word } from "./dom.js";
import { bytes, clock, count, duration, partly } from "./format.js";
import { listen } from "./live.js";

const KEPT = 200;

export async function show(main) {
  let kept = [];
  let isPaused = false;
  const rows = element("div", { class: "card" }, none("No requests yet."));
  const summary = element("p", { class: "lead" });
  const onlyErrors = element("input", { type: "checkbox" });
  const pause = element("button", { type: "button", "aria-pressed": "false", onclick: () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    pause.textContent = isPaused ? "Resume" : "Pause";
  } }, "Pause");

  let stages = [];
  const named = filter("API, client, topic or group contains", draw, element("label", { class: "check" }, onlyErrors, "only errors"), { name: "named", placeholder: "Produce" });
  function draw() {
    const wanted = kept.filter((request) =>
      named.has(request.api, request.client, ...request.topics, ...request.groups) &&
      (!onlyErrors.checked || request.error !== "NONE" || request.outcome !== "sent"));
    replace(rows, wanted.length ? table(`The latest ${count(wanted.length)} requests, newest first.`, [
      { title: "at (UTC)", by: (request) => request.at, cell: (request) => clock(request.at) },
      { title: "API", by: (request) => request.api, cell: (request) => `${request.api} v${request.version}` },
      { title: "client", by: (request) => request.client, cell: (request) => name(request.client || "–") },
      { title: "from", class: "place", by: (request) => request.from, cell: (request) => name(request.from || "–") },
      { title: "topics and groups", cell: (request) => name([...request.topics, ...request.groups].join(", ") || "–") },
      { title: "connection", number: true, by: (request) => request.connection, cell: (request) => request.connection },
      { title: "sequence", number: true, by: (request) => request.sequence, cell: (request) => count(request.sequence) },
      { title: "in flight", word: "in flight", number: true, by: (request) => request.depth, cell: (request) => request.depth },
      { title: "request", number: true, by: (request) => request.request_bytes, cell: (request) => bytes(request.request_bytes) },
      { title: "response", number: true, by: (request) => request.response_bytes, cell: (request) => bytes(request.response_bytes) },
      { title: "took", number: true, by: (request) => request.total_us, cell: (request) => duration(request.total_us) },
      { title: "longest stage", cell: (request) => longest(request, stages) },
      { title: "outcome", cell: outcome },
    ], wanted) : none("No matching requests."));
  }

  replace(main,
    element("div", { class: "head" }, element("h1", {}, "Requests"), pause),
    summary,
    named.form,
    rows);
  listen("/events/requests", {
    requests: (shown) => {
      if (isPaused) return;
      stages = shown.stages;
      for (const request of shown.requests) request.at = Date.now() - request.ago_us / 1000;
      summary.textContent = `${count(shown.count)} requests in the last second, ${count(shown.requests.length)} of them shown: all requests of rarely used APIs, and about 60 per second of busy ones. ${shown.watched === 1 ? "" : `${partly(shown.watched)} `}To log all requests, start the broker with serve --request-log.`;
      if (shown.requests.length) {
        kept = [...shown.requests.reverse(), ...kept].slice(0, KEPT);
        draw();
      }
    },
  });
}

function longest(request, stages) {
  const place = request.stages_us.indexOf(Math.max(...request.stages_us));
  return element("span", {}, element("span", { class: `swatch s${place}` }), word(stages[place]), ` ${duration(request.stages_us[place])}`);
}

function outcome(request) {
  if (request.error !== "NONE") return element("span", { class: "error" }, request.error);
  return request.outcome === "sent" ? "answered" : request.outcome;
}
