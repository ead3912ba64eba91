// What was run, what came out, and the table of methods.

import { data } from "report/data.js";
import { make, note, section, table, visible } from "report/elements.js";
import { brackets, percent } from "report/format.js";
import { colour, swatch } from "report/markers.js";

export function showOverview() {
  document.getElementById("name").textContent = data.name;
  document.getElementById("description").textContent = visible(data.description);
  const host = section("overview");
  if (data.verdict.length) {
    host.append(
      make(
        "ul",
        { class: "verdict" },
        data.verdict.map((sentence) => make("li", {}, together(sentence))),
      ),
    );
  } else host.append(note("This run has no points yet: its sweep has not been run."));
  host.append(
    make(
      "dl",
      { class: "facts" },
      data.facts.map(({ name, value }) => make("div", {}, make("dt", {}, name), make("dd", {}, visible(value)))),
    ),
  );
  if (data.methods.length) host.append(methodsTable());
}

// Numbers with their unit, and intervals, stay on one line.
const together = (sentence) => sentence.replaceAll(" %", "\u00a0%").replaceAll(/(\[[^\] ]+,) /g, "$1\u00a0");

function methodsTable() {
  // What finding takes is a share of what all scores would take: nothing for patterns of positions.
  const words = (one) => (one.cost ? `${one.words}; finding costs ${percent(one.cost, 1)} of all scores` : one.words);
  const reached = (one) =>
    one ? [make("span", {}, percent(one.sparsity)), make("small", {}, words(one))] : "not reached";
  const scored = data.methods.some((line) => line.scored);
  const headings = [
    "Method",
    "Hypervolume of recall",
    ...data.recalls.map((recall) => `Sparsity at recall ≥ ${percent(recall, 0)}`),
  ];
  if (scored)
    headings.push(
      `Hypervolume of ${data.score.metric}`,
      `Sparsity within ${percent(data.tolerance, 0)} of the full ${data.score.metric}`,
    );
  headings.push("Settings");
  const volume = (value, within, look) => {
    const bar = make("span", { class: "bar", style: `--share:${value}; color:${colour(look)}` });
    return [
      make("span", { class: "with-bar" }, value.toFixed(3), bar),
      within ? make("small", {}, brackets(within)) : null,
    ];
  };
  const apart = (look) => (look.competes ? null : `${look.bound ? "bound" : "reference"}, does not compete`);
  const inside = (line, look) =>
    line.scored
      ? [volume(line.scoreHypervolume, line.scoreWithin, look), reached(line.score)]
      : ["not measured", "not measured"];
  const rows = data.methods.map((line) => {
    const look = data.series[line.series];
    return [
      make(
        "span",
        { class: "method" },
        swatch(look),
        make("span", {}, look.label, look.competes ? null : make("small", {}, apart(look))),
      ),
      volume(line.hypervolume, line.within, look),
      ...line.reached.map(reached),
      ...(scored ? inside(line, look) : []),
      line.scored ? `${line.points}, ${line.scored} in the model` : String(line.points),
    ];
  });
  const caption =
    "Methods by hypervolume of recall: the share of all (sparsity, recall) pairs that a method’s points dominate, between 0 and 1";
  return make("div", {}, table(caption, headings, rows, "stack"), note(questions(scored)));
}

function questions(scored) {
  const recall =
    "The hypervolume of recall answers which method finds the pairs that the teacher itself attends to, on the sequences of the traces, over all settings.";
  if (!scored) return recall;
  const { metric } = data.score;
  return `${recall} The hypervolume of ${metric} answers which method keeps the model’s ${metric}, as a share of the full model’s, over the settings that were run inside the model; a missed pair costs there what its weight was worth. The two may disagree. Brackets are 95\u00a0% bootstrap intervals.`;
}
