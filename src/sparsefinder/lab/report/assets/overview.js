// What was run, what came out, and the table of methods.

import { data } from "report/data.js";
import { make, note, section, table, visible } from "report/elements.js";
import { percent } from "report/format.js";
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
        data.verdict.map((sentence) => make("li", {}, sentence.replaceAll(" %", "\u00a0%"))),
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

function methodsTable() {
  // What finding takes is a share of what all scores would take: nothing for patterns of positions.
  const words = (one) => (one.cost ? `${one.words}; finding costs ${percent(one.cost, 1)} of all scores` : one.words);
  const reached = (one) =>
    one ? [make("span", {}, percent(one.sparsity)), make("small", {}, words(one))] : "not reached";
  const scored = data.methods.some((line) => line.scored);
  const headings = [
    "Method",
    "Hypervolume",
    ...data.recalls.map((recall) => `Sparsity at recall ≥ ${percent(recall, 0)}`),
  ];
  if (scored) headings.push(`Sparsity within ${percent(data.tolerance, 0)} of the full ${data.score.metric}`);
  headings.push("Settings");
  const rows = data.methods.map((line) => {
    const look = data.series[line.series];
    const bar = make("span", { class: "bar", style: `--share:${line.hypervolume}; color:${colour(look)}` });
    return [
      make(
        "span",
        { class: "method" },
        swatch(look),
        make("span", {}, look.label, look.competes ? null : make("small", {}, "bound, does not compete")),
      ),
      make("span", { class: "with-bar" }, line.hypervolume.toFixed(3), bar),
      ...line.reached.map(reached),
      ...(scored ? [line.scored ? reached(line.score) : "not measured"] : []),
      String(line.points),
    ];
  });
  const caption =
    "Methods by hypervolume: the share of all (sparsity, recall) pairs that a method’s points dominate, between 0 and 1";
  return table(caption, headings, rows, "stack");
}
