// All topics.

import { element, none, replace, table } from "./dom.js";
import { bytes, count } from "./format.js";
import { ask, repeat } from "./live.js";

export async function show(main) {
  const text = element("input", { type: "search", autocomplete: "off" });
  const internal = element("input", { type: "checkbox" });
  const rows = element("div", { class: "card" });
  let shown = { count: 0, topics: [] };
  function draw() {
    const wanted = shown.topics.filter((topic) => topic.name.includes(text.value.trim()) && (internal.checked || !topic.is_internal));
    replace(rows, wanted.length ? table(shown.count > shown.topics.length ? `The first ${shown.topics.length} of ${count(shown.count)}.` : "", [
      { title: "topic", cell: (topic) => element("a", { href: `/topics/${encodeURIComponent(topic.name)}` }, topic.name) },
      { title: "partitions", number: true, cell: (topic) => count(topic.partitions) },
      { title: "offsets", number: true, cell: (topic) => count(topic.offsets) },
      { title: "size", number: true, cell: (topic) => bytes(topic.bytes) },
      { title: "settings", number: true, cell: (topic) => topic.settings || "–" },
    ], wanted) : none(shown.count ? "No topic is like that." : "There is no topic yet."));
  }
  text.addEventListener("input", draw);
  internal.addEventListener("change", draw);
  replace(main, element("h1", {}, "Topics"),
    element("form", { class: "filters", onsubmit: (event) => event.preventDefault() },
      element("label", {}, "name contains", text), element("label", { class: "check" }, internal, "internal ones, too")), rows);
  repeat(2, async () => {
    shown = await ask("/api/topics");
    draw();
  });
}
