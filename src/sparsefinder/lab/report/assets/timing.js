// Running time and quality by the number of attended blocks.

import { roomy } from "report/axes.js";
import { chart } from "report/chart.js";
import { data } from "report/data.js";
import { choice, figure, make, numbers, section, table, withCode } from "report/elements.js";
import { duration, percent } from "report/format.js";
import { swatch } from "report/markers.js";

export function showTiming() {
  const host = section("timing");
  const { timing, score } = data;
  if (!timing)
    return host.append(
      make(
        "p",
        { class: "note" },
        withCode("This run measured no running times: add `timing:` to its recipe, and run it again."),
      ),
    );
  const real = (value) => (score.lower ? -value : value);
  const counts = [...new Set(timing.methods.flatMap((one) => one.curves.all.map((spot) => spot.blocks)))].sort(
    (one, other) => one - other,
  );
  let size = "all";

  const lines = (value) =>
    timing.methods
      .map((method, number) => {
        const spots = (method.curves[size] ?? []).filter((spot) => value(spot) !== null);
        return {
          number,
          look: method.style,
          label: method.label,
          spots,
          xs: spots.map((spot) => spot.blocks),
          ys: spots.map(value),
          best: spots.map((_, place) => place),
        };
      })
      .filter((line) => line.best.length);
  const describe = (line, place) => {
    const spot = line.spots[place];
    return [
      `${spot.blocks} attended blocks, ${size === "all" ? `mean of ${spot.rows} settings` : `blocks of ${size} tokens`}`,
      `${duration(spot.seconds)} (quartiles ${duration(spot.low)} and ${duration(spot.high)}), attention ${duration(spot.attention_seconds)}`,
      `${score.metric} ${spot.score?.toFixed(2) ?? "–"}`,
    ];
  };
  const x = { title: "attended blocks of a query block", range: roomy(counts), ticks: counts, format: String };
  const panel = (value, title, label) => {
    const options = () => {
      const found = lines(value);
      const rules = timing.lines
        .filter((one) => value(one) !== null)
        .map((one) => ({
          axis: "y",
          value: value(one),
          label: one.label,
          dash: one.method === "full" ? "6 4" : "2 3",
        }));
      const [low, high] = roomy([...found.flatMap((line) => line.ys), ...rules.map((rule) => rule.value)], 0.1);
      return { lines: found, rules, y: { title, range: [low, high] } };
    };
    return { view: chart({ label, x, describe, ...options() }), options };
  };
  const panels = [
    panel((spot) => spot.seconds, "seconds for a pass over the data", "Running time by number of attended blocks"),
    panel(
      (spot) => (spot.score === null ? null : real(spot.score)),
      score.axis,
      `${score.axis} by number of attended blocks`,
    ),
  ];
  const sizes = choice(
    "Block size",
    [{ value: "all", text: "all, averaged" }, ...timing.sizes.map((one) => ({ value: one, text: `${one} tokens` }))],
    (value) => {
      size = value;
      for (const { view, options } of panels) view.update(options());
    },
  );
  panels[0].view.box.id = "time-chart";
  const keys = make(
    "div",
    { class: "legend" },
    timing.methods.map((one) => make("span", { class: "key" }, swatch(one.style), make("span", {}, one.label))),
  );
  host.append(
    make(
      "p",
      {},
      `A pass over ${timing.sequences} sequences in batches of ${timing.batch} on ${timing.threads} threads, the finder’s own time included. `,
      "Dashed: the full entmax model; dotted: the full softmax model.",
    ),
    make("div", { class: "controls" }, sizes.label),
    keys,
    make(
      "div",
      { class: "pair" },
      figure("Time", panels[0].view.box),
      figure(score.metric[0].toUpperCase() + score.metric.slice(1), panels[1].view.box),
    ),
    numbers("Numbers of the timings", () =>
      table(
        "Means over block sizes and clusters",
        ["Method", "Blocks", "Time", "Attention alone", score.metric, "Sparsity"],
        [
          ...timing.methods.flatMap((one) => one.curves.all.map((spot) => [one.label, spot])),
          ...timing.lines.map((one) => [one.label, one]),
        ].map(([label, spot]) => [
          label,
          spot.blocks ? String(spot.blocks) : "all",
          duration(spot.seconds),
          duration(spot.attention_seconds),
          spot.score === null ? "–" : spot.score.toFixed(2),
          spot.sparsity === null ? "–" : percent(spot.sparsity),
        ]),
      ),
    ),
  );
}
