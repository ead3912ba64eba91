// Elements are made here and nowhere else: text goes in as text, never as markup, so no token can become an element.

import { remember, remembered } from "report/address.js";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

export const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

export const section = (name) => document.getElementById(name);
export const note = (text) => make("p", { class: "note" }, text);

// `code` between backticks, as messages have it.
export function withCode(text) {
  return text.split("`").map((part, place) => (place % 2 ? make("code", {}, part) : part));
}

// key: what the choice is called in the address, which it is taken from if it is there; start: what is chosen otherwise.
export function choice(label, options, pick, { key, start } = {}) {
  const change = () => {
    if (key) remember(key, select.value);
    pick(select.value);
  };
  const select = make("select", { onchange: change }, optionsOf(options));
  const asked = key ? remembered(key) : null;
  const value = options.some((one) => String(one.value) === asked) ? asked : start;
  if (value !== undefined) select.value = value;
  return { label: make("label", { class: "control" }, make("span", {}, label), select), select };
}

// Another list to choose from, and what is chosen of it.
export function refill(select, options, value) {
  select.replaceChildren(...optionsOf(options));
  select.value = value;
}

const optionsOf = (options) => options.map(({ value, text }) => make("option", { value }, text));

// kind: "stack" for a table whose rows become blocks where the page is narrow.
export function table(caption, headings, rows, kind = null) {
  const head = make(
    "tr",
    {},
    headings.map((text) => make("th", { scope: "col" }, text)),
  );
  const body = rows.map((cells) =>
    make(
      "tr",
      {},
      cells.map((cell, place) =>
        place ? make("td", { "data-label": headings[place] }, cell) : make("th", { scope: "row" }, cell),
      ),
    ),
  );
  const whole = make(
    "table",
    { class: kind },
    make("caption", {}, caption),
    make("thead", {}, head),
    make("tbody", {}, body),
  );
  return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, whole);
}

// Numbers behind a chart, made when they are first asked for.
export function numbers(summary, build) {
  const details = make("details", { class: "numbers" }, make("summary", {}, summary));
  details.addEventListener("toggle", () => details.open && details.childElementCount === 1 && details.append(build()));
  return details;
}

// Calls `render` when the element comes into sight, or when the page is printed: a large model has hundreds of heads.
// What is returned calls it again if that has happened.
export function onceSeen(body, render) {
  let seen = false;
  const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && see(), {
    rootMargin: "300px",
  });
  function see() {
    observer.disconnect();
    if (!seen) render();
    seen = true;
  }
  observer.observe(body);
  addEventListener("beforeprint", see);
  matchMedia("print").addEventListener("change", see);
  return () => seen && render();
}

// Characters that have no shape or turn the writing round are shown by their number: text, whatever the corpus holds.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
export const visible = (token) =>
  token.replace(HIDDEN, (character) => `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

// A token as readers know it: what marks the beginning of a word becomes a space that can be seen.
export const spelled = (token) => visible(token).replace(/^[Ġ▁]/, "␣");

// saves: buttons that keep it as a file.
export function figure(title, body, { caption, more, saves } = {}) {
  const head = typeof title === "string" ? make("h3", {}, title) : title;
  return make(
    "figure",
    {},
    make("div", { class: "figure-head" }, head, saves ?? null),
    body,
    caption ? make("figcaption", {}, caption) : null,
    more ?? null,
  );
}

// A section that has nothing to show is a line that says why.
export function nothing(name, text) {
  section(name).classList.add("empty");
  section(name).append(make("p", {}, withCode(text)));
}

// The width of a sheet of paper: what is drawn for a wide screen could not be read on it.
const PAPER = 650;
let printing = false;
addEventListener("beforeprint", () => (printing = true));
addEventListener("afterprint", () => (printing = false));

// How wide to draw what is in an element.
export const widthFor = (host) => (printing ? PAPER : host.clientWidth);

// Calls `render` when the element's width changes, once to begin with, and for paper. There, nothing may grow after pages
// have been counted: what is behind it would be cut off.
export function onWidth(host, render) {
  let width = 0;
  for (const turn of ["beforeprint", "afterprint"]) addEventListener(turn, () => width && render(widthFor(host)));
  new ResizeObserver(() => {
    if (printing || Math.abs(host.clientWidth - width) < 1 || !host.clientWidth) return;
    width = host.clientWidth;
    render(width);
  }).observe(host);
}

// Light and dark, on a screen or on paper: what is painted is painted anew when that changes.
export const schemes = ["(prefers-color-scheme: dark)", "print"].map((query) => matchMedia(query));
export const styleValue = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// One stop of the tab key for a group of buttons; arrow keys go from one to the next, `columns()` per row.
export function roving(group, items, columns) {
  const enter = (place) => {
    items.forEach((item, other) => item.setAttribute("tabindex", other === place ? 0 : -1));
    items[place].focus();
  };
  items.forEach((item, place) => item.setAttribute("tabindex", place ? -1 : 0));
  group.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns(), ArrowUp: -columns() };
    const now = items.indexOf(document.activeElement);
    const next = now + steps[event.key];
    if (now < 0 || !items[next]) return;
    event.preventDefault();
    enter(next);
  });
}
