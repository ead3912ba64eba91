// The legend of all charts: a button for each method that hides it or shows it again, everywhere.

import { data } from "report/data.js";
import { make } from "report/elements.js";
import { swatch } from "report/markers.js";
import { hiddenSeries, pointedSeries } from "report/signals.js";

export function legend() {
  const buttons = data.series.map((look, number) =>
    make(
      "button",
      {
        type: "button",
        class: "key",
        "aria-pressed": "true",
        "data-series": number,
        onclick: () => toggle(number),
        onmouseenter: () => pointedSeries.set(number),
        onmouseleave: () => pointedSeries.set(null),
        onfocus: () => pointedSeries.set(number),
        onblur: () => pointedSeries.set(null),
      },
      swatch(look),
      make("span", {}, look.label),
    ),
  );
  const all = make(
    "button",
    { type: "button", class: "plain", onclick: () => hiddenSeries.set(new Set()) },
    "Show all",
  );
  const none = make(
    "button",
    {
      type: "button",
      class: "plain",
      onclick: () => hiddenSeries.set(new Set(data.series.keys())),
    },
    "Hide all",
  );
  hiddenSeries.listen((hidden) =>
    buttons.forEach((button, number) => button.setAttribute("aria-pressed", String(!hidden.has(number)))),
  );
  return make(
    "div",
    { class: "legend", role: "group", "aria-label": "Methods: press to hide or show" },
    buttons,
    all,
    none,
  );
}

function toggle(number) {
  const hidden = new Set(hiddenSeries.get());
  if (!hidden.delete(number)) hidden.add(number);
  hiddenSeries.set(hidden);
}
