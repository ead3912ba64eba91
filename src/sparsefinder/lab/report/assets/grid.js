// A table of layers and heads, a number in each cell, whose cells choose a head.

import { data } from "report/data.js";
import { make, roving } from "report/elements.js";
import { percent } from "report/format.js";
import { heat } from "report/markers.js";

// heads: [{kind, layer, head}]; the table keeps its shape, `update` changes its numbers.
export function headGrid(caption, heads, pick) {
  const columns = [...new Set(heads.map((one) => one.head))].sort((one, other) => one - other);
  const buttons = heads.map((_, place) =>
    make("button", { type: "button", class: "cell", onclick: () => pick(place) }),
  );
  const whole = tableOf(caption, heads, columns, buttons);
  roving(whole, buttons, () => columns.length);
  return {
    table: whole,
    // Above the table and not within it: a caption is no wider than its table.
    node: make("div", {}, make("p", { class: "caption" }, caption), make("div", { class: "scroll" }, whole)),
    // value: a share between 0 and 1, or null where there is none.
    update(value) {
      const shares = heads.map((_, place) => value(place));
      const strength = strengths(shares);
      buttons.forEach((button, place) => showShare(button, heads[place], shares[place], strength(shares[place])));
    },
    choose(place) {
      buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === place)));
    },
  };
}

function tableOf(caption, heads, columns, buttons) {
  const top = make(
    "tr",
    {},
    make("th", { scope: "col" }, "layer"),
    columns.map((head) => make("th", { scope: "col" }, String(head))),
  );
  const body = [...new Set(heads.map(rowName))].map((row) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, row),
      columns.map((head) => {
        const place = heads.findIndex((one) => rowName(one) === row && one.head === head);
        return make("td", {}, place < 0 ? "" : buttons[place]);
      }),
    ),
  );
  return make("table", { class: "grid", "aria-label": caption }, make("thead", {}, top), make("tbody", {}, body));
}

// Colours go from the lowest to the highest number, or differences between good heads could not be seen.
function strengths(shares) {
  const real = shares.filter((share) => share !== null);
  const low = Math.min(...real);
  const span = Math.max(...real) - low || 1;
  return (share) => (share === null ? 0 : 0.1 + (0.85 * (share - low)) / span);
}

function showShare(button, head, share, strength) {
  button.textContent = share === null ? "–" : (100 * share).toFixed(0);
  button.setAttribute("style", heat(strength));
  const said = share === null ? "not reached" : percent(share);
  button.setAttribute("aria-label", `${rowName(head)}, head ${head.head}: ${said}`);
}

const severalKinds = new Set((data.heads?.names ?? data.maps?.sites ?? []).map((one) => one.kind)).size > 1;
export function rowName({ kind, layer }) {
  return severalKinds ? `${kind} ${layer}` : String(layer);
}
