// Access control: ACLs, SCRAM users and quotas with their changes, failed logins and denials.

import { choose, confirm, input, options } from "./dialog.js";
import { element, filter, name, none, replace, table } from "./dom.js";
import { count, moment } from "./format.js";
import { ask, change, repeat } from "./live.js";

const CLUSTER = "kafka-cluster";
const MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"];
const OF_CLIENTS = ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"];
const OF_ADDRESSES = ["connection_creation_rate"];
const ENTITIES = ["user", "client-id", "ip"];

const NUMBERS = ["iterations", "value"];
const UNITS = { producer_byte_rate: "bytes/s", consumer_byte_rate: "bytes/s", request_percentage: "%", controller_mutation_rate: "changes/s", connection_creation_rate: "connections/s" };
const shownAs = (each, field) => (field === "value" ? `${each.value} ${UNITS[each.quota] ?? ""}` : String(each[field]));
const column = (field) => ({ title: field, number: NUMBERS.includes(field), by: (each) => each[field], cell: (each) => name(shownAs(each, field)) });

async function changed(path, content) {
  await change(`/api/changes/${path}`, content);
  location.reload();
}

async function addRule() {
  const choices = await ask("/api/acls/choices");
  const fields = {
    permission: choose(["ALLOW", "DENY"]), principal: input({ required: true, placeholder: "User:alice, or User:*" }),
    resource: choose(Object.keys(choices)), pattern: choose(["LITERAL", "PREFIXED"]), name: input({ required: true, placeholder: "* for all" }),
    operation: choose(choices.TOPIC), host: input({ required: true, value: "*" }),
  };
  fields.resource.addEventListener("change", () => {
    const isCluster = fields.resource.value === "CLUSTER";
    replace(fields.operation, options(choices[fields.resource.value]));
    fields.name.disabled = fields.pattern.disabled = isCluster;
    if (isCluster) [fields.name.value, fields.pattern.value] = [CLUSTER, "LITERAL"];
    else if (fields.name.value === CLUSTER) fields.name.value = "";
  });
  confirm("Add an ACL", Object.entries(fields), "Add", () => changed("create-acl", Object.fromEntries(Object.entries(fields).map(([field, each]) => [field, each.value]))));
}

function deleteRule(rule) {
  const text = `${rule.permission} ${rule.principal} ${rule.operation} on ${rule.resource} ${rule.name} (${rule.pattern}) from ${rule.host}`;
  confirm("Delete an ACL", [[name(text)], ["Requests that arrive from now are decided without it."]], "Delete", () => changed("delete-acl", rule), true);
}

function setPassword(row) {
  const user = input({ required: true, value: row?.user, readonly: row !== undefined });
  const mechanism = choose(MECHANISMS, row?.mechanism);
  const [password, again] = [0, 1].map(() => input({ type: "password", required: true, autocomplete: "new-password" }));
  confirm(row ? "Set a password" : "Create a user", [["user", user], ["mechanism", mechanism], ["password", password], ["password, again", again]], row ? "Set" : "Create", async () => {
    if (password.value !== again.value) throw new Error("the two passwords differ");
    await changed("set-password", { user: user.value, mechanism: mechanism.value, password: password.value });
  });
}

function deletePassword({ user, mechanism }) {
  confirm(["Delete the password of ", name(user)], [[`The user can then not log in by ${mechanism}. Open connections stay open.`]], "Delete", () => changed("delete-password", { user, mechanism }), true);
}

