// @ts-check
/**
 * Route tracking: acceleration and curvature of the next step for a desired acceleration.
 * Mirrors `simulation/lanes/route_tracking.py` (_highest_speed, track_route).
 */

import { wrapAngle } from "l5kit/drive/boxes_apart";
import { indexAlong, lineAt, PATH_STEP_M, pieceAt, speedInBend } from "l5kit/drive/lane_paths";

const HARDEST_BRAKING_MPS2 = 3.7;
const EMERGENCY_BRAKING_MPS2 = 6;
const [FIRST_JERK_MPS3, JERK_GROWTH_1PS, MOST_JERK_MPS3, EMERGENCY_JERK_MPS3] = [1, 1.5, 3.7, 12];
const [BEND_MPS2, BRAKING_MPS2] = [2.5, 2];
const [HOLD_S, EARLY_S] = [0.6, 1.2];
const MOST_YAW_ACCELERATION_RADPS2 = 1.6;
const MOST_LATERAL_JERK_MPS3 = 6;
const SLOWEST_MPS = 2;
const [LEAST_AHEAD_M, AHEAD_S] = [4, 0.8];
const PREVIEW_S = 0.3;
const SPAN_M = 2;

/** @typedef {import("l5kit/drive/lane_paths").LanePath} LanePath */
/** @typedef {import("l5kit/drive/lane_paths").RoutePosition} RoutePosition */

/**
 * Mirrors `_highest_speed`.
 * @param {LanePath} path
 * @param {number} arc_m
 * @param {number} speed
 * @returns {number} m/s
 */
function highestSpeed(path, arc_m, speed) {
  const [last, near_m] = [path.numPoints - 1, arc_m + EARLY_S * speed];
  let piece = pieceAt(path, 0, arc_m);
  let highest = path.limits[piece];
  const end_m = near_m + (speed * speed) / (2 * BRAKING_MPS2);
  for (let point = indexAlong(arc_m, last); point <= indexAlong(end_m, last); point += 1) {
    piece = pieceAt(path, piece, point * PATH_STEP_M);
    const there = Math.min(speedInBend(path, point, BEND_MPS2), path.limits[piece]);
    const ahead_m = Math.max(point * PATH_STEP_M - near_m, 0);
    highest = Math.min(highest, Math.sqrt(there * there + 2 * BRAKING_MPS2 * ahead_m));
  }
  return highest;
}

/**
 * Mirrors `track_route` for a vehicle with a route.
 * @param {LanePath} path
 * @param {RoutePosition} position
 * @param {{speed: number, acceleration: number, steering: number}} motion
 * @param {[number, number]} axles_m distance of the rear axle behind the centre, and the wheelbase
 * @param {number} wanted_mps2
 * @param {number} step_s
 * @returns {[number, number]} acceleration, m/s2, and curvature of the rear axle, 1/m
 */
export function trackRoute(
  path,
  [arc_m, left_m, turn],
  { speed, acceleration, steering },
  axles_m,
  wanted_mps2,
  step_s,
) {
  const highest = highestSpeed(path, arc_m, Math.max(speed, 0));
  let wanted = Math.min(wanted_mps2, Math.max((highest - speed) / HOLD_S, -HARDEST_BRAKING_MPS2));
  const isEmergency = wanted < -HARDEST_BRAKING_MPS2;
  wanted = Math.max(wanted, -EMERGENCY_BRAKING_MPS2);

  const mostJerk = isEmergency ? EMERGENCY_JERK_MPS3 : MOST_JERK_MPS3;
  const growingJerk = FIRST_JERK_MPS3 + JERK_GROWTH_1PS * Math.abs(acceleration);
  const change = (isEmergency ? mostJerk : Math.min(growingJerk, mostJerk)) * step_s;
  let next = Math.min(Math.max(wanted, acceleration - change), acceleration + change);
  const left = Math.max(speed, 0);
  next = Math.max(next, -Math.min(Math.sqrt(2 * mostJerk * left), left / step_s));

  const pace = Math.max(speed, SLOWEST_MPS);
  const preview_m = arc_m + PREVIEW_S * Math.max(speed, 0);
  const [, , beforeX, beforeY] = lineAt(path, preview_m - SPAN_M);
  const [, , afterX, afterY] = lineAt(path, preview_m + SPAN_M);
  const bend = Math.atan2(beforeX * afterY - beforeY * afterX, beforeX * afterX + beforeY * afterY) / (2 * SPAN_M);

  const ahead_m = Math.max(LEAST_AHEAD_M, AHEAD_S * speed);
  const outward = Math.asin(Math.min(Math.max(axles_m[0] * bend, -1), 1));
  const error_m = left_m + ahead_m * Math.sin(Math.min(Math.max(wrapAngle(turn + outward), -1), 1));
  const curvature = bend - (2 * error_m) / (ahead_m * ahead_m);

  const now = Math.tan(steering) / axles_m[1];
  const most = Math.min(MOST_YAW_ACCELERATION_RADPS2 / pace, MOST_LATERAL_JERK_MPS3 / (pace * pace)) * step_s;
  return [next, Math.min(Math.max(curvature, now - most), now + most)];
}
