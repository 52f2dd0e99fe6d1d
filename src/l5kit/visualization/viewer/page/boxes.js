// @ts-check
/** Oriented boxes of agents: positions, outlines, overlaps, and containment of points. */

const CORNER_M = 0.4; // radius
const CORNER_STEPS = 3;
const ROUND_FROM = 5; // CSS pixels per metre; corners of smaller boxes are square
const LEAST_PX = 5;

/** @typedef {{track: number, row: number, x: number, y: number, yaw: number, length: number, width: number}} Box */

/**
 * @param {Pick<import("l5kit/unpack").SceneArrays, "agent_track" | "agent_xy" | "agent_yaw" | "agent_extent">} arrays
 * @param {number} row
 * @returns {Box | null} metres from the origin of the scene; null if position, heading or size are unknown
 */
export function agentBox(arrays, row) {
  const box = {
    track: arrays.agent_track[row],
    row,
    x: arrays.agent_xy[2 * row],
    y: arrays.agent_xy[2 * row + 1],
    yaw: arrays.agent_yaw[row],
    length: arrays.agent_extent[3 * row],
    width: arrays.agent_extent[3 * row + 1],
  };
  return Object.values(box).every(Number.isFinite) ? box : null;
}

/** @param {Box} box @param {number} scale @returns {Box} as drawn, with a minimum size in pixels */
export function drawnBox(box, scale) {
  const least = LEAST_PX / scale;
  return { ...box, length: Math.max(box.length, least), width: Math.max(box.width, least) };
}

/**
 * @param {Box} box
 * @param {number} along metres ahead of its centre
 * @param {number} aside to its left
 * @returns {number[]}
 */
export function pointOf({ x, y, yaw }, along, aside) {
  const [cos, sin] = [Math.cos(yaw), Math.sin(yaw)];
  return [x + along * cos - aside * sin, y + along * sin + aside * cos];
}

/**
 * @param {Box} box
 * @param {number} scale
 * @param {number} [margin_m] added on all sides
 * @returns {number[]} counter-clockwise
 */
export function outline(box, scale, margin_m = 0) {
  const [length, width] = [box.length / 2 + margin_m, box.width / 2 + margin_m];
  if (scale < ROUND_FROM)
    return [
      [1, 1],
      [-1, 1],
      [-1, -1],
      [1, -1],
    ].flatMap(([a, b]) => pointOf(box, a * length, b * width));
  const radius = Math.min(CORNER_M + margin_m, 0.35 * box.width + margin_m, 0.35 * box.length + margin_m);
  const points = [];
  for (let corner = 0; corner < 4; corner++) {
    const along = (corner === 0 || corner === 3 ? 1 : -1) * (length - radius);
    const aside = (corner < 2 ? 1 : -1) * (width - radius);
    for (let step = 0; step <= CORNER_STEPS; step++) {
      const angle = (corner + step / CORNER_STEPS) * (Math.PI / 2);
      points.push(...pointOf(box, along + radius * Math.cos(angle), aside + radius * Math.sin(angle)));
    }
  }
  return points;
}

/** @param {Box} box @param {number} x @param {number} y @returns {number} metres from the box, 0 within it */
export function distanceTo(box, x, y) {
  const [dx, dy] = [x - box.x, y - box.y];
  const [cos, sin] = [Math.cos(box.yaw), Math.sin(box.yaw)];
  const along = Math.abs(dx * cos + dy * sin) - box.length / 2;
  const aside = Math.abs(dy * cos - dx * sin) - box.width / 2;
  return Math.hypot(Math.max(along, 0), Math.max(aside, 0));
}

/** @param {Box} a @param {Box} b @returns {boolean} whether they overlap, by the separating axis theorem */
export function overlap(a, b) {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  if (Math.hypot(dx, dy) > (Math.hypot(a.length, a.width) + Math.hypot(b.length, b.width)) / 2) return false;
  const [cos, sin] = [Math.abs(Math.cos(a.yaw - b.yaw)), Math.abs(Math.sin(a.yaw - b.yaw))];
  return [
    [a, b],
    [b, a],
  ].every(([one, other]) => {
    const [ux, uy] = [Math.cos(one.yaw), Math.sin(one.yaw)];
    const along = (one.length + other.length * cos + other.width * sin) / 2;
    const across = (one.width + other.length * sin + other.width * cos) / 2;
    return Math.abs(dx * ux + dy * uy) < along && Math.abs(dy * ux - dx * uy) < across;
  });
}

/** @param {Box[]} boxes @returns {Set<Box>} boxes that overlap another box */
export function overlapping(boxes) {
  /** @type {Set<Box>} */
  const found = new Set();
  for (let one = 1; one < boxes.length; one++)
    for (let other = 0; other < one; other++)
      if (overlap(boxes[one], boxes[other])) found.add(boxes[one]).add(boxes[other]);
  return found;
}
