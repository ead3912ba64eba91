// Frontiers of single heads, as they come out of the page's data.

import { column, data } from "report/data.js";

export function decodedFrontiers(encoded) {
  const found = { window: encoded.window };
  for (const name of ["head", "series", "setting", "x", "y"]) found[name] = column(encoded[name]);
  found.xs = Float32Array.from(found.x, (value) => value / encoded.steps);
  found.ys = Float32Array.from(found.y, (value) => value / encoded.steps);
  // Where the points of each head and series begin: they are sorted.
  found.starts = new Map();
  const key = (place) => found.head[place] * data.series.length + found.series[place];
  for (let place = 0; place < found.head.length; place++)
    if (!place || key(place) !== key(place - 1)) found.starts.set(key(place), place);
  found.curve = (head, series) => {
    const places = [],
      wanted = head * data.series.length + series;
    for (let place = found.starts.get(wanted) ?? Infinity; place < found.head.length && key(place) === wanted; place++)
      places.push(place);
    return places;
  };
  return found;
}

export function recallAt(set, head, series, sparsity) {
  let best = null;
  for (const place of set.curve(head, series))
    if (set.xs[place] >= sparsity - 1e-6 && (best === null || set.ys[place] > best)) best = set.ys[place];
  return best;
}

export function headLines(set, head) {
  return data.series
    .map(({ method, inputs, label, ...look }, number) => ({
      number,
      method,
      inputs,
      look,
      label,
      xs: set.xs,
      ys: set.ys,
      best: set.curve(head, number),
    }))
    .filter((line) => line.best.length);
}

// From where sparsity and recall are drawn, to 1.
export const lowestOf = (set) =>
  [set.xs, set.ys].map((values) =>
    Math.min(0.9, Math.floor(10 * values.reduce((least, value) => Math.min(least, value), 1)) / 10),
  );
