// @ts-check
/**
 * Leaders on paths: the nearest object ahead whose box overlaps the path of a vehicle, as wide as the vehicle.
 * Mirrors `simulation/lanes/leaders.py` (write_object, find_leader, first_contact).
 */

import { FADE_M, indexAlong, lineAt, offsetAt, PATH_STEP_M } from "l5kit/drive/lane_paths";

const LAP_M = 0.2;
const JUMP_FROM = 9;
const ROUNDING_M = 1e-6;

/** @typedef {import("l5kit/drive/lane_paths").LanePath} LanePath */
/** @typedef {{x: number, y: number, cos: number, sin: number, halfLength: number, halfWidth: number, vx: number, vy: number, radius: number}} RoadObject */
/** @typedef {{arc: number, entry: number, offset: number, slope: number}} Position position of a vehicle on its path */
/** @typedef {[number, number, number, number]} Ray a point and a unit vector */

/**
 * Mirrors `write_object`.
 * @param {import("l5kit/drive/boxes_apart").DrivenBox} box
 * @param {number} vx
 * @param {number} vy
 * @returns {RoadObject}
 */
export function objectOf(box, vx, vy) {
  return {
    x: box.x,
    y: box.y,
    cos: Math.cos(box.yaw),
    sin: Math.sin(box.yaw),
    halfLength: 0.5 * box.length,
    halfWidth: 0.5 * box.width,
    vx,
    vy,
    radius: 0.5 * Math.sqrt(box.length * box.length + box.width * box.width),
  };
}

/**
 * Mirrors `find_leader`.
 * @param {LanePath} path
 * @param {Position} position
 * @param {[number, number]} size half length and half width of the vehicle
 * @param {number} reach_m
 * @param {RoadObject[]} objects
 * @param {RoadObject | null} own the vehicle itself, if among them
 * @returns {[number, number]} gap, infinite without a leader, and its speed along the path
 */
export function findLeader(path, position, size, reach_m, objects, own) {
  const { points, numPoints } = path;
  const { arc, entry, offset, slope } = position;
  const first = indexAlong(arc, numPoints - 2);
  const stop_m = arc + size[0] + reach_m;
  const last = indexAlong(stop_m, numPoints - 2) + 1;
  const left_m = arc - entry < FADE_M ? Math.abs(offset) + (4 / 27) * FADE_M * Math.abs(slope) : 0;
  const wide_m = size[1] + left_m;
  const [x, y, alongX, alongY] = lineAt(path, arc);
  const ray = rayOf(points, first, last);
  const [lowAhead, highAhead, lowLeft, highLeft, goesAhead] = boundsOf(points, first, last, ray);
  const [middleAhead, middleLeft] = [0.5 * (lowAhead + highAhead), 0.5 * (lowLeft + highLeft)];
  const halfAhead = 0.5 * (highAhead - lowAhead) + wide_m + LAP_M + ROUNDING_M;
  const halfLeft = 0.5 * (highLeft - lowLeft) + wide_m + ROUNDING_M;
  let [best_m, bestSpeed] = [stop_m, 0];
  const begin_m = first * PATH_STEP_M;
  for (const item of objects) {
    const [x_m, y_m] = [item.x - ray[0], item.y - ray[1]];
    const [ahead_m, beside_m] = [x_m * ray[2] + y_m * ray[3], y_m * ray[2] - x_m * ray[3]];
    const outside_m = Math.max(Math.abs(ahead_m - middleAhead) - halfAhead, Math.abs(beside_m - middleLeft) - halfLeft);
    if (outside_m > item.radius) continue;
    const most_m = Math.max(best_m - begin_m, 0) + item.radius + wide_m + LAP_M;
    if (item === own || x_m * x_m + y_m * y_m > most_m * most_m) continue;
    const along = Math.abs(item.cos * ray[2] + item.sin * ray[3]);
    const across = Math.abs(item.sin * ray[2] - item.cos * ray[3]);
    const near_m = along * item.halfLength + across * item.halfWidth + wide_m + LAP_M;
    const wideNear_m = across * item.halfLength + along * item.halfWidth + wide_m;
    if (ahead_m < lowAhead - near_m || ahead_m > highAhead + near_m) continue;
    if (beside_m < lowLeft - wideNear_m || beside_m > highLeft + wideNear_m) continue;
    const start = first + Math.max(Math.trunc((ahead_m - near_m) / PATH_STEP_M) - 1, 0);
    const leave_m = goesAhead ? ahead_m + near_m : Infinity;
    const [contact_m, speed] = firstContact(path, position, [size[1], wide_m], [start, best_m, leave_m], ray, item);
    const isBeside = contact_m < arc + size[0];
    if (isBeside && (item.x - x) * alongX + (item.y - y) * alongY <= 0) continue;
    if (contact_m < best_m) [best_m, bestSpeed] = [contact_m, speed];
  }
  if (best_m >= stop_m) return [Infinity, 0];
  return [best_m - arc - size[0], bestSpeed];
}

/** Mirrors `_frame_of`. @param {Float64Array} points @param {number} first @param {number} last @returns {Ray} */
function rayOf(points, first, last) {
  const [x, y] = [points[2 * last] - points[2 * first], points[2 * last + 1] - points[2 * first + 1]];
  const length_m = Math.sqrt(x * x + y * y);
  if (length_m < 1e-9) return [points[2 * first], points[2 * first + 1], 1, 0];
  return [points[2 * first], points[2 * first + 1], x / length_m, y / length_m];
}

/**
 * Mirrors `_bounds_of`.
 * @param {Float64Array} points
 * @param {number} first
 * @param {number} last
 * @param {Ray} ray
 * @returns {[number, number, number, number, boolean]}
 */
