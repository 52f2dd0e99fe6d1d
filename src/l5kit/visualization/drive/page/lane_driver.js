// @ts-check
/**
 * The intelligent driver on a path: its acceleration, and its motion.
 * Mirrors `simulation/intelligent_driver.py` (wanted_gap, driver_acceleration), `simulation/lanes/lane_following.py`
 * (locate_vehicles, put_on_path, acceleration_behind, gap_to_line, drive_on) and `lanes/red_lights.py` (rank_of_line).
 */

import { findOnPath, limitAt, PATH_STEP_M, pointsAround, poseAt } from "l5kit/drive/lane_paths";
import { findLeader } from "l5kit/drive/leaders";

const LOOK_PART = 1.5;
const LEAST_LOOK_M = 20;
const MOVED_M = 1e-4;
const LINE_SLACK_M = 0.5;
const [YELLOW, RED] = [2, 3]; // ranks of lights

/** @typedef {import("l5kit/drive/lane_paths").LanePath} LanePath */
/** @typedef {import("l5kit/drive/leaders").RoadObject} RoadObject */
/** @typedef {number[]} DriverParams s0, T, a, b and the exponent of the model */
/**
 * @typedef {object} Motion position of a vehicle on its path
 * @property {number} arc
 * @property {number} entry arc at which it entered the path
 * @property {number} offset
 * @property {number} slope
 * @property {number} speed
 * @property {number} x
 * @property {number} y
 */

/** @returns {Motion} of a vehicle without a position */
export function noMotion() {
  return { arc: 0, entry: 0, offset: 0, slope: 0, speed: 0, x: 0, y: 0 };
}

/**
 * Mirrors `locate_vehicles` for one vehicle.
 * @param {LanePath} path
 * @param {{x: number, y: number, yaw: number}} pose
 * @param {number} speed
 * @param {boolean} isNew
 * @param {Motion} motion updated
 */
export function locateOnPath(path, pose, speed, isNew, motion) {
  if (!isNew && (pose.x - motion.x) ** 2 + (pose.y - motion.y) ** 2 < MOVED_M * MOVED_M) return;
  const [first, stop] = isNew ? [0, path.numPoints] : pointsAround(motion.arc, path.numPoints);
  const [arc, offset, slope] = findOnPath(path, first, stop, pose);
  Object.assign(motion, { arc, entry: arc, offset, slope, speed: Math.max(speed, 0) });
}

/**
 * Mirrors `driver_acceleration`.
 * @param {number} speed
 * @param {number} gap_m
 * @param {number} leaderSpeed
 * @param {number} wantedSpeed
 * @param {DriverParams} params
 * @returns {number} m/s2
 */
function driverAcceleration(speed, gap_m, leaderSpeed, wantedSpeed, params) {
  const [standingGap_m, headway_s, maxAcceleration, maxBraking, exponent] = params;
  const closing_m = (speed * (speed - leaderSpeed)) / (2 * Math.sqrt(maxAcceleration * maxBraking));
  const wanted_m = standingGap_m + Math.max(closing_m + speed * headway_s, 0);
  const pressure = wanted_m / Math.max(gap_m, standingGap_m);
  const part = speed / wantedSpeed;
  const free = 1 - (exponent === 4 ? part * part * part * part : part ** exponent);
  return Math.min(Math.max(maxAcceleration * (free - pressure * pressure), -maxBraking), maxAcceleration);
}

/**
 * Mirrors `acceleration_behind`.
 * @param {number} speed
 * @param {number} gap_m
 * @param {number} leaderSpeed
 * @param {number} wantedSpeed
 * @param {DriverParams} params
 * @param {number} step_s
 * @returns {number} m/s2
 */
