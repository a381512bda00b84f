// One confirmation before anything is changed: a form, or a question, that tells why it was refused.

import { element } from "./dom.js";

// `fields` are labels with their inputs; `act` does it, and its error is shown while the dialog stays.
export function confirm(title, fields, verb, act, isDanger = false) {
  const told = element("p", { class: "error", role: "alert" });
  const submit = element("button", { class: isDanger ? "danger" : "main" }, verb);
  const dialog = element("dialog", { "aria-labelledby": "dialog-title" }, element("form", { onsubmit: async (event) => {
    event.preventDefault();
    submit.disabled = true;
    try {
      await act();
      dialog.close();
    } catch (error) {
      told.textContent = error.message;
      submit.disabled = false;
    }
  } },
  element("h2", { id: "dialog-title" }, title),
  fields.map(([label, input]) => (input === undefined ? element("p", {}, label) : element("label", {}, label, input))), told,
  element("div", { class: "buttons" }, submit, element("button", { type: "button", onclick: () => dialog.close() }, "Cancel"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

export function input(attributes = {}) {
  return element("input", { autocomplete: "off", ...attributes });
}

// Lines of name=value as an object.
export function pairs(text) {
  const found = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`${line}: write name=value`);
    found[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return found;
}

export function number(text) {
  const wanted = text.trim();
  if (wanted === "") return null;
  if (!/^\d+$/.test(wanted)) throw new Error(`${wanted} is no whole number`);
  return Number(wanted);
}
