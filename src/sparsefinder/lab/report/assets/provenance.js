// The recipe, versions and stages of the run, and a command that makes it again.

import { data } from "report/data.js";
import { make, section, table, visible } from "report/elements.js";

export function showProvenance() {
  const { recipe, command, short, versions, stages } = data.provenance;
  const said = make("span", { role: "status", class: "result" });
  const button = make(
    "button",
    { type: "button", class: "main", id: "copy", onclick: () => copy(command, said) },
    "Copy the command, recipe included",
  );
  section("provenance").append(
    make(
      "dl",
      { class: "facts" },
      data.facts.map(({ name, value }) => make("div", {}, make("dt", {}, name), make("dd", {}, visible(value)))),
    ),
    make("div", { class: "command" }, make("code", {}, short), button, said),
    make(
      "details",
      {},
      make("summary", {}, "The recipe, every default filled in"),
      make("pre", { tabindex: 0, "aria-label": "Recipe" }, visibleLines(recipe)),
    ),
    make(
      "div",
      { class: "pair" },
      table("Versions", ["Package", "Version"], Object.entries(versions)),
      stages.length
        ? table(
            "Stages",
            ["Stage", "Finished (UTC)", "Took", "Peak memory"],
            stages.map((one) => [
              one.stage,
              one.finished.replace("T", " ").replace("+00:00", ""),
              one.duration,
              one.memory,
            ]),
          )
        : null,
    ),
  );
}

const visibleLines = (text) => text.split("\n").map(visible).join("\n");

async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    said.textContent = "Copied: paste it into a shell.";
  } catch {
    // Some browsers let pages that were opened from a file copy only what is selected.
    const area = make("textarea", { readonly: true, class: "away" });
    area.value = text;
    document.body.append(area);
    area.select();
    said.textContent = document.execCommand("copy")
      ? "Copied: paste it into a shell."
      : "This browser does not let the page copy; the recipe is below.";
    area.remove();
  }
}
