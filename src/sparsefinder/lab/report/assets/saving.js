// Charts as files: a picture of points or of lines, and their numbers.

import { make, styleValue } from "report/elements.js";

// What a drawing takes from the page's styles, which a file does not have.
const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "paint-order"];
const FONTS = ["font-size", "font-family", "font-weight", "text-anchor"];
const PIXELS = 2;

// name: of the files; svg() -> the drawing, canvas() -> that of a map, rows() -> a table, its headings first.
// What a chart does not have is left out.
export function saveButtons({ name, svg, canvas, rows }) {
  const button = (kind, press) =>
    make("button", { type: "button", class: "save", "aria-label": `Save ${name} as ${kind}`, onclick: press }, kind);
  const file = (ending) => `${name.replaceAll(/[^\p{L}\p{N}]+/gu, "-")}.${ending}`;
  const buttons = [];
  if (svg || canvas)
    buttons.push(
      button("PNG", async () =>
        (svg ? await painted(styled(svg())) : canvas()).toBlob((blob) => keep(blob, file("png"))),
      ),
    );
  if (svg)
    buttons.push(button("SVG", () => keep(new Blob([styled(svg()).text], { type: "image/svg+xml" }), file("svg"))));
  if (rows) buttons.push(button("CSV", () => keep(new Blob([csv(rows())], { type: "text/csv" }), file("csv"))));
  return make("span", { class: "saves" }, buttons);
}

function keep(blob, name) {
  const href = URL.createObjectURL(blob);
  make("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
}

// A drawing as a text of its own, and its size. One that was made to be saved is on the page for a moment: styles are
// known only there.
function styled(svg) {
  if (!svg.isConnected) {
    const host = make("div", { class: "away" }, svg);
    document.body.append(host);
    const found = styled(svg);
    host.remove();
    return found;
  }
  const copy = svg.cloneNode(true);
  const [from, to] = [svg, copy].map((node) => [node, ...node.querySelectorAll("*")]);
  from.forEach((node, place) => {
    const computed = getComputedStyle(node);
    const names = node.tagName === "text" ? [...STYLES, ...FONTS] : STYLES;
    to[place].setAttribute("style", names.map((one) => `${one}:${computed.getPropertyValue(one)}`).join(";"));
    to[place].removeAttribute("class");
  });
  const { width, height } = svg.viewBox.baseVal;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.style.background = styleValue("--surface");
  return { text: new XMLSerializer().serializeToString(copy), width, height };
}

async function painted({ text, width, height }) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = make("canvas", { width: PIXELS * width, height: PIXELS * height });
  const context = canvas.getContext("2d");
  context.fillStyle = styleValue("--surface");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas;
}

// Quoted where a value needs it, as spreadsheets read it.
const cell = (value) =>
  /[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? "");
const csv = (rows) => rows.map((row) => `${row.map(cell).join(",")}\n`).join("");
