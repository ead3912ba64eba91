// The legend of all charts: a button for each method that hides it or shows it again, everywhere. At first it has the
// methods that are shown at first; one more button brings the others.

import { data } from "report/data.js";
import { make } from "report/elements.js";
import { swatch } from "report/markers.js";
import { methodTip } from "report/method_tip.js";
import { hiddenSeries, keyOf, pointedMethod } from "report/signals.js";

export function legend() {
  const keys = data.series.map(keyButton);
  const rest = keys.filter((_, number) => !data.shown.includes(number));
  const more = make("button", {
    type: "button",
    class: "plain",
    onclick: () => showRest(more.ariaExpanded !== "true"),
  });
  const update = (hidden) => {
    const all = [...data.series.keys()].some((number) => !data.shown.includes(number) && !hidden.has(number));
    keys.forEach(({ button }, number) => button.setAttribute("aria-pressed", String(!hidden.has(number))));
    for (const { node } of rest) node.hidden = !all;
    more.setAttribute("aria-expanded", String(all));
    more.textContent = all ? "Fewer methods" : `${rest.length} more method${rest.length === 1 ? "" : "s"}`;
  };
  hiddenSeries.listen(update);
  update(hiddenSeries.get());
  const title = "Methods: press to hide or show, twice to show one alone";
  const nodes = keys.map(({ node }) => node);
  return make("div", { class: "legend", role: "group", "aria-label": title }, nodes, rest.length ? more : null);
}

function keyButton(look, number) {
  const point = () => pointedMethod.set(keyOf(look));
  const leave = () => pointedMethod.set(null);
  const button = make(
    "button",
    {
      type: "button",
      class: "key",
      "data-series": number,
      onclick: () => toggle(number),
      ondblclick: () => toggleAlone(number),
      onmouseenter: point,
      onmouseleave: leave,
      onfocus: point,
      onblur: leave,
    },
    swatch(look),
    make("span", {}, look.label),
  );
  return { button, node: methodTip(button, look) };
}

function toggle(number) {
  const hidden = new Set(hiddenSeries.get());
  if (!hidden.delete(number)) hidden.add(number);
  hiddenSeries.set(hidden);
}

function showRest(shown) {
  const hidden = new Set(hiddenSeries.get());
  for (const number of data.series.keys())
    if (!data.shown.includes(number)) shown ? hidden.delete(number) : hidden.add(number);
  hiddenSeries.set(hidden);
}

// One method alone, or again what was there before.
let before = null;
export function toggleAlone(number) {
  const others = [...data.series.keys()].filter((one) => one !== number);
  const hidden = hiddenSeries.get();
  const alone = !hidden.has(number) && others.every((one) => hidden.has(one));
  if (!alone) before = new Set([...hidden].filter((one) => one !== number));
  hiddenSeries.set(alone ? (before ?? new Set()) : new Set(others));
}