function boundsOf(points, first, last, ray) {
  let [lowAhead, highAhead, lowLeft, highLeft, goesAhead, before_m] = [0, 0, 0, 0, true, 0];
  for (let point = first + 1; point <= last; point += 1) {
    const [x, y] = [points[2 * point] - ray[0], points[2 * point + 1] - ray[1]];
    const [ahead_m, left_m] = [x * ray[2] + y * ray[3], y * ray[2] - x * ray[3]];
    goesAhead = goesAhead && ahead_m >= before_m;
    before_m = ahead_m;
    [lowAhead, highAhead] = [Math.min(lowAhead, ahead_m), Math.max(highAhead, ahead_m)];
    [lowLeft, highLeft] = [Math.min(lowLeft, left_m), Math.max(highLeft, left_m)];
  }
  return [lowAhead, highAhead, lowLeft, highLeft, goesAhead];
}

/**
 * Mirrors `first_contact`.
 * @param {LanePath} path
 * @param {Position} position
 * @param {[number, number]} width half width of the path, and its largest distance from the line
 * @param {[number, number, number]} span first point, arc length, and distance ahead at which the search ends
 * @param {Ray} ray
 * @param {RoadObject} item
 * @returns {[number, number]} arc of the contact, infinite for none, and its speed along the path
 */
function firstContact({ points, numPoints }, { arc, entry, offset, slope }, width, span, ray, item) {
  const [half_m, wide_m] = width;
  let [point] = span;
  const [, stop_m, leave_m] = span;
  const near_m2 = (PATH_STEP_M + LAP_M) ** 2 + wide_m * wide_m;
  const last = numPoints - 1;
  while (point < last && point * PATH_STEP_M < stop_m) {
    const [px, py] = [points[2 * point], points[2 * point + 1]];
    if ((px - ray[0]) * ray[2] + (py - ray[1]) * ray[3] > leave_m) break;
    const [x, y] = [item.x - px, item.y - py];
    const farX = Math.max(Math.abs(x * item.cos + y * item.sin) - item.halfLength, 0);
    const farY = Math.max(Math.abs(y * item.cos - x * item.sin) - item.halfWidth, 0);
    const far_m2 = farX * farX + farY * farY;
    if (far_m2 > near_m2) {
      let jump = 1;
      if (far_m2 > JUMP_FROM * near_m2) jump = Math.max(indexAlong(Math.sqrt(far_m2) - Math.sqrt(near_m2), last), 1);
      point += jump;
      continue;
    }
    const alongX = (points[2 * point + 2] - px) / PATH_STEP_M;
    const alongY = (points[2 * point + 3] - py) / PATH_STEP_M;
    const begin_m = point * PATH_STEP_M;
    let left_m = 0;
    if (begin_m - entry < FADE_M) left_m = offsetAt(begin_m + 0.5 * PATH_STEP_M - entry, offset, slope)[0];
    const [ahead_m, beside_m] = [x * alongX + y * alongY, y * alongX - x * alongY - left_m];
    const [cos, sin] = [item.cos * alongX + item.sin * alongY, item.sin * alongX - item.cos * alongY];
    const low_m = Math.max(-LAP_M, arc - begin_m);
    const high_m = PATH_STEP_M + LAP_M;
    const met_m = nearestInStrip([ahead_m, beside_m], [cos, sin], item, half_m, low_m, high_m + ROUNDING_M);
    if (met_m <= high_m) return [begin_m + met_m, item.vx * alongX + item.vy * alongY];
    point += 1;
  }
  return [Infinity, 0];
}

/**
 * Mirrors `_nearest_in_strip`.
 * @param {[number, number]} centre
 * @param {[number, number]} direction
 * @param {RoadObject} item
 * @param {number} half_m of the strip
 * @param {number} low_m
 * @param {number} high_m
 * @returns {number}
 */
function nearestInStrip([x, y], [cos, sin], { halfLength, halfWidth }, half_m, low_m, high_m) {
  const [longX, longY, wideX, wideY] = [halfLength * cos, halfLength * sin, -halfWidth * sin, halfWidth * cos];
  const [reachX, reachY] = [Math.abs(longX) + Math.abs(wideX), Math.abs(longY) + Math.abs(wideY)];
  if (x + reachX <= low_m || x - reachX > high_m || Math.abs(y) - reachY >= half_m) return Infinity;
  let [nearest_m, farthest_m] = [Infinity, -Infinity];
  let [beforeX, beforeY] = [x + longX - wideX, y + longY - wideY];
  for (let corner = 0; corner < 4; corner += 1) {
    const signLong = corner === 0 || corner === 3 ? 1 : -1;
    const signWide = corner < 2 ? 1 : -1;
    const cornerX = x + signLong * longX + signWide * wideX;
    const cornerY = y + signLong * longY + signWide * wideY;
    if (Math.abs(cornerY) <= half_m)
      [nearest_m, farthest_m] = [Math.min(nearest_m, cornerX), Math.max(farthest_m, cornerX)];
    const stepY = cornerY - beforeY;
    for (const side of [-half_m, half_m]) {
      if (beforeY < side !== cornerY < side) {
        const cutX = beforeX + ((side - beforeY) / stepY) * (cornerX - beforeX);
        [nearest_m, farthest_m] = [Math.min(nearest_m, cutX), Math.max(farthest_m, cutX)];
      }
    }
    [beforeX, beforeY] = [cornerX, cornerY];
  }
  return farthest_m > low_m ? Math.max(nearest_m, low_m) : Infinity;
}
