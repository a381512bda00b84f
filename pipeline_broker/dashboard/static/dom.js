// Elements from data. Strings become text nodes; nothing here parses markup, because names and records come from clients.

import { count } from "./format.js";
import { WORDS } from "./glossary.js";

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined).map(asNode));
  return made;
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

// Replace the children. A focused link or button passes the focus to its successor, so that elements that are redrawn
// every second can be used with the keyboard.
export function replace(parent, ...children) {
  const focused = parent.contains(document.activeElement) ? mark(document.activeElement) : null;
  parent.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined).map(asNode));
  if (focused !== null) [...parent.querySelectorAll("a, button")].find((each) => mark(each) === focused)?.focus({ preventScroll: true });
  return parent;
}

function mark(made) {
  return made.getAttribute("href") ?? made.getAttribute("aria-label") ?? made.textContent;
}

// Set variables of the style sheet through the object model: the content security policy forbids style attributes.
export function vary(made, variables) {
  for (const [name, value] of Object.entries(variables)) made.style.setProperty(`--${name}`, value);
  return made;
}

// Characters that are invisible or change the direction of text; `visible` shows their code points instead.
const CONTROLS = /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff])/;

export function visible(text) {
  return text.split(CONTROLS).map((part) => (part.length === 1 && CONTROLS.test(part)
    ? element("span", { class: "control" }, `U+${part.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`)
    : part));
}

// A name that a client chose; <bdi> isolates its direction from the text around it. A long one folds after its separators.
const FOLDS = /(?<=[./:@,=_])(?![\d/])|(?<=\/\/)/; // not in addresses and versions

export function name(text) {
  const parts = visible(text).flatMap((part) => (typeof part === "string" ? part.split(FOLDS).flatMap((each) => [each, element("wbr")]) : [part]));
  return element("bdi", { class: "name" }, parts);
}

// The sort column and direction of each table, and the first row of its page, which survive redraws.
const orders = new Map();
const starts = new Map();
const PAGE_ROWS = 100;

function compared(one, other) {
  if (one === other) return 0;
  if (one === null || one === undefined) return -1;
  if (other === null || other === undefined) return 1;
  return typeof one === "string" ? one.localeCompare(other) : one - other;
}

// A word with its meaning in the glossary as a tooltip.
export function word(text, entry = text) {
  return element("abbr", { title: WORDS[entry] }, text);
}

// A text on a bar whose length is the share of `value` in `most`.
export function barred(text, value, most) {
  return element("span", { class: "barred" }, vary(element("i"), { length: `${value > 0 ? (100 * value) / most : 0}%` }), text);
}

// On a narrow screen each row of a wide table is a block, in which `data-title` labels the cells. The roles keep it a table for
// screen readers.
const COLUMNS_MAX = 2;
const DENSE_COLUMNS = 6;

// Pressing the head of a column with `by`, which returns the sort key of a row, sorts the table; pressing it again reverses
// the order. A column with `word` shows that entry of the glossary as a tooltip. Rows after the first PAGE_ROWS are on further
// pages.
export function table(caption, columns, rows, attributes = {}) {
  const key = location.pathname + columns.map((column) => column.title).join();
  const box = element("div", { class: "scroll" });
  function sorted() {
    const order = orders.get(key);
    if (!order) return rows;
    const { by } = columns[order.place];
    return [...rows].sort((one, other) => order.way * compared(by(one), by(other)));
  }
  function head(column, place) {
    const order = orders.get(key);
    const way = order?.place === place ? order.way : 0;
    const press = () => {
      orders.set(key, { place, way: way ? -way : column.number ? -1 : 1 });
      turn(0);
    };
    return element("th", { scope: "col", role: columns.length > COLUMNS_MAX ? "columnheader" : null, class: column.number ? "number" : column.class, title: column.word ? WORDS[column.word] : null, "aria-sort": way ? (way > 0 ? "ascending" : "descending") : null },
      column.by ? element("button", { type: "button", class: "sort", onclick: press }, column.title) : column.title);
  }
  function turn(start) {
    starts.set(key, start);
    draw();
  }
  function pager(start) {
    const button = (title, to) => element("button", { type: "button", disabled: to < 0 || to >= rows.length, onclick: () => turn(to) }, title);
    return element("div", { class: "buttons pages" }, `${count(start + 1)}–${count(Math.min(start + PAGE_ROWS, rows.length))} of ${count(rows.length)} rows`,
      button("Previous", start - PAGE_ROWS), button("Next", start + PAGE_ROWS));
  }
  const isWide = columns.length > COLUMNS_MAX;
  const role = (text) => (isWide ? text : null);
  function draw() {
    const wanted = starts.get(key) ?? 0;
    const start = wanted < rows.length ? wanted : 0; // rows can have been removed since
    replace(box, rows.length > PAGE_ROWS ? pager(start) : null, element("table", { ...attributes, role: role("table"), class: [attributes.class, role("wide-table"), columns.length > DENSE_COLUMNS ? "dense" : null].filter(Boolean).join(" ") || null },
      caption ? element("caption", {}, caption) : null,
      element("thead", { role: role("rowgroup") }, element("tr", { role: role("row") }, columns.map(head))),
      element("tbody", { role: role("rowgroup") }, sorted().slice(start, start + PAGE_ROWS).map((row) => element("tr", { role: role("row") }, columns.map((column, place) => {
        const content = column.cell(row);
        const kind = column.number ? "number" : column.class;
        return place === 0 ? element("th", { scope: "row", role: role("rowheader"), class: kind }, content)
          : element("td", { role: role("cell"), "data-title": role(column.title), class: kind }, content);
      }))))));
  }
  draw();
  return box;
}

export function none(text) {
  return element("p", { class: "none" }, text);
}

// A form that filters the rows of tables by a text, without regard to case; `draw` draws the tables again, from their first pages.
// `options` are further fields, with their labels.
export function filter(label, draw, options = [], attributes = {}) {
  const text = element("input", { type: "search", autocomplete: "off", ...attributes });
  const changed = () => {
    starts.clear();
    draw();
  };
  const form = element("form", { class: "filters", onsubmit: (event) => event.preventDefault(), oninput: changed }, element("label", {}, label, text), options);
  return { form, has: (...values) => values.some((value) => String(value).toLowerCase().includes(text.value.trim().toLowerCase())) };
}

// A list shows only its beginning in a narrow field; its title shows all of it.
document.addEventListener("pointerover", ({ target }) => {
  if (target instanceof HTMLSelectElement) target.title = target.selectedOptions[0]?.text ?? "";
});
