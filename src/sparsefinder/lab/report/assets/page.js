// Every section in turn. One that fails says so and leaves the others alone.

import { showBench } from "report/bench.js";
import { showClusters } from "report/clusters.js";
import { note, section } from "report/elements.js";
import { showHeads } from "report/heads.js";
import { showMaps } from "report/maps.js";
import { showOverview } from "report/overview.js";
import { showPareto } from "report/pareto.js";
import { showProvenance } from "report/provenance.js";
import { showTiming } from "report/timing.js";

const SECTIONS = {
  overview: showOverview,
  pareto: showPareto,
  heads: showHeads,
  maps: showMaps,
  clusters: showClusters,
  timing() {
    showTiming();
    showBench();
  },
  provenance: showProvenance,
};

for (const [name, show] of Object.entries(SECTIONS)) {
  try {
    show();
  } catch (error) {
    section(name).append(note(`This section could not be shown: ${error.message}`));
    console.error(error);
  }
}
document.documentElement.dataset.ready = "yes";
