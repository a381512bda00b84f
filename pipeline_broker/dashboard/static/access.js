// Who may do what, and how much: rules of access, users with a password, quotas. They are shown, not changed.

import { element, name, none, replace, table } from "./dom.js";
import { ask } from "./live.js";

const column = (field) => ({ title: field, by: (each) => each[field], cell: (each) => name(String(each[field])) });

const SECTIONS = [
  ["Rules of access", "acls", "There is no rule.", ["principal", "permission", "operation", "resource", "name", "pattern", "host"]],
  ["Users", "users", "No user has a password for SCRAM.", ["user", "mechanism", "iterations"]],
  ["Quotas", "quotas", "No quota is set.", ["of", "quota", "value"]],
];

function entity(found) {
  return Object.entries(found).map(([kind, named]) => `${kind} ${named ?? "(default)"}`).join(", ");
}

async function section([title, path, absent, fields]) {
  const { rows, is_cut, reason } = await ask(`/api/${path}`);
  const shown = rows.map((row) => (row.of ? { ...row, of: entity(row.of) } : row));
  const content = shown.length ? table(is_cut ? `The first ${shown.length}.` : "", fields.map(column), shown) : none(reason || absent);
  return element("section", { class: "card" }, element("h2", {}, title), content);
}

export async function show(main) {
  const sections = await Promise.all(SECTIONS.map(section));
  replace(main, element("h1", {}, "Access"),
    element("p", { class: "lead" }, "The commands acls, users and quotas change what is shown here."), sections);
}