function accelerationBehind(speed, gap_m, leaderSpeed, wantedSpeed, params, step_s) {
  const acceleration = driverAcceleration(speed, gap_m, leaderSpeed, wantedSpeed, params);
  const braking = params[3];
  const leader = Math.max(leaderSpeed, 0);
  const spare_m = gap_m - braking * step_s * step_s + (leader * leader - speed * speed) / (2 * braking);
  if (!(spare_m < 2 * speed * step_s)) return acceleration;
  const highest = braking * (spare_m / Math.max(speed * step_s, 1e-9) - 1);
  return Math.max(Math.min(acceleration, highest), -braking);
}

/**
 * Mirrors `gap_to_line`.
 * @param {LanePath} path
 * @param {number} front_m
 * @param {number} reach_m
 * @param {number} speed
 * @param {number} braking
 * @param {Map<number, number>} ranks rank of the light, by lane
 * @returns {number} gap to the first line to stop at, or to the end of the path
 */
function gapToLine({ pieceArcs, lineLanes, length_m }, front_m, reach_m, speed, braking, ranks) {
  for (let piece = 0; piece < pieceArcs.length; piece += 1) {
    const gap_m = pieceArcs[piece] - front_m;
    if (gap_m >= reach_m) return Infinity;
    if (!(gap_m >= -LINE_SLACK_M)) continue;
    const rank = Math.max(ranks.get(lineLanes[2 * piece]) ?? 0, ranks.get(lineLanes[2 * piece + 1]) ?? 0);
    if (rank >= RED || (rank >= YELLOW && speed * speed <= 2 * braking * gap_m)) return Math.max(gap_m, 0);
  }
  const end_m = Math.max(length_m - front_m, 0);
  return end_m < reach_m ? end_m : Infinity;
}

/**
 * Mirrors `drive_on`, without speeds in bends.
 * @param {LanePath} path
 * @param {Motion} motion updated to the first step
 * @param {[number, number]} size half length and half width
 * @param {RoadObject[]} objects
 * @param {RoadObject | null} own
 * @param {Map<number, number>} ranks rank of the light, by lane
 * @param {{params: DriverParams, step_s: number, numSteps: number}} drive
 * @returns {[number, number, number][]} x, y and yaw after each step
 */
export function driveOn(path, motion, size, objects, own, ranks, { params, step_s, numSteps }) {
  const position = { ...motion };
  let speed = motion.speed;
  const wantedGap_m = params[0] + speed * params[1] + (speed * speed) / (2 * Math.sqrt(params[2] * params[3]));
  const reach_m = Math.max(LOOK_PART * wantedGap_m, LEAST_LOOK_M);
  const [leaderGap_m, leaderSpeed] = findLeader(path, position, size, reach_m, objects, own);
  let gap_m = leaderGap_m;
  let arc_m = motion.arc;
  const last_m = (path.numPoints - 1) * PATH_STEP_M;
  /** @type {[number, number, number][]} */
  const poses = [];
  for (let step = 0; step < numSteps; step += 1) {
    const wanted = Math.max(limitAt(path, arc_m), 0.1);
    const line_m = gapToLine(path, arc_m + size[0], reach_m, speed, params[3], ranks);
    let acceleration = accelerationBehind(speed, line_m, 0, wanted, params, step_s);
    if (gap_m < Infinity)
      acceleration = Math.min(acceleration, accelerationBehind(speed, gap_m, leaderSpeed, wanted, params, step_s));
    const after = Math.max(speed + acceleration * step_s, 0);
    let driven_s = step_s;
    if (after === 0 && acceleration < 0) driven_s = Math.min(speed / -acceleration, step_s);
    const way_m = 0.5 * (speed + after) * driven_s;
    arc_m = Math.min(arc_m + way_m, Math.max(last_m, arc_m));
    speed = after;
    gap_m += Math.max(leaderSpeed, 0) * step_s - way_m;
    const pose = poseAt(path, arc_m, position);
    poses.push(pose);
    if (step === 0) Object.assign(motion, { arc: arc_m, speed, x: pose[0], y: pose[1] });
  }
  return poses;
}
