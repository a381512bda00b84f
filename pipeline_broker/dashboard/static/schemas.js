// The subjects of the schema registry, or one subject with its versions.

import { choose, confirm, input } from "./dialog.js";
import { element, filter, name, none, replace, table, visible } from "./dom.js";
import { bytes, count, plural } from "./format.js";
import { ask, change } from "./live.js";

const TYPES = ["AVRO", "JSON", "PROTOBUF"];
const LEVELS = ["BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE"];
const GLOBAL = "as all subjects";

function address(subject) {
  return `/schemas?subject=${encodeURIComponent(subject)}`;
}

function registerDialog(subject, type, text = "") {
  const named = input({ required: true, value: subject, readonly: subject !== undefined, placeholder: "orders-value" });
  const kind = choose(TYPES, type);
  const schema = element("textarea", { class: "code", rows: 24, required: true, spellcheck: "false" }, text);
  confirm("Register a schema", [["subject", named], ["type", kind], ["schema", schema]], "Register", async () => {
    await change("/api/changes/register-schema", { subject: named.value, type: kind.value, schema: schema.value });
    location.assign(address(named.value));
  });
}

function levelDialog(shown, subject) {
  const level = choose(subject === undefined ? LEVELS : [GLOBAL, ...LEVELS], subject === undefined || shown.has_own_level ? shown.level : GLOBAL);
  confirm(subject === undefined ? "Set the compatibility of all subjects" : ["Set the compatibility of ", name(subject)], [["new schemas must be", level]], "Set", async () => {
    await change("/api/changes/set-compatibility", { subject: subject ?? null, level: level.value === GLOBAL ? null : level.value });
    location.reload();
  });
}

function deleteDialog(subject, version, isPermanent) {
  const what = version === undefined ? ["Delete ", name(subject)] : [`Delete version ${version} of `, name(subject)];
  const effect = isPermanent ? "Records with its id can no longer be decoded." : "It is no longer listed. Records with its id can still be decoded, and you can delete it permanently afterwards.";
  confirm(what, [[effect]], isPermanent ? "Delete permanently" : "Delete", async () => {
    await change("/api/changes/delete-schema", { subject, version: version ?? null, permanent: isPermanent });
    await ask(`/api/schemas/versions?subject=${encodeURIComponent(subject)}`).then(() => location.reload(), () => location.assign("/schemas"));
  }, true);
}

async function showAll(main, isReadOnly) {
  const shown = await ask("/api/schemas");
  const rows = element("div", { class: "card" });
  function draw() {
    const wanted = shown.subjects.filter((row) => wantedNames.has(row.subject));
    replace(rows, wanted.length ? table(shown.count > shown.subjects.length ? `The first ${shown.subjects.length} of ${count(shown.count)}.` : "", [
      { title: "subject", by: (row) => row.subject, cell: (row) => element("a", { href: address(row.subject) }, name(row.subject)) },
      { title: "type", by: (row) => row.type, cell: (row) => row.type },
      { title: "versions", number: true, by: (row) => row.versions, cell: (row) => (row.versions ? count(row.versions) : "deleted") },
      { title: "latest", number: true, by: (row) => row.latest, cell: (row) => count(row.latest) },
      { title: "id", number: true, by: (row) => row.id, cell: (row) => row.id },
      { title: "compatibility", by: (row) => row.level, cell: (row) => element("span", { class: row.has_own_level ? null : "size" }, row.level) },
    ], wanted) : none(shown.count ? "No matching subjects." : "No subjects yet."));
  }
  const wantedNames = filter("name contains", draw);
  draw();
  const button = (title, act) => element("button", { type: "button", disabled: isReadOnly, onclick: act }, title);
  replace(main, element("div", { class: "head" }, element("h1", {}, "Schemas"), element("div", { class: "buttons" },
    button("Register a schema", () => registerDialog()), button("Set compatibility", () => levelDialog(shown)))),
  element("p", { class: "lead" }, `New schemas of a subject without its own level must be ${shown.level} compatible.`),
  wantedNames.form, rows);
}

function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function versionView(subject, row, isReadOnly) {
  const isPermanent = row.is_deleted;
  return element("article", { class: "record" },
    element("div", { class: "head" }, element("p", { class: "place" }, "version ", element("b", {}, row.version), ", id ", element("b", {}, row.id), `, ${row.type}`, isPermanent ? ", deleted" : ""),
      element("button", { type: "button", disabled: isReadOnly, "aria-label": `${isPermanent ? "Delete permanently" : "Delete"}: version ${row.version}`, onclick: () => deleteDialog(subject, row.version, isPermanent) }, isPermanent ? "Delete permanently" : "Delete")),
    row.references.length ? element("p", { class: "size" }, "refers to ", name(row.references.join("; "))) : null,
    element("pre", { class: "content schema", dir: "ltr" }, visible(row.is_cut ? row.schema : readable(row.schema))),
    row.is_cut ? element("p", { class: "size" }, `the beginning, ${bytes(row.schema.length)}`) : null);
}

async function showOne(main, subject, isReadOnly) {
  const shown = await ask(`/api/schemas/versions?subject=${encodeURIComponent(subject)}`);
  const [latest] = shown.versions;
  const isPermanent = shown.versions.every((row) => row.is_deleted);
  const button = (title, act) => element("button", { type: "button", disabled: isReadOnly, onclick: act }, title);
  replace(main, element("div", { class: "head" }, element("h1", {}, name(subject)), element("a", { href: "/schemas" }, "All schemas")),
    element("p", { class: "lead" }, `${plural(shown.count, "version")}; new schemas must be ${shown.level} compatible${shown.has_own_level ? "" : ", like all subjects without their own level"}.`),
    element("div", { class: "buttons" }, button("Register a version", () => registerDialog(subject, latest.type, latest.is_cut ? "" : readable(latest.schema))),
      button("Set compatibility", () => levelDialog(shown, subject)),
      button(isPermanent ? "Delete the subject permanently" : "Delete the subject", () => deleteDialog(subject, undefined, isPermanent))),
    element("section", { class: "card" }, element("h2", {}, "Versions"), shown.versions.map((row) => versionView(subject, row, isReadOnly)),
      shown.count > shown.versions.length ? none(`The latest ${shown.versions.length} of ${count(shown.count)}.`) : null));
}

export async function show(main, broker) {
  const subject = new URLSearchParams(location.search).get("subject");
  await (subject === null ? showAll(main, broker.is_read_only) : showOne(main, subject, broker.is_read_only));
}
