// Confirmation dialogs for changes.

import { element } from "./dom.js";

// `fields` are labels, each with an input or alone. `act` makes the change; if it fails, the dialog stays and shows the error.
export function confirm(title, fields, verb, act, isDanger = false) {
  const status = element("p", { class: "error", role: "alert" });
  const submit = element("button", { class: isDanger ? "danger" : "main" }, verb);
  const dialog = element("dialog", { "aria-labelledby": "dialog-title" }, element("form", { onsubmit: async (event) => {
    event.preventDefault();
    submit.disabled = true;
    try {
      await act();
      dialog.close();
    } catch (error) {
      status.textContent = error.message;
      submit.disabled = false;
    }
  } },
  element("h2", { id: "dialog-title" }, title),
  fields.map(([label, input]) => (input === undefined ? element("p", {}, label) : input.type === "checkbox" ? element("label", { class: "check" }, input, label) : element("label", {}, label, input))), status,
  element("div", { class: "buttons" }, submit, element("button", { type: "button", onclick: () => dialog.close() }, "Cancel"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

export function input(attributes = {}) {
  return element("input", { autocomplete: "off", ...attributes });
}

// Parse lines of name=value into an object.
export function pairs(text) {
  const found = [];
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`"${line}" is not of the form name=value`);
    found.push([line.slice(0, at).trim(), line.slice(at + 1).trim()]);
  }
  return found;
}

export function number(text) {
  const wanted = text.trim();
  if (wanted === "") return null;
  if (!/^\d+$/.test(wanted)) throw new Error(`"${wanted}" is not a whole number of 0 or more`);
  return Number(wanted);
}

export function options(values) {
  return values.map((value) => element("option", { value }, value));
}

export function choose(values, value = values[0], isFixed = false) {
  const made = element("select", { disabled: isFixed }, options(values));
  made.value = value;
  return made;
}
