// All topics, and the dialog that creates one.

import { confirm, input, number, pairs } from "./dialog.js";
import { element, filter, name, none, replace, table } from "./dom.js";
import { bytes, count, perSecond, rate } from "./format.js";
import { ask, change, repeat } from "./live.js";

function createDialog() {
  const topic = input({ required: true, maxlength: 249 });
  const partitions = input({ placeholder: "default: num.partitions", inputmode: "numeric" });
  const settings = element("textarea", { rows: 3, placeholder: "retention.ms=604800000" });
  confirm("Create a topic", [["name", topic], ["partitions", partitions], ["settings, one per line", settings]], "Create", async () => {
    await change("/api/changes/create-topic", { topic: topic.value.trim(), partitions: number(partitions.value), settings: Object.fromEntries(pairs(settings.value)) });
    location.assign(`/topics/${encodeURIComponent(topic.value.trim())}`);
  });
}

export async function show(main, broker) {
  const internal = element("input", { type: "checkbox" });
  const rows = element("div", { class: "card" });
  const disk = element("p", { class: "lead" });
  let shown = { count: 0, topics: [] };
  function draw() {
    const wanted = shown.topics.filter((topic) => wantedNames.has(topic.name) && (internal.checked || !topic.is_internal));
    replace(rows, wanted.length ? table(shown.count > shown.topics.length ? `The first ${shown.topics.length} of ${count(shown.count)}.` : "", [
      { title: "topic", by: (topic) => topic.name, cell: (topic) => element("a", { href: `/topics/${encodeURIComponent(topic.name)}` }, name(topic.name)) },
      { title: "partitions", number: true, by: (topic) => topic.partitions, cell: (topic) => count(topic.partitions) },
      { title: "offsets", number: true, by: (topic) => topic.offsets, cell: (topic) => count(topic.offsets) },
      { title: "records/s", number: true, by: (topic) => topic.records_per_s, cell: (topic) => perSecond(topic.records_per_s, rate) },
      { title: "in/s", number: true, by: (topic) => topic.bytes_per_s, cell: (topic) => perSecond(topic.bytes_per_s, bytes) },
      { title: "size", number: true, by: (topic) => topic.bytes, cell: (topic) => bytes(topic.bytes) },
      { title: "settings", number: true, cell: (topic) => topic.settings || "–" },
    ], wanted) : none(shown.count ? "No matching topics." : broker.limited_to ? `No topics that ${broker.limited_to} may describe.` : "No topics yet."));
  }
  const wantedNames = filter("name contains", draw, element("label", { class: "check" }, internal, "include internal topics"));
  const create = element("button", { type: "button", disabled: broker.is_read_only, onclick: createDialog }, "Create a topic");
  replace(main, element("div", { class: "head" }, element("h1", {}, "Topics"), create),
    wantedNames.form, disk, rows);
  repeat(2, async () => {
    shown = await ask("/api/topics");
    disk.textContent = shown.disk ? `${bytes(shown.disk.free_bytes)} of ${bytes(shown.disk.size_bytes)} are free on the disk of the data directory.` : "";
    draw();
  });
}
