// Every setting that counts, and where it comes from.

import { element, name, none, replace, table } from "./dom.js";
import { ask } from "./live.js";

export function settingsTable(entries, caption) {
  const text = element("input", { type: "search", autocomplete: "off" });
  const changed = element("input", { type: "checkbox" });
  const rows = element("div");
  const ordered = [...entries].sort((one, other) => one.is_default - other.is_default || one.name.localeCompare(other.name));
  function draw() {
    const wanted = ordered.filter((entry) => entry.name.includes(text.value.trim().toLowerCase()) && (!changed.checked || !entry.is_default));
    replace(rows, wanted.length ? table(caption, [
      { title: "setting", cell: (entry) => element("span", { class: "name", title: entry.documentation }, entry.name) },
      { title: "value", cell: (entry) => (entry.is_secret ? element("span", { class: "size" }, "[hidden]") : entry.value === null ? "–" : name(entry.value)) },
      { title: "from", cell: (entry) => (entry.is_default ? element("span", { class: "size" }, "default") : entry.source) },
      { title: "changes live", class: "wide", cell: (entry) => (entry.is_read_only ? "no" : "yes") },
    ], wanted) : none("No setting is like that."));
  }
  text.addEventListener("input", draw);
  changed.addEventListener("change", draw);
  draw();
  return element("div", {}, element("form", { class: "filters", onsubmit: (event) => event.preventDefault() },
    element("label", {}, "name contains", text), element("label", { class: "check" }, changed, "only what was set")), rows);
}

export async function show(main) {
  const { configuration } = await ask("/api/configuration");
  replace(main, element("h1", {}, "Configuration"), element("p", { class: "lead" }, "Of this broker, by Kafka's names. Secrets are not shown."),
    element("div", { class: "card" }, settingsTable(configuration, "")));
}
