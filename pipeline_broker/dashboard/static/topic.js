// One topic: the message browser and the live tail, partitions, groups and configuration.

import { settingsTable } from "./configuration.js";
import { confirm, input, number, pairs } from "./dialog.js";
import { element, name, none, replace, table, visible } from "./dom.js";
import { bytes, count, moment, perSecond, plural, rate } from "./format.js";
import { ask, change, listen } from "./live.js";

const TAILED_MAX = 200;
const PAGE_RECORDS = 25;
const PAGES_MAX = 20; // per search for PAGE_RECORDS records; the broker bounds the records and bytes of each page
const PRETTY_MAX = 64 * 1024;

// Indent JSON; return other text unchanged.
function readable(text) {
  if (text.length > PRETTY_MAX || !/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function content(found) {
  if (found === null) return element("span", { class: "size" }, "null");
  const size = found.cut ? element("span", { class: "size" }, ` the beginning of ${bytes(found.bytes)} in total`) : null;
  const shown = "text" in found
    ? element("pre", { class: "content", dir: "ltr" }, visible(found.cut ? found.text : readable(found.text)))
    : element("pre", { class: "content hex", dir: "ltr" }, found.hex);
  const schema = "schema" in found ? element("span", { class: "size" }, ` schema ${found.schema}`) : null;
  return found.bytes ? element("div", {}, shown, size, schema) : element("span", { class: "size" }, "empty");
}

// A record in the form of `consume --json`; null replaces contents that are not text.
function plain(record) {
  const text = (found) => (found === null ? null : found.text ?? null);
  return {
    topic: record.topic, partition: record.partition, offset: record.offset, timestamp: record.timestamp_ms,
    key: text(record.key), value: text(record.value),
    headers: record.headers.map((header) => [header.name, text(header.content)]),
  };
}

function copyButton(record) {
  const button = element("button", { type: "button", class: "copy", onclick: async () => {
    try {
      await navigator.clipboard.writeText(JSON.stringify(plain(record)));
      button.textContent = "Copied";
    } catch {
      button.textContent = "Copying is not allowed";
    }
  } }, "Copy");
  return button;
}

function recordView(record) {
  const headers = record.headers.map((header) => [
    element("dt", {}, "header"), element("dd", { class: "header" }, name(header.name), content(header.content)),
  ]);
  const more = record.headers_count - record.headers.length;
  return element("article", { class: "record" },
    element("p", { class: "place" }, "partition ", element("b", {}, record.partition), ", offset ", element("b", {}, count(record.offset)),
      `, ${moment(record.timestamp_ms)}`, copyButton(record)),
    element("dl", {}, element("dt", {}, "key"), element("dd", {}, content(record.key)),
      element("dt", {}, "value"), element("dd", {}, content(record.value)), headers.flat(),
      more > 0 ? [element("dt", {}, ""), element("dd", {}, `and ${more} more headers`)] : null));
}

// Quote a field of CSV (RFC 4180). An apostrophe keeps a spreadsheet from running a text that starts like a formula.
function quoted(value) {
  const text = value === null ? "" : String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function save(lines, type, file) {
  const address = URL.createObjectURL(new Blob(lines, { type }));
  element("a", { href: address, download: file }).click();
  URL.revokeObjectURL(address);
}

class Browser {
  constructor(topic, partitions) {
    this.topic = topic;
    this.path = encodeURIComponent(topic);
    this.records = [];
    this.search = 0;
    this.found = element("div", { "aria-live": "off" });
    this.status = element("p", { class: "none", role: "status" });
    this.more = element("button", { type: "button", hidden: true, onclick: () => this.read(true) }, "Read more");
    this.download = element("span", { class: "buttons", hidden: true },
      element("button", { type: "button", onclick: () => this.saveLines() }, "Download JSONL"),
      element("button", { type: "button", onclick: () => this.saveTable() }, "Download CSV"));
    this.live = element("button", { type: "button", "aria-pressed": "false", onclick: () => this.toggle() }, "Follow");
    this.from = element("select", { name: "from" },
      [["latest", "newest first"], ["earliest", "oldest first"], ["offset", "offset"], ["time", "time (UTC)"]].map(([value, title]) => element("option", { value }, title)));
    this.at = element("input", { name: "at", disabled: true, autocomplete: "off" });
    this.partition = element("select", { name: "partition" }, element("option", { value: "" }, "all"),
      Array.from({ length: Math.min(partitions, 1000) }, (_, number) => element("option", { value: number }, number)));
    const field = (title, placeholder) => element("input", { name: title, placeholder, maxlength: 512, autocomplete: "off" });
    this.filters = { key: field("key", "text"), value: field("value", "text"), header: field("header", "name=text"), json: field("json", "field.inner=text") };
    this.from.addEventListener("change", () => this.changeFrom());
    this.take(new URLSearchParams(location.search));
    this.node = element("section", { class: "card" }, element("h2", {}, "Records"),
      element("form", { class: "filters", onsubmit: (event) => { event.preventDefault(); this.remember(); this.read(false); } },
        element("label", {}, "from", this.from), element("label", {}, "offset or time", this.at), element("label", {}, "partition", this.partition),
        element("label", {}, "key contains", this.filters.key), element("label", {}, "value contains", this.filters.value),
        element("label", {}, "header", this.filters.header), element("label", {}, "field of a JSON value", this.filters.json),
        element("div", { class: "buttons" }, element("button", { class: "main" }, "Show"), this.live)),
      this.status, this.found, element("div", { class: "buttons" }, this.more, this.download));
  }

  // The address contains the search, so that links and the Back button restore it.
  take(query) {
    for (const [filter, input] of Object.entries({ ...this.filters, from: this.from, at: this.at, partition: this.partition })) {
      if (query.get(filter)) input.value = query.get(filter);
    }
    if (this.from.selectedIndex < 0) this.from.value = "latest";
    if (this.partition.selectedIndex < 0) this.partition.value = "";
    this.changeFrom();
  }

  remember() {
    const query = this.query();
    if (this.from.value !== "latest") query.set("from", this.from.value);
    if (!this.at.disabled && this.at.value) query.set("at", this.at.value);
    history.pushState(null, "", query.size ? `?${query}` : location.pathname);
  }

  // Save the shown records as lines of JSON, in the form of `consume --json`.
  saveLines() {
    save(this.records.map((record) => `${JSON.stringify(plain({ ...record, topic: this.topic }))}\n`), "application/x-ndjson", `${this.topic}.jsonl`);
  }

  saveTable() {
    const rows = this.records.map((record) => {
      const { headers, ...fields } = plain({ ...record, topic: this.topic });
      return [...Object.values(fields), JSON.stringify(headers)];
    });
    const head = ["topic", "partition", "offset", "timestamp", "key", "value", "headers"];
    save([head, ...rows].map((row) => `${row.map(quoted).join()}\r\n`), "text/csv", `${this.topic}.csv`);
  }

  changeFrom() {
    const kind = this.from.value;
    this.at.disabled = kind !== "offset" && kind !== "time";
    this.at.placeholder = kind === "time" ? "2026-01-31 12:00:00" : kind === "offset" ? "0" : "";
  }

  query() {
    const query = new URLSearchParams();
    if (this.partition.value) query.set("partition", this.partition.value);
    for (const [filter, input] of Object.entries(this.filters)) if (input.value) query.set(filter, input.value);
    return query;
  }

  seek(query) {
    const kind = this.from.value;
    if (kind === "earliest") query.set("from", "earliest");
    if (kind === "offset") query.set("offset", this.at.value.trim() || "0");
    if (kind === "time") {
      const text = this.at.value.trim();
      const time = /^\d+$/.test(text) ? Number(text) : Date.parse(/[zZ]|[+-]\d\d:?\d\d$/.test(text) ? text : `${text.replace(" ", "T")}Z`);
      if (!Number.isFinite(time)) throw new Error(`"${text}" is not a time; write 2026-01-31 12:00:00, or milliseconds since 1970`);
      query.set("time", String(Math.max(0, Math.round(time))));
    }
  }

  async read(continues) {
    this.stop();
    const search = this.search += 1;
    const wanted = (continues ? this.records.length : 0) + PAGE_RECORDS;
    try {
      const query = this.query();
      query.set("limit", PAGE_RECORDS);
      if (!continues) {
        this.isBackwards = this.from.value === "latest";
        this.seek(query);
        this.records = [];
        this.examined = this.passed = 0;
        replace(this.found);
        this.more.hidden = this.download.hidden = true;
      }
      for (let pages = 0; pages < PAGES_MAX && this.records.length < wanted; pages += 1) {
        if (continues || pages) {
          query.delete("from");
          query.set(this.isBackwards ? "before" : "positions", Object.entries(this.positions).map(([partition, offset]) => `${partition}:${offset}`).join(","));
        }
        const page = await ask(`/api/topics/${this.path}/records?${query}`);
        if (search !== this.search) return;
        this.show(page);
        if (page.at_end) break;
      }
    } catch (error) {
      this.status.textContent = error.message;
      this.status.classList.add("error");
    }
  }

  show(page) {
    this.positions = page.positions;
    this.records.push(...page.records);
    this.examined += page.examined;
    this.passed += page.passed_over;
    this.found.append(...page.records.map((record) => recordView({ ...record, topic: this.topic })));
    const passed = this.passed ? `; ${count(this.passed)} ${this.passed === 1 ? "batch or value" : "batches or values"} could not be read` : "";
    const end = page.at_end ? `This is the ${this.isBackwards ? "beginning" : "end"} of the topic.` : `The topic has ${this.isBackwards ? "older" : "newer"} records.`;
    const isEmpty = page.at_end && !this.examined && !this.passed;
    const absent = this.partition.value || !this.at.disabled ? "No records in the chosen partition and range." : "The topic has no records.";
    this.status.textContent = isEmpty ? absent : `${count(this.records.length)} of ${plural(this.examined, "examined record")} shown${passed}. ${end}`;
    this.status.classList.remove("error");
    this.more.hidden = page.at_end;
    this.download.hidden = this.records.length === 0;
  }

  toggle() {
    if (this.source) {
      this.stop();
      return;
    }
    this.live.setAttribute("aria-pressed", "true");
    this.live.textContent = "Stop";
    this.search += 1;
    this.more.hidden = this.download.hidden = true;
    replace(this.found);
    this.status.textContent = "Waiting for records.";
    let seen = 0;
    let missed = 0;
    this.source = listen(`/events/topics/${this.path}?${this.query()}`, {
      records: (page) => {
        seen += page.records.length;
        missed += page.missed;
        for (const record of page.records) this.found.prepend(recordView({ ...record, topic: this.topic }));
        while (this.found.childElementCount > TAILED_MAX) this.found.lastElementChild.remove();
        this.status.textContent = `${count(seen)} new records, newest first${missed ? `; ${count(missed)} records were skipped because they arrived too fast` : ""}.`;
      },
    });
  }

  stop() {
    this.source?.close();
    this.source = null;
    this.live.setAttribute("aria-pressed", "false");
    this.live.textContent = "Follow";
  }
}

function produceDialog(topic, done) {
  const key = input({ placeholder: "none" });
  const value = element("textarea", { class: "code", rows: 12 });
  const headers = element("textarea", { rows: 2, placeholder: "name=text" });
  const partition = input({ placeholder: "chosen by the key", inputmode: "numeric" });
  const tombstone = element("input", { type: "checkbox" });
  confirm(["Produce a record to ", name(topic)], [["key", key], ["value", value], ["no value (a tombstone)", tombstone], ["headers, one per line", headers], ["partition", partition]], "Produce", async () => {
    await change("/api/changes/produce", {
      topic, key: key.value || null, value: tombstone.checked ? null : value.value, headers: pairs(headers.value), partition: number(partition.value),
    });
    done();
  });
}

function growDialog(topic) {
  const partitions = input({ inputmode: "numeric", value: topic.partitions + 1 });
  confirm(["Add partitions to ", name(topic.name)], [["total number of partitions", partitions], ["Later records with a key may go to another partition than earlier records with the same key."]], "Add", async () => {
    await change("/api/changes/add-partitions", { topic: topic.name, partitions: number(partitions.value) });
    location.reload();
  });
}

function emptyDialog(topic) {
  confirm(["Delete all records of ", name(topic)], [["All readers lose the records. The topic remains, and new records continue its offsets."]], "Delete the records", async () => {
    await change("/api/changes/empty-topic", { topic });
    location.reload();
  }, true);
}

function deleteDialog(topic) {
  const typed = input();
  confirm(["Delete the topic ", name(topic)], [["type its name to confirm", typed]], "Delete the topic", async () => {
    if (typed.value !== topic) throw new Error(`"${typed.value}" is not the name of the topic`);
    await change("/api/changes/delete-topic", { topic });
    location.assign("/topics");
  }, true);
}

function groupsTable(groups) {
  return groups.length ? table("", [
    { title: "group", by: (row) => row.group, cell: (row) => element("a", { href: `/groups?group=${encodeURIComponent(row.group)}` }, name(row.group)) },
    { title: "partitions", number: true, by: (row) => row.partitions, cell: (row) => count(row.partitions) },
    { title: "lag", word: "lag", number: true, by: (row) => row.lag, cell: (row) => count(row.lag) },
  ], groups) : none("No group has committed offsets of this topic.");
}

export async function show(main, broker, title) {
  const path = `/api/topics/${encodeURIComponent(title)}`;
  const [topic, { groups }] = await Promise.all([ask(path), ask(`${path}/groups`)]);
  const browser = new Browser(topic.name, topic.partitions);
  const action = (text, act) => element("button", { type: "button", disabled: broker.is_read_only || topic.is_internal, onclick: act }, text);
  replace(main,
    element("div", { class: "head" }, element("h1", {}, name(topic.name)), element("a", { href: "/topics" }, "All topics")),
    element("p", { class: "lead" }, `${plural(topic.partitions, "partition")}, ${plural(topic.offsets, "offset")}, ${bytes(topic.bytes)}, ${perSecond(topic.records_per_s, rate)} records/s, ${perSecond(topic.bytes_per_s, bytes)}/s, id ${topic.id}.`),
    element("div", { class: "buttons" },
      action("Produce a record", () => produceDialog(topic.name, () => browser.read(false))), action("Add partitions", () => growDialog(topic)),
      action("Delete records", () => emptyDialog(topic.name)), action("Delete the topic", () => deleteDialog(topic.name))),
    element("details", { class: "card" }, element("summary", {}, "Partitions"), topic.partition_rows.length ? table(topic.partitions > topic.partition_rows.length ? `The first ${count(topic.partition_rows.length)} of ${plural(topic.partitions, "partition")}.` : "", [
      { title: "partition", by: (row) => row.partition, cell: (row) => row.partition },
      { title: "start", word: "log start", number: true, by: (row) => row.start, cell: (row) => count(row.start) },
      { title: "last stable", word: "last stable offset", number: true, by: (row) => row.stable, cell: (row) => count(row.stable) },
      { title: "end", word: "high watermark", number: true, by: (row) => row.end, cell: (row) => count(row.end) },
      { title: "size", number: true, by: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
    ], topic.partition_rows) : none("No partitions.")),
    element("details", { class: "card" }, element("summary", {}, "Groups"), groupsTable(groups)),
    element("details", { class: "card" }, element("summary", {}, "Configuration"),
      topic.configuration === null ? none("Seeing the settings needs DescribeConfigs on the topic.") : settingsTable(topic.configuration, "", broker.is_read_only ? null : topic.name)),
    browser.node);
  await browser.read(false);
}
