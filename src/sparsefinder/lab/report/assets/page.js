// Every section in turn. One that fails says so and leaves the others alone.

import { followAddress, goTo } from "report/address.js";
import { showAnswer, showScores } from "report/answer.js";
import { showBench } from "report/bench.js";
import { showClusters } from "report/clusters.js";
import { showComparison } from "report/comparison.js";
import { data } from "report/data.js";
import { make, note, section, visible } from "report/elements.js";
import { showHeads } from "report/heads.js";
import { showMaps } from "report/maps.js";
import { showMethods } from "report/methods.js";
import { showProvenance } from "report/provenance.js";
import { showTiming } from "report/timing.js";
import { showTraining } from "report/training.js";

// Name, title, what the list of sections calls it, and what fills it.
const OF_A_RUN = [
  ["answer", "Which method, and what it costs", "Answer", showAnswer],
  ["scores", "Inside the model", "Inside the model", showScores],
  ["methods", "Every method", "Methods", showMethods],
  ["heads", "Layer by layer, head by head", "Heads", showHeads],
  ["maps", "Attention maps", "Maps", showMaps],
  ["clusters", "Clusters and parts of speech", "Clusters", showClusters],
  ["timing", "Running time of blocks", "Time", showTiming],
  ["bench", "Every finder, by length", "Bench", showBench],
  ["training", "Training of the teacher", "Training", showTraining],
  ["provenance", "How to make this run again", "Recipe", showProvenance],
];
const OF_SEVERAL = [["answer", "Several runs, side by side", "Answer", showComparison]];
const sections = data.runs ? OF_SEVERAL : OF_A_RUN;

document.getElementById("name").textContent = data.name;
document.getElementById("description").textContent = visible(data.description);
document
  .querySelector("main")
  .append(
    ...sections.map(([name, title]) =>
      make(
        "section",
        { id: name, "aria-labelledby": `${name}-title`, tabindex: -1 },
        make("h2", { id: `${name}-title` }, title),
      ),
    ),
  );
if (sections.length > 1)
  document.querySelector("nav").append(...sections.map(([name, , short]) => make("a", { href: `#${name}` }, short)));
document.body.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (!link) return;
  event.preventDefault();
  goTo(link.getAttribute("href").slice(1));
});

for (const [name, , , show] of sections) {
  try {
    show();
  } catch (error) {
    section(name).append(note(`This section could not be shown: ${error.message}`));
    console.error(error);
  }
}
followAddress();
document.documentElement.dataset.ready = "yes";
