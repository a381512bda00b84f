// All groups, or one group with its members, offsets and lag. Offsets of an empty group can be reset.

import { confirm, input, number } from "./dialog.js";
import { Chart } from "./charts.js";
import { barred, element, filter, name, none, replace, table, word } from "./dom.js";
import { count, plural } from "./format.js";
import { ask, change, repeat } from "./live.js";

const STATES = { Stable: "good", Empty: "", Dead: "bad", PreparingRebalance: "warn", CompletingRebalance: "warn", NotReady: "warn", Assigning: "warn", Reconciling: "warn" };

function state(text) {
  return element("span", { class: `chip ${STATES[text] ?? ""}` }, text);
}

function link(group) {
  return element("a", { href: `/groups?group=${encodeURIComponent(group)}` }, name(group));
}

// A column with the lag as a number and a bar.
function lagColumn(rows) {
  const most = Math.max(1, ...rows.map((row) => row.lag ?? 0));
  return { title: "lag", word: "lag", number: true, by: (row) => row.lag, cell: (row) => barred(count(row.lag), row.lag ?? 0, most) };
}

// A chart of the lag over the last ten minutes, of one group or of all groups.
function lagChart(group) {
  const place = element("div");
  const absent = none("No lag is recorded yet. Every five seconds, the broker records the lag of the first groups by name: at most 200 groups with 2,000 offsets together.");
  const chart = new Chart(place, [{ label: "lag", colour: "--accent", value: count }], { label: "Lag" });
  const query = group === null ? "" : `?group=${encodeURIComponent(group)}`;
  const node = element("section", { class: "card" }, element("h2", {}, word("Lag", "lag")),
    element("p", { class: "lead" }, `The chart shows the lag ${group === null ? "of all groups together " : ""}over the last ten minutes. Times are UTC.`), absent, place);
  repeat(5, async () => {
    const { ages, lag, reason } = await ask(`/api/lags${query}`);
    if (reason) absent.textContent = reason;
    absent.hidden = ages.length > 0;
    chart.load(ages, lag);
  });
  return node;
}

async function showAll(main, broker) {
  const rows = element("div", { class: "card" });
  let shown = { count: 0, groups: [] };
  const named = filter("group contains", draw);
  replace(main, element("h1", {}, "Groups"), lagChart(null), named.form, rows);
  function draw() {
    const byLag = shown.groups.filter((group) => named.has(group.group)).sort((one, other) => (other.lag ?? -Infinity) - (one.lag ?? -Infinity) || one.group.localeCompare(other.group));
    replace(rows, byLag.length ? table(`${byLag.length < shown.count ? `${count(byLag.length)} of ` : ""}${plural(shown.count, "group")}, largest lag first.`, [
      { title: "group", by: (group) => group.group, cell: (group) => link(group.group) },
      { title: "type", by: (group) => group.type, cell: (group) => group.type },
      { title: "state", by: (group) => group.state, cell: (group) => state(group.state) },
      { title: "members", number: true, by: (group) => group.members, cell: (group) => count(group.members) },
      lagColumn(byLag),
    ], byLag) : none(shown.count ? "No matching groups." : broker.limited_to ? `No groups that ${broker.limited_to} may describe.` : "No groups yet."));
  }
  repeat(2, async () => {
    shown = await ask("/api/groups");
    draw();
  });
}

// Consecutive partitions as ranges, such as 0–2, 5.
function ranges(partitions) {
  const found = [];
  for (const each of [...partitions].sort((one, other) => one - other)) {
    if (found.length && found.at(-1)[1] === each - 1) found.at(-1)[1] = each;
    else found.push([each, each]);
  }
  return found.map(([first, last]) => (first === last ? first : `${first}–${last}`)).join(", ");
}

function assignment(member) {
  if (!member.assignment) return "–";
  const parts = Object.entries(member.assignment).map(([topic, partitions]) => `${topic}: ${ranges(partitions)}`);
  if (member.backup_tasks) parts.push(`standby and warm-up tasks: ${member.backup_tasks}`);
  return parts.join("; ") || "nothing";
}

function topicOf(shown) {
  const topics = [...new Set(shown.offsets.map((row) => row.topic))];
  return element("select", {}, topics.map((each) => element("option", { value: each }, each)));
}

function forgetDialog(group, shown, done) {
  const topic = topicOf(shown);
  confirm(["Delete offsets of ", name(group)], [["topic", topic], ["The group then reads this topic like a new group."]], "Delete", async () => {
    await change("/api/changes/delete-offsets", { group, topic: topic.value });
    done();
  }, true);
}

