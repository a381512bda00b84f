// The object store: requests, journal, lease and cache.

import { element, name, none, replace, table } from "./dom.js";
import { bytes, count, duration } from "./format.js";
import { ask, repeat } from "./live.js";

const time = (ms) => (ms === null ? "–" : duration(Math.round(ms * 1000)));

function standing(shown) {
  const journal = shown.journal;
  const rows = [
    ["store", shown.is_out ? `not answering: ${shown.reason}` : "available"],
    ["outages, in total", duration(Math.round(shown.outage_seconds * 1000000))],
    ["retries", count(shown.retries)],
    ["written", bytes(shown.sent_bytes)],
    ["read", bytes(shown.received_bytes)],
    ["cache", `${bytes(shown.cache.size_bytes)}, ${count(shown.cache.hits)} hits, ${count(shown.cache.misses)} misses`],
  ];
  if (journal) {
    rows.push(
      ["journal", journal.is_fenced ? "taken over by another broker" : `owned as generation ${count(journal.generation)}`],
      ["not archived", `${count(journal.slots)} objects, ${bytes(journal.size_bytes)}`],
      ["in flight", `${count(journal.in_flight)} objects`],
    );
    if (journal.lease) {
      rows.push(["lease", `${journal.lease.is_held ? "held" : "held by another broker"}, renewed ${duration(Math.round(journal.lease.age_seconds * 1000000))} ago`]);
    }
  }
  return rows.map(([what, said]) => ({ what, said }));
}

export async function show(main) {
  const card = () => element("div", { class: "card" });
  const [state, kinds, requests] = [card(), card(), card()];
  replace(main, element("h1", {}, "Store"), state, kinds, requests);
  repeat(2, async () => {
    const shown = await ask("/api/store");
    if (!shown.has_store) {
      replace(state, none("This broker has no object store. Its journal and archive are in its data directory."));
      return;
    }
    replace(state, table("State of the store.", [
      { title: "what", cell: (each) => each.what },
      { title: "now", cell: (each) => name(each.said) },
    ], standing(shown)));
    replace(kinds, table("Requests since the startup, by billed kind.", [
      { title: "kind", cell: (each) => each.kind },
      { title: "requests", number: true, cell: (each) => count(each.count) },
      { title: "mean", number: true, cell: (each) => time(each.mean_ms) },
      { title: "p50, at most", number: true, cell: (each) => time(each.p50_ms) },
      { title: "p99, at most", number: true, cell: (each) => time(each.p99_ms) },
    ], shown.kinds));
    replace(requests, table("Requests by outcome.", [
      { title: "operation", cell: (each) => each.operation },
      { title: "outcome", cell: (each) => each.outcome },
      { title: "requests", number: true, cell: (each) => count(each.count) },
    ], shown.requests));
  });
}
