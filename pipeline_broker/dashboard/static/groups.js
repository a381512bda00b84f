// All groups; one of them with its members and lag, and the reset of its offsets while it is empty.

import { element, name, none, replace, table } from "./dom.js";
import { count } from "./format.js";
import { ask, change, repeat } from "./live.js";

const STATES = { Stable: "good", Empty: "", Dead: "bad", PreparingRebalance: "warn", CompletingRebalance: "warn", Assigning: "warn", Reconciling: "warn" };

function state(text) {
  return element("span", { class: `chip ${STATES[text] ?? ""}` }, text);
}

function link(group) {
  return element("a", { href: `/groups?group=${encodeURIComponent(group)}` }, name(group));
}

async function showAll(main) {
  const rows = element("div", { class: "card" });
  replace(main, element("h1", {}, "Groups"), rows);
  repeat(2, async () => {
    const shown = await ask("/api/groups");
    const byLag = [...shown.groups].sort((one, other) => (other.lag ?? -Infinity) - (one.lag ?? -Infinity) || one.group.localeCompare(other.group));
    replace(rows, byLag.length ? table(`${count(shown.count)} groups, the one that is furthest behind first.`, [
      { title: "group", cell: (group) => link(group.group) },
      { title: "kind", cell: (group) => group.type },
      { title: "state", cell: (group) => state(group.state) },
      { title: "members", number: true, cell: (group) => count(group.members) },
      { title: "lag", number: true, cell: (group) => count(group.lag) },
    ], byLag) : none("There is no group yet."));
  });
}

function assignment(member) {
  if (!member.assignment) return "–";
  return Object.entries(member.assignment).map(([topic, partitions]) => `${topic}: ${partitions.join(", ")}`).join("; ") || "nothing";
}

function resetDialog(group, shown, done) {
  const topics = [...new Set(shown.offsets.map((row) => row.topic))];
  const topic = element("select", {}, topics.map((each) => element("option", { value: each }, each)));
  const partition = element("input", { placeholder: "all", inputmode: "numeric", autocomplete: "off" });
  const to = element("select", {}, [["earliest", "the start"], ["latest", "the end"], ["offset", "an offset"], ["time", "a time (UTC)"]].map(([value, title]) => element("option", { value }, title)));
  const value = element("input", { autocomplete: "off" });
  const told = element("p", { class: "error", role: "alert" });
  const dialog = element("dialog", { "aria-labelledby": "reset-title" }, element("form", { onsubmit: async (event) => {
    event.preventDefault();
    try {
      const wanted = value.value.trim();
      const number = to.value === "time" && !/^\d+$/.test(wanted) ? Date.parse(`${wanted.replace(" ", "T")}Z`) : Number(wanted || 0);
      if (!Number.isSafeInteger(number)) throw new Error("that is no offset or time");
      await change("/api/group/offsets", { group, topic: topic.value, partition: partition.value.trim() ? Number(partition.value) : null, to: to.value, value: number });
      dialog.close();
      done();
    } catch (error) {
      told.textContent = error.message;
    }
  } },
  element("h2", { id: "reset-title" }, "Reset offsets of ", name(group)),
  element("label", {}, "topic", topic), element("label", {}, "partition", partition), element("label", {}, "go on at", to),
  element("label", {}, "offset or time", value), told,
  element("div", { class: "buttons" }, element("button", { class: "main" }, "Reset"),
    element("button", { type: "button", onclick: () => dialog.close() }, "Cancel"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

async function showOne(main, group) {
  const facts = element("p", { class: "lead" });
  const members = element("div");
  const offsets = element("div");
  let shown = null;
  const reset = element("button", { type: "button", onclick: () => resetDialog(group, shown, look) }, "Reset offsets");
  async function look() {
    shown = await ask(`/api/group?group=${encodeURIComponent(group)}`);
    replace(facts, `${shown.type}, `, state(shown.state), ` lag ${count(shown.lag)}`);
    reset.disabled = !shown.may_reset || !shown.offsets.length;
    reset.title = shown.may_reset ? "" : "only while the group has no members";
    replace(members, shown.members.length ? table("", [
      { title: "member", cell: (member) => name(member.member) },
      { title: "client", cell: (member) => name(member.client) },
      { title: "host", cell: (member) => name(member.host) },
      { title: "instance", cell: (member) => (member.instance === null ? "–" : name(member.instance)) },
      { title: "assigned", cell: (member) => name(assignment(member)) },
    ], shown.members) : none("The group has no members."));
    replace(offsets, shown.offsets.length ? table("", [
      { title: "topic", cell: (row) => element("a", { href: `/topics/${encodeURIComponent(row.topic)}` }, row.topic) },
      { title: "partition", cell: (row) => row.partition },
      { title: "committed", number: true, cell: (row) => count(row.committed) },
      { title: "end", number: true, cell: (row) => count(row.end) },
      { title: "lag", number: true, cell: (row) => count(row.lag) },
    ], shown.offsets) : none("The group has committed nothing and is assigned nothing."));
  }
  replace(main, element("div", { class: "head" }, element("h1", {}, name(group)), element("a", { href: "/groups" }, "All groups")), facts,
    element("section", { class: "card" }, element("div", { class: "head" }, element("h2", {}, "Offsets"), reset), offsets),
    element("section", { class: "card" }, element("h2", {}, "Members"), members));
  repeat(2, look);
}

export async function show(main) {
  const group = new URLSearchParams(location.search).get("group");
  await (group === null ? showAll(main) : showOne(main, group));
}
