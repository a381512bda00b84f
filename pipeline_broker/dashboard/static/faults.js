// Fault rules: their counts, held requests, creation, release and removal; and faults of groups.

import { element, name, none, replace, table, visible } from "./dom.js";
import { count, duration, plural } from "./format.js";
import { ask, change, repeat } from "./live.js";
import { RuleForm } from "./fault_form.js";

function act(action, content, status) {
  return change(`/api/faults/${action}`, content).then((answer) => {
    say(status, "");
    return answer;
  }, (error) => {
    say(status, error.message, "error");
    return null;
  });
}

function say(status, text, kind = "ok") {
  status.className = kind;
  status.textContent = text;
}

// One rule. Its elements are created once and updated in place, so that a changed count does not lose focus or a click.
class RuleView {
  constructor(rule, look, status, isReadOnly) {
    const number = rule.number;
    this.struck = element("b");
    this.facts = element("p", { class: "facts" });
    this.held = element("div", { class: "held" });
    this.release = element("button", { type: "button", "aria-label": `Release everything that rule ${number} holds`, onclick: async () => {
      const answer = await act("release", { number }, status);
      if (answer) say(status, answer.released ? `Rule ${number} released everything it held.` : `Rule ${number} held nothing.`);
      look();
    } }, "Release");
    const remove = element("button", { type: "button", "aria-label": `Remove rule ${number}`, disabled: isReadOnly, onclick: async () => {
      if (await act("remove", { number }, status)) say(status, `Rule ${number} was removed.`);
      look();
    } }, "Remove");
    this.node = element("li", { class: "rule" },
      element("div", { class: "head" },
        element("p", { class: "what" }, element("span", { class: "size" }, `${number}`), " ", name(rule.about), rule.chosen ? [" ", element("span", { class: "size" }, rule.chosen)] : null, ": ", element("b", {}, visible(rule.effect))),
        element("div", { class: "buttons" }, this.release, remove)),
      this.facts, this.held);
    replace(this.facts, this.struck, " of ", this.matched = element("span"), ` matches, from the ${rule.origin}, `,
      rule.deterministic ? "deterministic" : element("span", { class: "warn" }, "not deterministic"));
    this.release.hidden = !rule.can_hold;
    this.isReadOnly = isReadOnly;
  }

  show(rule) {
    this.struck.textContent = `struck ${count(rule.hits)}`;
    this.matched.textContent = count(rule.matched);
    this.release.disabled = this.isReadOnly || !rule.holds && !rule.holds_commits;
    const still = [
      rule.holds_commits ? "The rule holds journal writes: no record becomes durable." : "",
      rule.queues ? `The rule holds ${plural(rule.queues, "queue")}: handlers take no requests from ${rule.queues === 1 ? "it" : "them"}.` : "",
      rule.files ? `The rule holds ${plural(rule.files, "file operation")}.` : "",
    ].filter((each) => each).join(" ");
    const requests = rule.holds - rule.queues - rule.files;
    const caption = `The rule holds ${plural(requests, "request")}${rule.requests.length < requests ? `. The first ${rule.requests.length} are listed` : ""}.`;
    replace(this.held, still ? element("p", { class: "notice" }, still) : null,
      rule.requests.length ? table(caption, [
        { title: "connection", number: true, cell: (held) => held.connection },
        { title: "from", cell: (held) => name(held.peer) },
        { title: "request", cell: (held) => held.api },
        { title: "age", number: true, cell: (held) => duration(held.since_ms * 1000) },
        { title: "continues", cell: (held) => (held.due_in_ms === null ? "on release" : `in ${duration(held.due_in_ms * 1000)}`) },
      ], rule.requests) : null);
  }
}

class RuleList {
  constructor(isReadOnly) {
    this.isReadOnly = isReadOnly;
    this.views = new Map();
    this.turns = 0;
    this.status = element("p", { role: "status" });
    this.list = element("ol", { class: "rules" });
    this.empty = none("No rules. The broker handles all requests normally.");
    this.sum = element("p", { class: "size" });
    this.clear = element("button", { type: "button", onclick: async () => {
      const answer = await act("clear", {}, this.status);
      if (answer) say(this.status, `Removed ${plural(answer.removed, "rule")}.`);
      this.look();
    } }, "Remove all");
    this.node = element("section", { class: "card" },
      element("div", { class: "head" }, element("h2", {}, "Rules"), this.clear), this.status, this.sum, this.empty, this.list);
  }

  async look() {
    const turn = ++this.turns;
    const shown = await ask("/api/faults");
    if (turn === this.turns) this.draw(shown); // a later request has been answered already
    return shown;
  }

  draw(shown) {
    const seen = new Set(shown.rules.map((rule) => rule.number));
    for (const [number, view] of this.views) {
      if (seen.has(number)) continue;
      view.node.remove();
      this.views.delete(number);
    }
    for (const rule of shown.rules) {
      if (!this.views.has(rule.number)) {
        const view = new RuleView(rule, () => this.look(), this.status, this.isReadOnly);
        this.views.set(rule.number, view);
        this.list.append(view.node);
      }
      this.views.get(rule.number).show(rule);
    }
    this.empty.hidden = shown.count > 0;
    this.clear.disabled = this.isReadOnly || shown.count === 0;
    this.sum.textContent = shown.count > shown.rules.length ? `The first ${count(shown.rules.length)} of ${count(shown.count)} rules.` : "";
  }
}

function groupControls(isReadOnly) {
  const status = element("p", { role: "status" });
  const groups = element("datalist", { id: "groups" });
  const group = element("input", { name: "disturbed", list: "groups", autocomplete: "off", required: true });
  const member = element("input", { name: "member", placeholder: "all", autocomplete: "off" });
  async function expire() {
    const wanted = { group: group.value, member: member.value || null };
    if (await act("expire", wanted, status)) say(status, member.value ? "The member's session ended." : "The sessions of all members ended.");
  }
  async function rebalance() {
    if (await act("rebalance", { group: group.value }, status)) say(status, "The group rebalances.");
  }
  repeat(5, async () => {
    const shown = await ask("/api/groups");
    replace(groups, shown.groups.filter((each) => !each.is_empty).map((each) => element("option", { value: each.group })));
  });
  return element("section", { class: "card" }, element("h2", {}, "Groups"),
    element("form", { class: "filters", onsubmit: (event) => { event.preventDefault(); (event.submitter?.value === "rebalance" ? rebalance : expire)(); } },
      element("label", {}, "group", group, groups), element("label", {}, "member to expire", member),
      element("div", { class: "buttons" }, [["expire", "Expire"], ["rebalance", "Rebalance"]].map(([value, text]) => element("button", { value, disabled: isReadOnly }, text)))),
    status);
}

export async function show(main, broker) {
  const rules = new RuleList(broker.is_read_only);
  const [shown, choices] = await Promise.all([rules.look(), ask("/api/faults/choices")]);
  const form = new RuleForm(choices, { ...shown, data: broker.data, is_read_only: broker.is_read_only }, async (texts) => {
    const made = await change("/api/faults/add", { arguments: texts });
    rules.look();
    return made;
  });
  replace(main, element("h1", {}, "Fault rules"),
    element("p", { class: "lead" }, "Make this broker fail on purpose, to test clients. A rule applies from the next request and ends with the process."),
    shown.takes_files ? null : element("p", { class: "notice" }, "This broker does not support rules about files, or pauses of commits."),
    rules.node, form.node, groupControls(broker.is_read_only));
  repeat(1, () => rules.look());
}
