// Access control, read-only: ACLs, SCRAM users, quotas, failed logins and denials.

import { element, name, none, replace, table } from "./dom.js";
import { count, moment } from "./format.js";
import { ask, repeat } from "./live.js";

const column = (field) => ({ title: field, by: (each) => each[field], cell: (each) => name(String(each[field])) });

const SECTIONS = [
  ["ACLs", "acls", "No ACLs.", ["principal", "permission", "operation", "resource", "name", "pattern", "host"]],
  ["Users", "users", "No users with SCRAM credentials.", ["user", "mechanism", "iterations"]],
  ["Quotas", "quotas", "No quotas.", ["of", "quota", "value"]],
];

const PLACES = ["from", "listener"];
const REFUSED = [
  ["Failed logins", "logins", "No failed logins.", [["listener", "mechanism"], ["from", "listener", "mechanism", ["user", "name"], "reason"]]],
  ["Denials", "denials", "No denied requests.", [["operation", "resource"], ["principal", "from", "operation", "resource", "name"]]],
];

function entity(found) {
  return Object.entries(found).map(([kind, named]) => `${kind} ${named ?? "(default)"}`).join(", ");
}

async function section([title, path, absent, fields]) {
  const { rows, is_cut, reason } = await ask(`/api/${path}`);
  const shown = rows.map((row) => (row.of ? { ...row, of: entity(row.of) } : row));
  const content = shown.length ? table(is_cut ? `The first ${shown.length} entries.` : "", fields.map(column), shown) : none(reason || absent);
  return element("section", { class: "card" }, element("h2", {}, title), content);
}

// Counts by kind include all refusals. Single rows are the newest ones.
function refusals([title, path, absent, [kinds, fields]], { reason, [path]: shown }) {
  const number = { title: "count", number: true, by: (each) => each.count, cell: (each) => count(each.count) };
  const last = { title: "last", by: (each) => each.last_ms, cell: (each) => moment(each.last_ms) };
  const parts = (named) => named.map((field) => (Array.isArray(field) ? field : [field, field])).map(([head, field]) => {
    const text = (each) => (field === "name" && each.is_sum ? "older names" : String(each[field]) || "–");
    return { title: head, class: PLACES.includes(field) ? "place" : null, by: text, cell: (each) => name(text(each)) };
  });
  const content = shown?.kinds.length ? [
    table("Counts since the broker's startup.", [...parts(kinds), number], shown.kinds),
    table(`The newest entries are first.${shown.left_out ? ` ${count(shown.left_out)} older refusals are not listed.` : ""}`, [...parts(fields), number, last], shown.rows),
  ] : [none(reason || absent)];
  return element("section", { class: "card" }, element("h2", {}, title), content);
}

export async function show(main) {
  const sections = await Promise.all(SECTIONS.map(section));
  const refused = element("div");
  replace(main, element("h1", {}, "Access"),
    element("p", { class: "lead" }, "To change these entries, use the commands acls, users and quotas."), sections, refused);
  async function look() {
    const shown = await ask("/api/refusals");
    replace(refused, REFUSED.map((each) => refusals(each, shown)));
    return shown.reason;
  }
  if (!await look()) repeat(5, look); // without the right, ask only once: each refusal counts as another denial
}
