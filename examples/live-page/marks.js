// The marks of sensors: a colour and a shape each, and dashes from the fifth on.

const COLOURS = 4;
const SHAPES = [
  "M-5,0A5,5 0 1 0 5,0A5,5 0 1 0 -5,0Z",
  "M-5,-5H5V5H-5Z",
  "M0,-6L6,5H-6Z",
  "M0,-6.5L6.5,0L0,6.5L-6.5,0Z",
];
const DASHES = ["", "7 4", "2 4"];

/**
 * The class that gives a sensor its colour.
 *
 * @param {number} index
 */
export function colourClass(index) {
  return `series-${index % COLOURS}`;
}

/** @param {number} index */
export function dashes(index) {
  return DASHES[Math.floor(index / COLOURS) % DASHES.length] ?? "";
}

/**
 * The shape of a sensor, around the origin.
 *
 * @param {number} index
 */
export function mark(index) {
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", SHAPES[index % SHAPES.length] ?? "");
  path.setAttribute("class", `mark ${colourClass(index)}`);
  return path;
}
