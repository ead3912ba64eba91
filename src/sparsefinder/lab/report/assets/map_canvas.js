// A canvas with one matrix of queries (rows) and keys (columns): cells in colour, gold pairs starred, tokens on both axes.

import { remember, remembered } from "report/address.js";
import { spelled, styleValue } from "report/elements.js";
import { DARK, star } from "report/markers.js";

// Cells this large have room for a star; smaller ones are coloured as a whole.
const STAR_CELL = 7;
const LABEL_SPACE = 11;
const MOST_HEIGHT = 620;

// What both matrices show of the whole: its size (1 shows all), and the first row and column, in cells.
export const wholeView = () => ({ zoom: 1, row: 0, column: 0 });
const VIEW = "map-view";

// The address keeps what is seen, unless it is all.
export function keepView({ zoom, row, column }) {
  remember(VIEW, zoom > 1 ? [zoom, row, column].map((one) => Number(one.toPrecision(4))).join("~") : null);
}

export function keptView() {
  const [zoom, row, column] = (remembered(VIEW) ?? "").split("~").map(Number);
  return zoom > 1 && row >= 0 && column >= 0 ? { zoom, row, column } : wholeView();
}

function canvasGeometry(map, view, width) {
  const most = width < 420 ? 64 : 90;
  const margin = { left: labelRoom(map, "queries", most), top: labelRoom(map, "keys", most) };
  const fit = Math.min((width - margin.left - 2) / map.m, MOST_HEIGHT / map.n, 30);
  const cell = fit * view.zoom;
  const [across, down] = [fit * map.m, fit * map.n];
  return { margin, cell, across, down, height: margin.top + down + 2 };
}

// As much room as the longest token takes, within limits.
function labelRoom(map, side, most) {
  map.longest ??= {};
  map.longest[side] ??= Math.max(...map[side].map((token) => spelled(token).length));
  return Math.min(most, 16 + 7 * map.longest[side]);
}

export function clampedView(map, view) {
  const most = (count) => Math.max(0, count - count / view.zoom);
  return {
    zoom: view.zoom,
    row: Math.min(Math.max(view.row, 0), most(map.n)),
    column: Math.min(Math.max(view.column, 0), most(map.m)),
  };
}

// paint(i, j) -> {fill: strength from 0 to 1 of the cell's colour, star: "hit", "miss" or null}
export function drawMatrix(canvas, map, view, paint, cursor, width) {
  const shape = canvasGeometry(map, view, width);
  const context = clearedContext(canvas, width, shape.height);
  const colours = coloursNow();
  context.save();
  context.beginPath();
  context.rect(shape.margin.left, shape.margin.top, shape.across, shape.down);
  context.clip();
  context.translate(shape.margin.left - view.column * shape.cell, shape.margin.top - view.row * shape.cell);
  const small = shape.cell < STAR_CELL;
  const image = cachedPixels(canvas, map, paint, colours, small);
  context.imageSmoothingEnabled = shape.cell * context.getTransform().a < 1;
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, map.m * shape.cell, map.n * shape.cell);
  if (!small) drawStars(context, map, view, shape, paint, colours);
  if (cursor) drawCursor(context, cursor, shape.cell, colours.text);
  context.restore();
  context.strokeStyle = colours.hidden;
  context.strokeRect(shape.margin.left - 0.5, shape.margin.top - 0.5, shape.across + 1, shape.down + 1);
  drawTokens(context, map, view, shape, colours, cursor);
  return shape;
}

