// The first screen: the answer in a sentence, the chart that it is read off, and how to read it.

import { clouds, data } from "report/data.js";
import { make, nothing, section, withCode } from "report/elements.js";
import { explanation } from "report/explanation.js";
import { legend } from "report/legend.js";
import { colour } from "report/markers.js";
import { recallFigure, scoreFigure } from "report/pareto.js";

export function showAnswer() {
  if (!clouds.recall) return nothing("answer", "This run has no points yet: its sweep has not been run.");
  section("answer").append(
    sentences(data.answer),
    make(
      "div",
      { class: "first" },
      make("div", {}, recallFigure(clouds.recall, { id: "recall-chart" }), legend()),
      explanation(clouds.recall.gold),
    ),
  );
}

// What is found and what it costs, how fast it is, and what that rests on. Names of methods stand between asterisks.
// Intervals are smaller: sentences are read without them.
export function sentences(said) {
  const parts = (text) => text.split("*").map((part, place) => (place % 2 ? methodName(part) : withIntervals(part)));
  const [first, ...more] = said.sentences;
  return make(
    "div",
    { class: "said" },
    make("p", { class: "sentence" }, parts(first)),
    more.map((text) => make("p", { class: "speed" }, parts(text))),
    make("p", { class: "rests-on" }, together(said.restsOn)),
  );
}

const withIntervals = (text) =>
  together(text)
    .split(/(\[[^\]]*\]|\([\d.]+–[\d.]+\))/)
    .map((part, place) => (place % 2 ? make("span", { class: "interval" }, part) : withCode(part)));

// Numbers with their unit, and intervals, stay on one line.
export const together = (text) => text.replaceAll(" %", "\u00a0%").replaceAll(/(\[[^\] ]+,) /g, "$1\u00a0");

function methodName(label) {
  const look = data.series.find((one) => one.label === label);
  return make("strong", look ? { style: `color:${colour(look)}` } : {}, label);
}

export function showScores() {
  const host = section("scores");
  if (!clouds.scores)
    return nothing("scores", "Inside the model nothing was measured: `accuracy` in the recipe says what to run there.");
  const { metric, lower } = data.score;
  host.append(
    make(
      "p",
      {},
      `What the model loses when it attends to predicted pairs only, in every layer at once. ${lower ? `The axis is upside down, so that up is better: less ${metric}. ` : ""}`,
      "The star is the full model, the dashed line the sparsity of its own graphs on these sequences. Bands hold the difference to the full model in 95 of 100 bootstrap draws.",
    ),
    legend(),
    scoreFigure(clouds.scores, data.score, { id: "score-chart" }),
  );
}
