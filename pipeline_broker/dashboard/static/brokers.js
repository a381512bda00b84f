// The brokers of the cluster.

import { element, name, none, replace, table } from "./dom.js";
import { count, plural } from "./format.js";
import { ask, repeat } from "./live.js";

const states = { joined: ["serves"], watched: ["silent", "warn"], fenced: ["down", "error"], gone: ["removed", "error"] };

function state(text, kind, isController) {
  return element("span", { class: kind }, `${text}${isController ? ", controller" : ""}`);
}

export async function show(main, broker) {
  const rows = element("div", { class: "card" });
  replace(main, element("h1", {}, "Brokers"), rows);
  repeat(2, async () => {
    const { brokers } = await ask("/api/brokers");
    replace(rows, brokers.length ? table(`${plural(brokers.length, "broker")}. The other pages show the traffic of broker ${broker.node}.`, [
      { title: "broker", by: (each) => each.id, cell: (each) => each.id },
      { title: "state", by: (each) => each.state, cell: (each) => state(...states[each.state], each.is_controller) },
      { title: "partitions led", number: true, by: (each) => each.partitions, cell: (each) => count(each.partitions) },
      { title: "starts", number: true, by: (each) => each.starts, cell: (each) => count(each.starts) },
      { title: "listeners", class: "place", cell: (each) => name(each.listeners.join(", ")) },
    ], brokers) : none("This broker runs without a cluster."));
  });
}
