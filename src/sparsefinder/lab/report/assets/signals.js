// Values that several sections share and listen to.

import { data } from "report/data.js";
import { remember, remembered } from "report/address.js";

// A value that others listen to: signal(3).set(4) calls every listener with 4.
function signal(value) {
  const listeners = [];
  return {
    get: () => value,
    set(next) {
      if (next === value) return;
      value = next;
      for (const listener of listeners) listener(value);
    },
    listen(listener) {
      listeners.push(listener);
    },
  };
}

export const keyOf = ({ method, inputs }) => `${method}/${inputs ?? ""}`;

// The numbers of the methods that are hidden. At first only the best are shown: eleven lines at once are too many.
export const hiddenSeries = signal(new Set(firstHidden()));
hiddenSeries.listen((hidden) => {
  const shown = [...data.series.keys()].filter((number) => !hidden.has(number));
  remember("show", shown.map((number) => keyOf(data.series[number])).join("+"));
});

// The method that is pointed at, as `keyOf` writes it; null where none is.
export const pointedMethod = signal(null);

// Whether a line is of the method that is pointed at: one that has no inputs of its own stands for all of them.
export function isPointed({ method, inputs }, pointed) {
  const [name, other] = pointed.split("/");
  return method === name && (!inputs || !other || inputs === other);
}

// The head that was chosen.
export const chosenHead = signal(firstHead());
chosenHead.listen((head) => remember("head", head));

function firstHidden() {
  const every = [...(data.series ?? []).keys()];
  const asked = remembered("show")?.split("+");
  return every.filter((number) => !(asked ? asked.includes(keyOf(data.series[number])) : data.shown.includes(number)));
}

function firstHead() {
  const head = Number(remembered("head"));
  return head < (data.heads?.names.length ?? 0) && head >= 0 ? head : 0;
}
