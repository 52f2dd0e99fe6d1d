// @ts-check
/**
 * Paths along lanes: pose at an arc length, position of a vehicle on its path, and speeds in bends.
 * Mirrors `lanes/lane_paths.py` (index_along, piece_at, speed_in_bend) and `lanes/path_positions.py` (offset_at, line_at,
 * pose_at, points_around, find_on_path, follow_route, FollowedPlaces).
 */

import { wrapAngle } from "l5kit/drive/boxes_apart";

export const PATH_STEP_M = 2;
export const FADE_M = 20;
const [BACK_M, ON_M] = [10, 40];
const STEEPEST = 1;
const [SAME_LINE_M, SAME_WAY] = [0.25, 0.5];
const NEVER = -2;

/**
 * @typedef {object} LanePath one path
 * @property {Float64Array} points x0, y0, x1, y1 ..., 2 m apart
 * @property {number} numPoints
 * @property {number} length_m
 * @property {Float64Array} pieceArcs arc at which each piece starts
 * @property {Float64Array} limits speed limit of each piece
 * @property {Int32Array} lineLanes two lanes per piece whose red lights stop vehicles before it, -1 for none
 */

/**
 * @param {Record<string, any>} arrays of a scene
 * @param {string} name such as "path"
 * @returns {(LanePath | null)[]} null for a track without a path
 */
export function readPaths(arrays, name) {
  const [starts, pieces] = [arrays[`${name}_starts`], arrays[`${name}_piece_starts`]];
  return Array.from({ length: starts.length - 1 }, (_, track) => {
    const [first, end, piece, stop] = [starts[track], starts[track + 1], pieces[track], pieces[track + 1]];
    if (first === end) return null;
    return {
      points: arrays[`${name}_points`].subarray(2 * first, 2 * end),
      numPoints: end - first,
      length_m: arrays[`${name}_lengths`][track],
      pieceArcs: arrays[`${name}_piece_arcs`].subarray(piece, stop),
      limits: arrays[`${name}_limits`].subarray(piece, stop),
      lineLanes: arrays[`${name}_line_lanes`].subarray(2 * piece, 2 * stop),
    };
  });
}

/** Mirrors `index_along`. @param {number} arc_m @param {number} last @returns {number} point before an arc length */
export function indexAlong(arc_m, last) {
  const position = arc_m / PATH_STEP_M;
  if (!(position > 0)) return 0;
  return position >= last ? last : Math.trunc(position);
}

/** Mirrors `piece_at`. @param {LanePath} path @param {number} piece start of the search @param {number} arc_m @returns {number} */
export function pieceAt({ pieceArcs }, piece, arc_m) {
  let at = piece;
  while (at < pieceArcs.length - 1 && pieceArcs[at + 1] <= arc_m) at += 1;
  return at;
}

/** Mirrors `limit_at`. @param {LanePath} path @param {number} arc_m @returns {number} speed limit, m/s */
export function limitAt(path, arc_m) {
  return path.limits[pieceAt(path, 0, arc_m)];
}

/** Mirrors `speed_in_bend`. @param {LanePath} path @param {number} point @param {number} lateral_mps2 @returns {number} m/s */
export function speedInBend({ points, numPoints }, point, lateral_mps2) {
  const [before, after] = [Math.max(point - 2, 0), Math.min(point + 2, numPoints - 1)];
  if (before === point || after === point) return Infinity;
  const [x, y] = [points[2 * point] - points[2 * before], points[2 * point + 1] - points[2 * before + 1]];
  const [nextX, nextY] = [points[2 * after] - points[2 * point], points[2 * after + 1] - points[2 * point + 1]];
  const turn = Math.abs(Math.atan2(x * nextY - y * nextX, x * nextX + y * nextY));
  const curvature = turn / (0.5 * (after - before) * PATH_STEP_M);
  return curvature > 1e-6 ? Math.sqrt(lateral_mps2 / curvature) : Infinity;
}

/**
 * Mirrors `offset_at`.
 * @param {number} driven_m
 * @param {number} offset_m
 * @param {number} slope
 * @returns {[number, number]} offset to the left of the path, and its change per metre
 */
export function offsetAt(driven_m, offset_m, slope) {
  if (driven_m >= FADE_M) return [0, 0];
  const part = Math.max(driven_m, 0) / FADE_M;
  const left = 1 - part;
  const distance_m = (offset_m * (1 + 2 * part) + slope * FADE_M * part) * left * left;
  const change = (offset_m / FADE_M) * 6 * part * (part - 1) + slope * left * (1 - 3 * part);
  return [distance_m, change];
}

/**
 * Mirrors `line_at`.
 * @param {LanePath} path
 * @param {number} arc_m
 * @returns {[number, number, number, number]} x and y, and the unit vector along the path
 */
export function lineAt({ points, numPoints }, arc_m) {
  const edge = indexAlong(arc_m, numPoints - 2);
  const part = arc_m / PATH_STEP_M - edge;
  const [before, after] = [Math.max(edge - 1, 0), Math.min(edge + 2, numPoints - 1)];
  const [x, y, nextX, nextY] = [points[2 * edge], points[2 * edge + 1], points[2 * edge + 2], points[2 * edge + 3]];
  const weight = Math.min(Math.max(part, 0), 1);
  let alongX = (1 - weight) * (nextX - points[2 * before]);
  alongX += weight * (points[2 * after] - x);
  let alongY = (1 - weight) * (nextY - points[2 * before + 1]);
  alongY += weight * (points[2 * after + 1] - y);
  const length = Math.max(Math.sqrt(alongX * alongX + alongY * alongY), 1e-12);
  return [x + part * (nextX - x), y + part * (nextY - y), alongX / length, alongY / length];
}

