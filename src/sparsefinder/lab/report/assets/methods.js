// Every method: what it does and whose it is, both hypervolumes, and how sparse it can be; then all findings in words.

import { together } from "report/answer.js";
import { data } from "report/data.js";
import { make, note, nothing, section, table, withCode } from "report/elements.js";
import { brackets, percent } from "report/format.js";
import { colour, swatch } from "report/markers.js";
import { keyOf, pointedMethod } from "report/signals.js";

export function showMethods() {
  if (!data.methods.length) return nothing("methods", "This run has no points yet: its sweep has not been run.");
  const scored = data.methods.some((line) => line.scored);
  section("methods").append(
    methodsTable(scored),
    note(questions(scored)),
    make(
      "details",
      { class: "numbers" },
      make("summary", {}, "All findings in words"),
      make(
        "ul",
        { class: "verdict" },
        data.verdict.map((sentence) => make("li", {}, together(sentence))),
      ),
    ),
  );
}

function methodsTable(scored) {
  const headings = [
    "Method",
    ...data.recalls.map((recall) => `Skipped at recall ≥ ${percent(recall, 0)}`),
    "Hypervolume of recall",
  ];
  if (scored)
    headings.push(
      `Skipped within ${percent(data.tolerance, 0)} of the full ${data.score.metric}`,
      `Hypervolume of ${data.score.metric}`,
    );
  headings.push("Settings");
  const caption =
    "Methods by hypervolume of recall: the share of all (sparsity, recall) pairs that a method’s points dominate, between 0 and 1";
  return table(
    caption,
    headings,
    data.methods.map((line) => row(line, data.series[line.series], scored)),
    "stack",
  );
}

function row(line, look, scored) {
  return [
    methodCell(look),
    ...line.reached.map((one) => (one?.cost === null ? short(one) : reached(one))),
    volume(line.hypervolume, line.within, look),
    ...(!scored
      ? []
      : line.scored
        ? [reached(line.score), volume(line.scoreHypervolume, line.scoreWithin, look)]
        : ["not measured", "not measured"]),
    line.scored ? `${line.points}, ${line.scored} in the model` : String(line.points),
  ];
}

function methodCell(look) {
  const apart = look.competes ? null : `${look.bound ? "bound" : "reference"}, does not compete`;
  return make(
    "div",
    {
      class: "method",
      onmouseenter: () => pointedMethod.set(keyOf(look)),
      onmouseleave: () => pointedMethod.set(null),
    },
    swatch(look),
    make(
      "span",
      {},
      look.label,
      make("small", {}, withCode(look.does)),
      make("small", {}, [look.whose, apart].filter(Boolean).join("; ")),
    ),
  );
}

// What finding takes is a share of what all scores would take: nothing for patterns of positions.
const words = (one) => (one.cost ? `${one.words}; finding costs ${percent(one.cost, 1)} of all scores` : one.words);
const reached = (one) =>
  one ? [make("span", {}, percent(one.sparsity)), make("small", {}, words(one))] : "not reached";
const short = (one) => make("span", { title: words(one) }, percent(one.sparsity));

const volume = (value, within, look) => [
  make(
    "span",
    { class: "with-bar" },
    value.toFixed(3),
    make("span", { class: "bar", style: `--share:${value}; color:${colour(look)}` }),
  ),
  within ? make("small", {}, brackets(within)) : null,
];

function questions(scored) {
  const recall =
    "The hypervolume of recall answers which method finds the pairs that the teacher itself attends to, on the sequences of the traces, over all settings.";
  if (!scored) return recall;
  const { metric } = data.score;
  return `${recall} The hypervolume of ${metric} answers which method keeps the model’s ${metric}, as a share of the full model’s, over the settings that were run inside the model; a missed pair costs there what its weight was worth. The two may disagree. Brackets are 95\u00a0% bootstrap intervals.`;
}
