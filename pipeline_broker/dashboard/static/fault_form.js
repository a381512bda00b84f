// The form for a new fault rule. Its fields become NAME=VALUE texts, the arguments of `pipeline-broker faults add`.

import { element, replace, visible } from "./dom.js";

const MOMENTS = [["before", "before handling"], ["after", "after handling"]];
const REQUEST_EFFECTS = [
  ["error", "answer with an error"], ["delay", "delay the response"], ["drop", "never answer"], ["disconnect", "close the connection"],
  ["partial_write", "send part of the response"], ["corrupt_crc", "corrupt the checksum of batches"], ["throttle", "throttle the client"],
  ["pause", "pause until released"],
];
const FILE_EFFECTS = [["error", "fail"], ["delay", "delay the start"], ["pause", "pause until released"], ["crash", "end the process, like a power failure"]];
const FREQUENCIES = [["", "all"], ["nth", "only the nth"], ["every", "every nth"], ["p", "at random"]];
const STAGES = { queue: "in its queue", commit: "before the commit", response_order: "before the response" };
const FLAGS = new Set(["drop", "corrupt_crc", "crash"]);

function select(label, options) {
  return element("select", { name: label }, options.map(([value, title]) => element("option", { value }, title ?? value)));
}

function input(label, placeholder, attributes = {}) {
  return element("input", { name: label, placeholder, autocomplete: "off", maxlength: 512, ...attributes });
}

// Quote an argument for a shell.
function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

export class RuleForm {
  constructor(choices, broker, add) {
    this.add = add;
    this.data = broker.data;
    const names = (list) => list.map((each) => [each]);
    const number = { inputmode: "numeric" };
    this.fields = {
      about: select("about", broker.takes_files ? [["api", "requests"], ["disk", "files"]] : [["api", "requests"]]),
      api: select("api", names(choices.apis)),
      topic: input("topic", "any"),
      partition: input("partition", "any", number),
      client_id: input("client_id", "any"),
      group: input("group", "any"),
      disk: select("disk", names(choices.operations)),
      path: input("path", "the journal"),
      frequency: select("frequency", FREQUENCIES),
      n: input("n", "2", number),
      p: input("p", "0.1", { inputmode: "decimal" }),
      seed: input("seed", "random", number),
      times: input("times", "no limit", number),
      effect: select("effect", REQUEST_EFFECTS),
      file_effect: select("file_effect", broker.can_crash ? FILE_EFFECTS : FILE_EFFECTS.slice(0, -1)),
      error: select("error", names(choices.errors)),
      system_error: select("system_error", names(choices.system_errors)),
      when: select("when", MOMENTS),
      time: input("time", "250ms"),
      bytes: input("bytes", "5", number),
      stage: select("stage", choices.stages.filter((each) => broker.takes_files || each !== "commit").map((each) => [each, STAGES[each]])),
    };
    this.fields.api.value = "Produce";
    this.fields.error.value = "NOT_LEADER_OR_FOLLOWER";
    this.fields.system_error.value = "EIO";
    this.labels = Object.fromEntries(Object.entries(this.titles()).map(([key, title]) => [key, element("label", {}, title, this.fields[key])]));
    this.command = element("code", { class: "content", dir: "ltr" });
    this.status = element("p", { role: "status" });
    const form = element("form", { onsubmit: (event) => { event.preventDefault(); this.submit(); } },
      Object.keys(PARTS).map((part) => element("fieldset", { class: "filters" }, element("legend", {}, part), PARTS[part].map((key) => this.labels[key]))),
      element("p", { class: "size" }, "Command: ", this.command),
      element("div", { class: "buttons" }, element("button", { class: "main", disabled: broker.is_read_only }, "Add the rule")), this.status);
    form.addEventListener("input", () => this.draw());
    this.node = element("section", { class: "card" }, element("h2", {}, "Add a rule"), form);
    this.draw();
  }

  titles() {
    return {
      about: "about", api: "request", topic: "topic", partition: "partition", client_id: "client id", group: "group", disk: "operation", path: "path",
      frequency: "which", n: "n", p: "probability", seed: "seed", times: "at most", effect: "effect", file_effect: "effect",
      error: "error", system_error: "error", when: "when", time: "time", bytes: "bytes", stage: "stage",
    };
  }

  // The selected effect, and the fields that it needs.
  effect() {
    const isFile = this.fields.about.value === "disk";
    const effect = (isFile ? this.fields.file_effect : this.fields.effect).value;
    const needed = { error: isFile ? ["system_error"] : ["error", "when"], delay: ["time"], throttle: ["time"], disconnect: ["when"], partial_write: ["bytes"], pause: isFile ? [] : ["stage"] };
    return [isFile, effect, needed[effect] ?? []];
  }

  wanted() {
    const [isFile, , needed] = this.effect();
    const frequency = this.fields.frequency.value;
    const which = { nth: ["n"], every: ["n", "times"], p: ["p", "seed", "times"] }[frequency] ?? ["times"];
    return new Set(["about", ...(isFile ? ["disk", "path", "file_effect"] : ["api", "topic", "partition", "client_id", "group", "effect"]), "frequency", ...which, ...needed]);
  }

  texts() {
    const [isFile, effect] = this.effect();
    const wanted = this.wanted();
    const value = (key) => (wanted.has(key) ? this.fields[key].value.trim() : "");
    const found = [];
    const put = (key, text) => { if (text !== "") found.push(`${key}=${text}`); };
    for (const key of ["api", "disk", "topic", "partition", "client_id", "group", "path"]) put(key, value(key));
    const frequency = this.fields.frequency.value;
    if (frequency) put(frequency, value(frequency === "p" ? "p" : "n") || this.fields[frequency === "p" ? "p" : "n"].placeholder);
    put("seed", value("seed"));
    put("times", value("times"));
    if (FLAGS.has(effect) || (isFile && effect === "pause")) found.push(effect);
    else if (effect === "error") put("error", value("error") || value("system_error"));
    else if (effect === "disconnect") put("disconnect", value("when"));
    else if (effect === "pause") put("pause", value("stage"));
    else put(effect, value("time") || value("bytes") || (effect === "partial_write" ? this.fields.bytes : this.fields.time).placeholder);
    if (effect === "error" && value("when") === "after") put("when", "after");
    return found;
  }

  draw() {
    const wanted = this.wanted();
    for (const [key, label] of Object.entries(this.labels)) label.hidden = !wanted.has(key);
    replace(this.command, visible(["pipeline-broker faults add --data", ...[this.data, ...this.texts()].map(quoted)].join(" ")));
  }

  async submit() {
    try {
      const made = await this.add(this.texts());
      this.status.className = "ok";
      this.status.textContent = `Rule ${made.number} is active.`;
    } catch (error) {
      this.status.className = "error";
      this.status.textContent = error.message;
    }
  }
}

const PARTS = {
  Condition: ["about", "api", "topic", "partition", "client_id", "group", "disk", "path"],
  Choice: ["frequency", "n", "p", "seed", "times"],
  Effect: ["effect", "file_effect", "error", "system_error", "when", "time", "bytes", "stage"],
};
