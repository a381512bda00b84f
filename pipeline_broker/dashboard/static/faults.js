// Fault rules: what they did, whom they hold, and making, releasing and removing them; groups that are disturbed.

import { element, name, none, replace, table, visible } from "./dom.js";
import { count, duration, plural } from "./format.js";
import { ask, change, repeat } from "./live.js";
import { RuleForm } from "./fault_form.js";

function act(action, content, told) {
  return change(`/api/faults/${action}`, content).then((answer) => {
    say(told, "");
    return answer;
  }, (error) => {
    say(told, error.message, "error");
    return null;
  });
}

function say(told, text, kind = "ok") {
  told.className = kind;
  told.textContent = text;
}

// One rule. It is made once and then changed in place, so that neither focus nor click is lost when counts move.
class RuleView {
  constructor(rule, look, told) {
    const number = rule.number;
    this.struck = element("b");
    this.facts = element("p", { class: "facts" });
    this.held = element("div", { class: "held" });
    this.release = element("button", { type: "button", "aria-label": `Release what rule ${number} holds`, onclick: async () => {
      const answer = await act("release", { number }, told);
      if (answer) say(told, answer.released ? `Rule ${number} let go on whom it held.` : `Rule ${number} held nobody.`);
      look();
    } }, "Release");
    const remove = element("button", { type: "button", "aria-label": `Remove rule ${number}`, onclick: async () => {
      if (await act("remove", { number }, told)) say(told, `Rule ${number} is removed.`);
      look();
    } }, "Remove");
    this.node = element("li", { class: "rule" },
      element("div", { class: "head" },
        element("p", { class: "what" }, element("span", { class: "size" }, `${number}`), " ", name(rule.about), rule.chosen ? [" ", element("span", { class: "size" }, rule.chosen)] : null, ": ", element("b", {}, visible(rule.effect))),
        element("div", { class: "buttons" }, this.release, remove)),
      this.facts, this.held);
    replace(this.facts, this.struck, " of ", this.matched = element("span"), ` that it was about, from the ${rule.origin}, `,
      rule.deterministic ? "deterministic" : element("span", { class: "warn" }, "not deterministic"));
    this.release.hidden = !rule.can_hold;
  }

  show(rule) {
    this.struck.textContent = `struck ${count(rule.hits)}`;
    this.matched.textContent = count(rule.matched);
    this.release.disabled = !rule.holds && !rule.holds_commits;
    const still = [
      rule.holds_commits ? "The journal stands still: nobody's records become durable." : "",
      rule.queues ? `${plural(rule.queues, "queue")} held: nothing in it is started.` : "",
      rule.files ? `${plural(rule.files, "operation")} on files held.` : "",
    ].filter((each) => each).join(" ");
    const requests = rule.holds - rule.queues - rule.files;
    const caption = `${plural(requests, "request")} held${rule.requests.length < requests ? `, the first ${rule.requests.length}` : ""}.`;
    replace(this.held, still ? element("p", { class: "notice" }, still) : null,
      rule.requests.length ? table(caption, [
        { title: "connection", number: true, cell: (held) => held.connection },
        { title: "from", class: "wide", cell: (held) => name(held.peer) },
        { title: "request", cell: (held) => held.api },
        { title: "here for", number: true, cell: (held) => duration(held.since_ms * 1000) },
        { title: "goes on", cell: (held) => (held.due_in_ms === null ? "on release" : `in ${duration(held.due_in_ms * 1000)}`) },
      ], rule.requests) : null);
  }
}

class RuleList {
  constructor() {
    this.views = new Map();
    this.turns = 0;
    this.told = element("p", { role: "status" });
    this.list = element("ol", { class: "rules" });
    this.empty = none("There is no rule: every request is handled as always.");
    this.sum = element("p", { class: "size" });
    this.clear = element("button", { type: "button", onclick: async () => {
      const answer = await act("clear", {}, this.told);
      if (answer) say(this.told, `${count(answer.removed)} removed.`);
      this.look();
    } }, "Remove all");
    this.node = element("section", { class: "card" },
      element("div", { class: "head" }, element("h2", {}, "Rules"), this.clear), this.told, this.sum, this.empty, this.list);
  }

  async look() {
    const turn = ++this.turns;
    const shown = await ask("/api/faults");
    if (turn === this.turns) this.draw(shown); // an answer that was overtaken is older than what is seen
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
        const view = new RuleView(rule, () => this.look(), this.told);
        this.views.set(rule.number, view);
        this.list.append(view.node);
      }
      this.views.get(rule.number).show(rule);
    }
    this.empty.hidden = shown.count > 0;
    this.clear.disabled = shown.count === 0;
    this.sum.textContent = shown.count > shown.rules.length ? `${count(shown.count)} rules, the first ${count(shown.rules.length)}.` : "";
  }
}

function groupControls() {
  const told = element("p", { role: "status" });
  const groups = element("datalist", { id: "groups" });
  const group = element("input", { name: "disturbed", list: "groups", autocomplete: "off", required: true });
  const member = element("input", { name: "member", placeholder: "all", autocomplete: "off" });
  async function expire() {
    const wanted = { group: group.value, member: member.value || null };
    if (await act("expire", wanted, told)) say(told, member.value ? "The member is out." : "All members are out.");
  }
  async function rebalance() {
    if (await act("rebalance", { group: group.value }, told)) say(told, "The members join again.");
  }
  repeat(5, async () => {
    const shown = await ask("/api/groups");
    replace(groups, shown.groups.filter((each) => !each.is_empty).map((each) => element("option", { value: each.group })));
  });
  return element("section", { class: "card" }, element("h2", {}, "Groups"),
    element("form", { class: "filters", onsubmit: (event) => { event.preventDefault(); (event.submitter?.value === "rebalance" ? rebalance : expire)(); } },
      element("label", {}, "group", group, groups), element("label", {}, "member to expire", member),
      element("div", { class: "buttons" }, element("button", { value: "expire" }, "Expire"), element("button", { value: "rebalance" }, "Rebalance"))),
    told);
}

export async function show(main, broker) {
  const rules = new RuleList();
  const [shown, choices] = await Promise.all([rules.look(), ask("/api/faults/choices")]);
  const form = new RuleForm(choices, { ...shown, data: broker.data }, async (texts) => {
    const made = await change("/api/faults/add", { arguments: texts });
    rules.look();
    return made;
  });
  replace(main, element("h1", {}, "Fault rules"),
    element("p", { class: "lead" }, "Have this broker misbehave on purpose, to try clients. Rules count from the next request on and live as long as the process."),
    shown.takes_files ? null : element("p", { class: "notice" }, "The files of this broker take no fault rules: rules about files, and pauses of the commit, are off."),
    rules.node, form.node, groupControls());
  repeat(1, () => rules.look());
}
