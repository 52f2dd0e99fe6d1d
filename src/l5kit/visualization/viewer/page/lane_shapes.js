// @ts-check
/** Geometry of lanes: lanes at a point, midlines and borders. Metres from the origin of the map. */

/** @typedef {Pick<import("l5kit/unpack").MapArrays, "lane_starts" | "lane_left_counts" | "lane_xy">} LaneOutlines */

const MIDLINE_POINTS = 24;

/**
 * @param {LaneOutlines} arrays
 * @param {number} x
 * @param {number} y
 * @returns {number[]} the lanes that contain the point, nearest midline first
 */
export function lanesAt(arrays, x, y) {
  /** @type {{lane: number, away: number}[]} */
  const found = [];
  for (let lane = 0; lane + 1 < arrays.lane_starts.length; lane += 1) {
    if (isInside(arrays.lane_xy, arrays.lane_starts[lane], arrays.lane_starts[lane + 1], x, y)) {
      const { left, right } = bordersOf(arrays, lane);
      found.push({ lane, away: Math.abs(distanceToLine(left, x, y) - distanceToLine(right, x, y)) });
    }
  }
  return found.sort((a, b) => a.away - b.away).map(({ lane }) => lane);
}

/**
 * @param {LaneOutlines} arrays
 * @param {number} lane
 * @returns {{left: number[], right: number[]}} both in the direction of the lane, x0, y0, x1, y1 ...
 */
export function bordersOf({ lane_starts, lane_left_counts, lane_xy }, lane) {
  const split = lane_starts[lane] + lane_left_counts[lane];
  const right = [];
  for (let at = lane_starts[lane + 1] - 1; at >= split; at -= 1) right.push(lane_xy[2 * at], lane_xy[2 * at + 1]);
  return { left: Array.from(lane_xy.subarray(2 * lane_starts[lane], 2 * split)), right };
}

/** @param {LaneOutlines} arrays @param {number} lane @returns {number[]} x0, y0, x1, y1 ... in its direction */
export function midlineOf(arrays, lane) {
  const { left, right } = bordersOf(arrays, lane);
  const points = [];
  for (let at = 0; at < MIDLINE_POINTS; at += 1) {
    const [a, b] = [left, right].map((line) => pointAlong(line, at / (MIDLINE_POINTS - 1)));
    points.push((a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
  }
  return points;
}

/** @param {number[]} line @param {number} part of its length, 0 to 1 @returns {number[]} */
export function pointAlong(line, part) {
  const steps = [];
  for (let at = 2; at < line.length; at += 2)
    steps.push(Math.hypot(line[at] - line[at - 2], line[at + 1] - line[at - 1]));
  let left_m = part * steps.reduce((sum, step) => sum + step, 0);
  for (let at = 0; at < steps.length; at += 1) {
    const last = at === steps.length - 1;
    if (left_m > steps[at] && !last) {
      left_m -= steps[at];
      continue;
    }
    const share = steps[at] > 0 ? Math.min(left_m / steps[at], 1) : 0;
    return [0, 1].map((axis) => line[2 * at + axis] + share * (line[2 * at + 2 + axis] - line[2 * at + axis]));
  }
  return [line[0], line[1]];
}

/** @param {Float32Array} xy @param {number} start @param {number} end @param {number} x @param {number} y @returns {boolean} */
function isInside(xy, start, end, x, y) {
  let inside = false;
  for (let at = start, before = end - 1; at < end; before = at, at += 1) {
    const [ax, ay, bx, by] = [xy[2 * at], xy[2 * at + 1], xy[2 * before], xy[2 * before + 1]];
    if (ay > y !== by > y && x < ax + ((bx - ax) * (y - ay)) / (by - ay)) inside = !inside;
  }
  return inside;
}

/** @param {number[]} line @param {number} x @param {number} y @returns {number} */
function distanceToLine(line, x, y) {
  let least = Infinity;
  for (let at = 0; at + 3 < line.length; at += 2) {
    const [dx, dy] = [line[at + 2] - line[at], line[at + 3] - line[at + 1]];
    const along = ((x - line[at]) * dx + (y - line[at + 1]) * dy) / (dx * dx + dy * dy || 1);
    const share = Math.min(Math.max(along, 0), 1);
    least = Math.min(least, Math.hypot(x - line[at] - share * dx, y - line[at + 1] - share * dy));
  }
  return least;
}