/**
 * Mirrors `pose_at`.
 * @param {LanePath} path
 * @param {number} arc_m
 * @param {{entry: number, offset: number, slope: number}} motion
 * @returns {[number, number, number]} x, y and yaw
 */
export function poseAt(path, arc_m, { entry, offset, slope }) {
  const [x, y, alongX, alongY] = lineAt(path, arc_m);
  const [left_m, change] = offsetAt(arc_m - entry, offset, slope);
  return [x - left_m * alongY, y + left_m * alongX, Math.atan2(alongY, alongX) + Math.atan(change)];
}

/** Mirrors `points_around`. @param {number} arc_m @param {number} numPoints @returns {[number, number]} first and end */
export function pointsAround(arc_m, numPoints) {
  return [indexAlong(arc_m - BACK_M, numPoints - 1), indexAlong(arc_m + ON_M, numPoints - 1) + 1];
}

/**
 * Mirrors `find_on_path`.
 * @param {LanePath} path
 * @param {number} first of the searched points
 * @param {number} stop
 * @param {{x: number, y: number, yaw: number}} pose
 * @returns {[number, number, number]} arc length, offset and slope
 */
export function findOnPath(path, first, stop, { x, y, yaw }) {
  const { points } = path;
  const squared = (/** @type {number} */ point) => (points[2 * point] - x) ** 2 + (points[2 * point + 1] - y) ** 2;
  let [nearest, nearest_m2] = [first, Infinity];
  for (let point = first; point < stop; point += 1) {
    const far_m2 = squared(point);
    if (far_m2 < nearest_m2) [nearest, nearest_m2] = [point, far_m2];
  }
  const most_m2 = (Math.sqrt(nearest_m2) + PATH_STEP_M / 2) ** 2;
  const [lineX, lineY, alongX, alongY] = lineAt(path, nearest * PATH_STEP_M);
  const aside_m = (y - lineY) * alongX - (x - lineX) * alongY;
  for (let point = first; point < nearest - 1; point += 1) {
    const far_m2 = squared(point);
    const isAfterDip = point > first && squared(point - 1) < far_m2;
    if (far_m2 > most_m2 || isAfterDip || squared(point + 1) < far_m2) continue;
    const [px, py, otherX, otherY] = lineAt(path, point * PATH_STEP_M);
    const other_m = (y - py) * otherX - (x - px) * otherY;
    if (otherX * alongX + otherY * alongY > SAME_WAY && Math.abs(other_m - aside_m) < SAME_LINE_M) {
      nearest = point;
      break;
    }
  }
  let arc_m = nearest * PATH_STEP_M;
  const end_m = (path.numPoints - 1) * PATH_STEP_M;
  for (let round = 0; round < 6; round += 1) {
    const [px, py, ax, ay] = lineAt(path, arc_m);
    const step_m = (x - px) * ax + (y - py) * ay;
    arc_m = Math.min(Math.max(arc_m + step_m, -FADE_M), end_m);
  }
  const [px, py, ax, ay] = lineAt(path, arc_m);
  const turn = wrapAngle(yaw - Math.atan2(ay, ax));
  let slope = turn > 0 ? STEEPEST : -STEEPEST;
  if (Math.abs(turn) < Math.PI / 4) slope = Math.tan(turn);
  return [arc_m, (y - py) * ax - (x - px) * ay, slope];
}

/** @typedef {[number, number, number]} RoutePosition arc length, offset to the left, and heading relative to the path */

/**
 * Mirrors `follow_route` for a vehicle that was on the path before.
 * @param {LanePath} path
 * @param {{x: number, y: number, yaw: number}} pose
 * @param {RoutePosition} before its last position
 * @returns {RoutePosition}
 */
export function followRoute(path, pose, [before_m]) {
  const [arc_m, offset_m] = findOnPath(path, ...pointsAround(before_m, path.numPoints), pose);
  const [, , alongX, alongY] = lineAt(path, arc_m);
  const turn = wrapAngle(pose.yaw - Math.atan2(alongY, alongX));
  return [arc_m, offset_m, turn < Math.PI ? turn : -Math.PI];
}

/** Mirrors `FollowedPlaces` for one vehicle. */
export class FollowedPosition {
  constructor() {
    /** @type {number} */
    this.frame = NEVER;
    /** @type {number} */
    this.frameBefore = NEVER;
    /** @type {RoutePosition} */
    this.position = [0, 0, 0];
    /** @type {RoutePosition} */
    this.positionBefore = [0, 0, 0];
  }

  /**
   * @param {LanePath} path
   * @param {number} frame
   * @param {{x: number, y: number, yaw: number}} pose in the frame
   * @param {number} first_m where the search starts for a new vehicle
   * @returns {RoutePosition}
   */
  follow(path, frame, pose, first_m) {
    const isAgain = this.frame === frame;
    const frameBefore = isAgain ? this.frameBefore : this.frame;
    const before = isAgain ? this.positionBefore : this.position;
    const isFirst = frameBefore < 0 || frameBefore > frame;
    /** @type {RoutePosition} */
    let position = isFirst ? [first_m, before[1], before[2]] : before;
    const numReaches = isFirst ? 1 : frame - frameBefore; // one per frame since
    for (let reach = 0; reach < numReaches; reach += 1) position = followRoute(path, pose, position);
    [this.frame, this.frameBefore, this.positionBefore, this.position] = [frame, frameBefore, before, position];
    return position;
  }
}