function resetDialog(group, shown, done) {
  const topic = topicOf(shown);
  const partition = input({ placeholder: "all", inputmode: "numeric" });
  const to = element("select", {}, [["earliest", "the start"], ["latest", "the end"], ["offset", "an offset"], ["time", "a time (UTC)"]].map(([value, title]) => element("option", { value }, title)));
  const value = input({ disabled: true });
  to.addEventListener("change", () => {
    value.disabled = !["offset", "time"].includes(to.value);
    value.placeholder = { offset: "0", time: "2026-01-31 12:00:00" }[to.value] ?? "";
  });
  confirm(["Reset offsets of ", name(group)], [["topic", topic], ["partition", partition], ["continue at", to], ["offset or time", value]], "Reset", async () => {
    const wanted = value.value.trim();
    const at = to.value === "time" && !/^\d+$/.test(wanted) ? Date.parse(`${wanted.replace(" ", "T")}Z`) : Number(wanted || 0);
    if (!Number.isSafeInteger(at)) throw new Error(`"${wanted}" is neither an offset nor a time; write a time as 2026-01-31 12:00:00`);
    await change("/api/group/offsets", { group, topic: topic.value, partition: number(partition.value), to: to.value, value: at });
    done();
  });
}

function deleteDialog(group) {
  confirm(["Delete ", name(group)], [["The group's committed offsets are deleted too."]], "Delete", async () => {
    await change("/api/changes/delete-group", { group });
    location.assign("/groups");
  }, true);
}

async function showOne(main, group, isReadOnly) {
  const facts = element("p", { class: "lead" });
  const members = element("div");
  const offsets = element("div");
  let shown = null;
  const reset = element("button", { type: "button", onclick: () => resetDialog(group, shown, look) }, "Reset offsets");
  const forget = element("button", { type: "button", onclick: () => forgetDialog(group, shown, look) }, "Delete offsets");
  const remove = element("button", { type: "button", onclick: () => deleteDialog(group) }, "Delete the group");
  const ofTopics = filter("topic contains", drawOffsets);
  function drawOffsets() {
    const wanted = shown.offsets.filter((row) => ofTopics.has(row.topic));
    replace(offsets, wanted.length ? table(shown.offsets_count > shown.offsets.length ? `The first ${count(shown.offsets.length)} of ${plural(shown.offsets_count, "partition")}.` : "", [
      { title: "topic", by: (row) => row.topic, cell: (row) => element("a", { href: `/topics/${encodeURIComponent(row.topic)}` }, name(row.topic)) },
      { title: "partition", number: true, by: (row) => row.partition, cell: (row) => row.partition },
      { title: "committed", number: true, by: (row) => row.committed, cell: (row) => count(row.committed) },
      { title: "end", word: "high watermark", number: true, by: (row) => row.end, cell: (row) => count(row.end) },
      lagColumn(shown.offsets),
    ], wanted) : none(shown.offsets.length ? "No matching topics." : "The group has no committed offsets and no assigned partitions."));
  }
  async function look() {
    shown = await ask(`/api/group?group=${encodeURIComponent(group)}`);
    replace(facts, `${shown.type}, `, state(shown.state), ` lag ${count(shown.lag)}`);
    reset.disabled = isReadOnly || !shown.may_reset || !shown.offsets.length;
    forget.disabled = isReadOnly || !shown.offsets.length || shown.type === "share";
    remove.disabled = isReadOnly || !shown.is_empty;
    reset.title = shown.may_reset ? "" : "The group must have no members and must not be a share group.";
    replace(members, shown.members.length ? table(shown.members_count > shown.members.length ? `The first ${count(shown.members.length)} of ${plural(shown.members_count, "member")}.` : "", [
      { title: "member", by: (member) => member.member, cell: (member) => name(member.member) },
      { title: "client", by: (member) => member.client, cell: (member) => name(member.client) },
      { title: "host", by: (member) => member.host, cell: (member) => name(member.host) },
      { title: "instance", cell: (member) => (member.instance === null ? "–" : name(member.instance)) },
      { title: "assigned", cell: (member) => name(assignment(member)) },
    ], shown.members) : none("The group has no members."));
    drawOffsets();
  }
  await look(); // fails for an unknown group, and the page shows the error
  replace(main, element("div", { class: "head" }, element("h1", {}, name(group)), element("a", { href: "/groups" }, "All groups")), facts, lagChart(group),
    element("section", { class: "card" }, element("div", { class: "head" }, element("h2", {}, "Offsets"), element("div", { class: "buttons" }, reset, forget, remove)), ofTopics.form, offsets),
    element("section", { class: "card" }, element("h2", {}, "Members"), members));
  repeat(2, look);
}

export async function show(main, broker) {
  const ofPath = location.pathname.slice("/groups/".length);
  const group = ofPath ? decodeURIComponent(ofPath) : new URLSearchParams(location.search).get("group");
  await (group === null ? showAll(main, broker) : showOne(main, group, broker.is_read_only));
}