function setQuota(row) {
  const given = Object.fromEntries(ENTITIES.map((kind) => [kind, input({ placeholder: "none", value: row && kind in row.entity ? row.entity[kind] ?? "*" : null, disabled: row !== undefined })]));
  const quota = choose([...OF_CLIENTS, ...OF_ADDRESSES], row?.quota, row !== undefined);
  const value = input({ required: true, inputmode: "decimal", value: row?.value });
  const fields = [...Object.entries(given), ["A * stands for all others without a quota of their own."], ["quota", quota], ["value (bytes/s, percent, changes/s or connections/s)", value]];
  confirm(row ? "Change a quota" : "Set a quota", fields, "Set", async () => {
    const of = row?.entity ?? Object.fromEntries(Object.entries(given).filter(([, each]) => each.value).map(([kind, each]) => [kind, each.value === "*" ? null : each.value]));
    if (!Number.isFinite(Number(value.value))) throw new Error(`"${value.value}" is not a number`);
    await changed("set-quota", { of, quota: quota.value, value: Number(value.value) });
  });
}

function removeQuota({ entity, of, quota }) {
  confirm(["Remove ", quota, " of ", name(of)], [["The limit of the next less specific entity applies then, or none."]], "Remove", () => changed("set-quota", { of: entity, quota, value: null }), true);
}

// Title, path, text without entries, columns, and the changes: of the section, and of each row.
const SECTIONS = [
  ["ACLs", "acls", "No ACLs.", ["principal", "permission", "operation", "resource", "name", "pattern", "host"], ["Add an ACL", addRule], [["Delete", deleteRule]]],
  ["Users", "users", "No users with SCRAM credentials.", ["user", "mechanism", "iterations"], ["Create a user", setPassword], [["Set password", setPassword], ["Delete", deletePassword]]],
  ["Quotas", "quotas", "No quotas.", ["of", "quota", "value"], ["Set a quota", setQuota], [["Change", setQuota], ["Remove", removeQuota]]],
];

const PLACES = ["from", "listener", "host"];
const REFUSED = [
  ["Failed logins", "logins", "No failed logins.", [["listener", "mechanism"], ["from", "listener", "mechanism", ["user", "name"], "reason"]]],
  ["Denials", "denials", "No denied requests.", [["operation", "resource"], ["principal", "from", "operation", "resource", "name"]]],
];

function entityText(found) {
  return Object.entries(found).map(([kind, named]) => `${kind} ${named ?? "(default)"}`).join(", ");
}

function buttons(row, fields, actions) {
  const what = fields.slice(0, 3).map((field) => row[field]).join(" ");
  return element("div", { class: "buttons" }, actions.map(([text, act]) => element("button", { type: "button", "aria-label": `${text}: ${what}`, onclick: () => act(row) }, text)));
}

async function section([title, path, absent, fields, [addText, add], actions], isReadOnly) {
  const { rows, is_cut, reason } = await ask(`/api/${path}`);
  const shown = rows.map((row) => (row.of ? { ...row, entity: row.of, of: entityText(row.of) } : row));
  const columns = fields.map(column);
  if (!isReadOnly) columns.push({ title: "change", cell: (row) => buttons(row, fields, actions) });
  const content = element("div");
  function draw() {
    const wanted = shown.filter((row) => named.has(...fields.map((field) => row[field])));
    replace(content, wanted.length ? table(is_cut ? `The first ${shown.length} entries.` : "", columns, wanted) : none(shown.length ? `No matching ${title === "ACLs" ? title : title.toLowerCase()}.` : reason || absent));
  }
  const named = filter("any field contains", draw);
  draw();
  return element("section", { class: "card" }, element("div", { class: "head" }, element("h2", {}, title),
    element("button", { type: "button", disabled: isReadOnly, onclick: () => add() }, addText)), shown.length ? named.form : null, content);
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

export async function show(main, broker) {
  const sections = await Promise.all(SECTIONS.map((each) => section(each, broker.is_read_only)));
  const refused = element("div");
  replace(main, element("h1", {}, "Access"), sections, refused);
  async function look() {
    const shown = await ask("/api/refusals");
    replace(refused, REFUSED.map((each) => refusals(each, shown)));
    return shown.reason;
  }
  if (!await look()) repeat(5, look); // without the right, ask only once: each refusal counts as another denial
}
