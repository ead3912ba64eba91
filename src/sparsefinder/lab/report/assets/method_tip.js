// What a method does and whose it is, on hover and on focus.

import { make, withCode } from "report/elements.js";

let tips = 0;

// The same element, with a tip of its own below it.
export function methodTip(node, look) {
  if (!look.does) return node;
  const id = `method-tip-${tips++}`;
  const tip = make(
    "span",
    { class: "tip method-tip", role: "tooltip", id },
    withCode(look.does),
    make("small", {}, look.whose),
  );
  node.setAttribute("aria-describedby", id);
  return make("span", { class: "tipped" }, node, tip);
}
