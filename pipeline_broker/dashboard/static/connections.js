// Open connections, memory that clients hold, and long turns of the event loop.

import { element, filter, name, none, replace, table } from "./dom.js";
import { bytes, count, duration, plural } from "./format.js";
import { ask, repeat } from "./live.js";

export async function show(main) {
  const rows = element("div", { class: "card" });
  const held = element("div", { class: "card" });
  const turns = element("div", { class: "card" });
  let shown = { count: 0, connections: [] };
  const named = filter("client, address, topic or principal contains", draw);
  replace(main, element("h1", {}, "Connections"), named.form, rows, held, turns);
  function draw() {
    const wanted = shown.connections.filter((each) => named.has(each.client, each.from, each.principal, ...each.topics));
    replace(rows, wanted.length ? table(`${plural(shown.count, "open connection")}${shown.count > shown.connections.length ? `, the first ${shown.connections.length} listed` : ""}.`, [
      { title: "connection", by: (each) => each.connection, cell: (each) => each.connection },
      { title: "client", by: (each) => each.client, cell: (each) => name(each.client || "–") },
      { title: "from", class: "place", by: (each) => each.from, cell: (each) => name(each.from) },
      { title: "topics", cell: (each) => name(each.topics.join(", ") || "–") },
      { title: "listener", cell: (each) => each.security && each.security !== each.listener ? `${each.listener} (${each.security})` : each.listener },
      { title: "software", cell: (each) => (each.software.startsWith("unknown") ? "–" : name(each.software)) },
      { title: "principal", by: (each) => each.principal, cell: (each) => name(each.principal) },
      { title: "in flight", word: "in flight", number: true, by: (each) => each.in_flight, cell: (each) => count(each.in_flight) },
      { title: "requests", number: true, by: (each) => each.received, cell: (each) => count(each.received) },
      { title: "responses", number: true, by: (each) => each.answered, cell: (each) => count(each.answered) },
      { title: "unsent", number: true, by: (each) => each.unsent_bytes, cell: (each) => bytes(each.unsent_bytes) },
      { title: "mute reasons", word: "mute", cell: (each) => each.mutes.join(", ") || "–" },
    ], wanted) : none(shown.count ? "No matching connections." : "No open connections."));
  }
  repeat(2, async () => {
    shown = await ask("/api/connections");
    draw();
    const amount = (each, value) => (each.unit === "bytes" ? bytes(value) : `${count(value)} ${each.unit}`);
    replace(held, table("State that the broker holds for clients.", [
      { title: "state", cell: (each) => each.name },
      { title: "now", number: true, cell: (each) => amount(each, each.held) },
      { title: "limit", number: true, cell: (each) => amount(each, each.limit) },
      { title: "set by", cell: (each) => each.setting },
    ], shown.held));
    replace(turns, table("Long turns of the event loop. All clients wait during a turn.", [
      { title: "turn", cell: (each) => name(each.turn) },
      { title: "longest", number: true, cell: (each) => duration(each.longest_us) },
      { title: "above 5 ms", number: true, cell: (each) => count(each.long_count) },
    ], shown.turns));
  });
}
