// The effective configuration, with the source of each setting.

import { confirm, input } from "./dialog.js";
import { element, filter, name, none, replace, table } from "./dom.js";
import { ask, change } from "./live.js";

function editDialog(entry, topic) {
  const value = input({ value: entry.is_secret ? "" : entry.value ?? "" });
  const inherited = element("input", { type: "checkbox" });
  confirm(["Change ", name(entry.name)], [[entry.documentation], ["value", value], ["use the inherited value", inherited]], "Change", async () => {
    await change("/api/changes/configure", { ...(topic === BROKER ? {} : { topic }), setting: entry.name, value: inherited.checked ? null : value.value });
    location.reload();
  });
}

export const BROKER = Symbol("the broker's settings");

// `changes` is the owner of the settings if they can be changed here: the name of a topic, or BROKER. null: read-only.
export function settingsTable(entries, caption, changes = null) {
  const changed = element("input", { type: "checkbox" });
  const rows = element("div");
  const ordered = [...entries].sort((one, other) => one.is_default - other.is_default || one.name.localeCompare(other.name));
  function draw() {
    const wanted = ordered.filter((entry) => wantedNames.has(entry.name) && (!changed.checked || !entry.is_default));
    replace(rows, wanted.length ? table(caption, [
      { title: "setting", cell: (entry) => element("span", { title: entry.documentation }, name(entry.name)) },
      { title: "value", cell: (entry) => (entry.is_secret ? element("span", { class: "size" }, "[hidden]") : entry.value === null ? "–" : entry.value === "" ? element("span", { class: "size" }, "empty") : name(entry.value)) },
      { title: "from", cell: (entry) => (entry.is_default ? element("span", { class: "size" }, "default") : entry.source) },
      { title: "changeable at run time", cell: (entry) => (entry.is_read_only ? "no"
        : changes === null ? "yes" : element("button", { type: "button", "aria-label": `Change ${entry.name}`, onclick: () => editDialog(entry, changes) }, "Change")) },
    ], wanted) : none("No matching settings."));
  }
  const wantedNames = filter("name contains", draw, element("label", { class: "check" }, changed, "only non-default settings"));
  draw();
  return element("div", {}, wantedNames.form, rows);
}

export async function show(main, broker) {
  const { configuration } = await ask("/api/configuration");
  replace(main, element("h1", {}, "Configuration"), element("p", { class: "lead" }, "This page lists the properties of this broker by Kafka's names. Secrets are hidden."),
    element("div", { class: "card" }, settingsTable(configuration, "", broker.is_read_only ? null : BROKER)));
}
