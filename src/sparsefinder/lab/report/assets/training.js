// How the teacher learned: its loss by step, in training and in validation.

import { chart } from "report/chart.js";
import { data } from "report/data.js";
import { figure, make, nothing, section } from "report/elements.js";
import { swatch } from "report/markers.js";

// On both schemes, and apart from every method.
const LOOKS = [
  { light: "#595959", dark: "#c0c0c0", marker: "o", dash: "-", rank: 0 },
  { light: "#b3005e", dark: "#ff8fc4", marker: "D", dash: "--", rank: 1 },
];

export function showTraining() {
  const { training } = data;
  if (!training)
    return nothing("training", "The teacher was not trained in this run: a checkpoint was taken as it is.");
  const lines = training.curves.map(({ label, steps, losses }, number) => ({
    number,
    method: label,
    look: LOOKS[number % LOOKS.length],
    label,
    xs: steps,
    ys: losses,
    best: [...steps.keys()],
  }));
  const view = chart({
    label: "Loss of the teacher by step",
    id: "training-chart",
    name: `${data.name} training`,
    labels: true,
    lines,
    x: { title: "step", range: training.limits[0] },
    y: { title: "loss (nats per token)", range: training.limits[1] },
    describe: (line, place) => [`step ${line.xs[place].toLocaleString("en")}: ${line.ys[place].toFixed(3)}`],
    columns: (line, place) => ({ step: line.xs[place], loss: line.ys[place] }),
  });
  section("training").append(
    make(
      "div",
      { class: "legend" },
      lines.map(({ look, label }) => make("span", { class: "key" }, swatch(look), make("span", {}, label))),
    ),
    figure("Loss by step", view.box, { saves: view.saves }),
  );
}