// An empty canvas whose units are those of the page, whatever the screen's pixels.
function clearedContext(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

const coloursNow = () => ({
  text: styleValue("--text"),
  soft: styleValue("--soft"),
  ground: styleValue("--surface"),
  cell: styleValue("--accent"),
  miss: styleValue("--miss"),
  hidden: styleValue("--line"),
});

function drawCursor(context, { i, j }, cell, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.strokeRect(j * cell, i * cell, Math.max(cell, 3), Math.max(cell, 3));
}

// Moving the cursor over a long sentence must not paint a quarter of a million cells again.
function cachedPixels(canvas, map, paint, colours, small) {
  const key = [map, small, colours.ground];
  if (!canvas.kept || key.some((part, place) => part !== canvas.kept.key[place]))
    canvas.kept = { key, image: pixels(map, paint, colours, small) };
  return canvas.kept.image;
}

// One pixel per cell; the browser makes them larger.
function pixels(map, paint, colours, small) {
  const image = new ImageData(map.m, map.n);
  const [ground, cell, miss, hidden] = [colours.ground, colours.cell, colours.miss, colours.hidden].map(channels);
  for (let i = 0, at = 0; i < map.n; i++) {
    for (let j = 0; j < map.m; j++, at += 4) {
      const { fill, star: mark } = paint(i, j);
      const unseen = map.causal && j > i;
      const [from, to] = mark === "miss" && small ? [miss, miss] : unseen ? [hidden, hidden] : [ground, cell];
      const strength = small && mark === "hit" ? 1 : fill;
      for (let channel = 0; channel < 3; channel++)
        image.data[at + channel] = from[channel] + (to[channel] - from[channel]) * strength;
      image.data[at + 3] = 255;
    }
  }
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [map.m, map.n];
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

const channels = (hex) => [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));

function drawStars(context, map, view, { cell, across, down }, paint, colours) {
  const last = {
    row: Math.min(map.n, Math.ceil(view.row + down / cell)),
    column: Math.min(map.m, Math.ceil(view.column + across / cell)),
  };
  for (let i = Math.floor(view.row); i < last.row; i++) {
    for (let j = Math.floor(view.column); j < last.column; j++) {
      const { fill, star: mark } = paint(i, j);
      if (!mark) continue;
      const path = new Path2D(star((j + 0.5) * cell, (i + 0.5) * cell, Math.min(0.42 * cell, 10)));
      if (mark === "hit") {
        context.fillStyle = fill > DARK ? colours.ground : colours.text;
        context.fill(path);
      } else {
        context.strokeStyle = colours.miss;
        context.lineWidth = 1.4;
        context.stroke(path);
      }
    }
  }
}

function drawTokens(context, map, view, { margin, cell, across, down }, colours, cursor) {
  context.font = `${Math.min(12, Math.max(10, cell * 0.8))}px system-ui, sans-serif`;
  context.direction = "ltr";
  context.textBaseline = "middle";
  for (const i of labelled(map.n, view.row, cell, down)) {
    context.fillStyle = cursor?.i === i ? colours.text : colours.soft;
    context.textAlign = "right";
    const text = shortened(context, map.queries[i], margin.left - 10);
    context.fillText(text, margin.left - 5, margin.top + (i - view.row + 0.5) * cell);
  }
  for (const j of labelled(map.m, view.column, cell, across)) {
    context.save();
    context.fillStyle = cursor?.j === j ? colours.text : colours.soft;
    context.translate(margin.left + (j - view.column + 0.5) * cell, margin.top - 5);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillText(shortened(context, map.keys[j], margin.top - 8), 0, 0);
    context.restore();
  }
}

// The rows or columns that get a label: all that are seen, or every so many where cells are small.
function labelled(count, first, cell, length) {
  const every = Math.max(1, Math.ceil(LABEL_SPACE / cell));
  const middle = (place) => (place - first + 0.5) * cell;
  const places = [];
  for (
    let place = Math.ceil(Math.floor(first) / every) * every;
    place < count && middle(place) < length;
    place += every
  )
    if (middle(place) > 0) places.push(place);
  return places;
}

function shortened(context, token, room) {
  let text = spelled(token);
  if (context.measureText(text).width <= room) return text;
  while (text.length > 1 && context.measureText(`${text}…`).width > room) text = text.slice(0, -1);
  return `${text}…`;
}
