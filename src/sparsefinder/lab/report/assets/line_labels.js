// Names of methods at the ends of their lines, one below the other where they would meet. What is longer than the room
// for names goes on in a second line, and is cut only where there is no room for that either.

import { draw } from "report/elements.js";

const APART = 13;
const LETTER = 6.3;
const LONGEST = { narrow: 13, wide: 20 };

// The names of lines, each as what is written one below the other.
function written(labels, { width, inner }) {
  const most = width < 480 ? LONGEST.narrow : LONGEST.wide;
  const folded = labels.map((label) => folds(label, most).map((line) => shortened(line, most)));
  const room = Math.floor((inner.bottom - inner.top) / APART);
  return folded.flat().length <= room ? folded : labels.map((label) => [shortened(label, most)]);
}

// How much room names take to the right of a chart; frame: its width, and what is within its axes.
export function labelRoom(lines, frame) {
  const all = written(
    lines.map(({ label }) => label),
    frame,
  ).flat();
  return all.length ? LETTER * Math.max(...all.map((line) => line.length)) + 22 : 16;
}

// ends: [{label, px, py, group}]: where each line ends, and what it is drawn in.
export function labelEnds(ends, frame) {
  const names = written(
    ends.map(({ label }) => label),
    frame,
  );
  const { inner } = frame;
  const placed = spread(
    ends.map(({ py }, place) => ({ at: py, half: (names[place].length * APART) / 2 })),
    inner,
  );
  ends.forEach(({ px, py, group }, place) => {
    const [at, lines] = [placed[place], names[place]];
    const first = at + 4 - ((lines.length - 1) * APART) / 2;
    const x = inner.right + 9;
    const words = lines.map((line, number) => draw("tspan", { x, y: first + number * APART }, line));
    group.append(
      draw("path", { class: "leader", d: `M${px + 5} ${py}L${inner.right + 6} ${at}` }),
      draw("text", { class: "end", x, y: first }, ...words.flatMap((word, number) => (number ? [" ", word] : [word]))),
    );
  });
}

// The middles of names, moved apart as little as it takes, from the top down and then back up from the bottom.
function spread(names, { top, bottom }) {
  const order = [...names.keys()].sort((one, other) => names[one].at - names[other].at);
  const placed = names.map(({ at }) => at);
  let least = top - APART / 2;
  for (const place of order) {
    placed[place] = Math.max(placed[place], least + names[place].half);
    least = placed[place] + names[place].half;
  }
  // The last stays above the numbers of the axis.
  let most = bottom - 2 + APART / 2;
  for (const place of order.toReversed()) {
    placed[place] = Math.min(placed[place], most - names[place].half);
    most = placed[place] - names[place].half;
  }
  return placed;
}

// Lines of at most so many letters, of whole words.
function folds(label, most) {
  const lines = [];
  for (const word of label.split(" "))
    if (lines.length && lines.at(-1).length + 1 + word.length <= most) lines.push(`${lines.pop()} ${word}`);
    else lines.push(word);
  return lines;
}

const shortened = (label, most) => (label.length > most ? `${label.slice(0, most - 1)}…` : label);
