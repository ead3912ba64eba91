// Single heads: recall at a chosen sparsity for all of them, the frontiers of the chosen one, and small multiples.

import { SPARSITY_TITLE } from "report/axes.js";
import { chart } from "report/chart.js";
import { clouds, data, headName, settingWords } from "report/data.js";
import { figure, make, nothing, section } from "report/elements.js";
import { percent } from "report/format.js";
import { decodedFrontiers, headLines, lowestOf } from "report/head_frontiers.js";
import { heatmap } from "report/head_heatmap.js";
import { smallMultiples } from "report/head_multiples.js";
import { legend } from "report/legend.js";
import { chosenHead } from "report/signals.js";

export function showHeads() {
  const host = section("heads");
  if (!data.heads) return nothing("heads", "This run has no points yet: its sweep has not been run.");
  const sets = data.heads.frontiers.map(decodedFrontiers);
  // The same in all charts, or they could not be compared. The set of all windows holds the fixed one as well.
  const lowest = lowestOf(sets[0]);
  host.append(
    make(
      "p",
      {},
      "Heads differ. Here every head has the setting that suits it best: the numbers are the highest recall among a method’s settings that are at least as sparse as asked for.",
    ),
  );
  host.append(legend(), make("div", { class: "pair" }, heatmap(sets[0]), chosenFigure(sets[0], lowest)));
  host.append(smallMultiples(sets, lowest));
}

function chosenFigure(set, [low, floor]) {
  const title = make("h3", {});
  const options = (head) => ({
    label: `Sparsity and recall of ${headName(head)}`,
    lines: headLines(set, head),
    rules: [{ axis: "x", value: data.heads.gold[head], label: `gold ${percent(data.heads.gold[head])}` }],
    star: { x: data.heads.gold[head], y: 1, label: "the head itself" },
  });
  const view = chart({
    ...options(chosenHead.get()),
    id: "head-chart",
    name: `${data.name} head`,
    legend: true,
    labels: true,
    x: { title: SPARSITY_TITLE, range: [low, 1.01], format: (value) => (100 * value).toFixed(0) },
    y: {
      title: "recall (% of gold pairs found)",
      range: [floor, 1.03],
      format: (value) => (100 * value).toFixed(0),
    },
    describe: (line, place) => [
      settingWords(clouds.recall, set.setting[place]),
      `sparsity ${percent(set.xs[place])} · recall ${percent(set.ys[place])}`,
    ],
    columns: (line, place) => ({
      setting: settingWords(clouds.recall, set.setting[place]),
      sparsity: set.xs[place],
      recall: set.ys[place],
    }),
  });
  const name = (head) => {
    title.textContent = `Frontiers of ${headName(head)}`;
    view.box.dataset.head = head;
  };
  name(chosenHead.get());
  chosenHead.listen((head) => {
    name(head);
    view.update(options(head));
  });
  return figure(title, view.box, { saves: view.saves });
}
