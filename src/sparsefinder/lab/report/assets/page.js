// Every section in turn. One that fails says so and leaves the others alone.

const SECTIONS = {
  overview: showOverview,
  pareto: showPareto,
  heads: showHeads,
  maps: showMaps,
  clusters: showClusters,
  timing: showTiming,
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
