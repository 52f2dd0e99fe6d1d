// @ts-check
/**
 * The judge of a drive: terms of each frame, and the score of the drive.
 * Mirrors `evaluation/driving/`: collisions.py (kind_of, stands, is_fault_of_ego, no_at_fault_collisions),
 * time_to_collision.py (find_times_to_collision, meeting_time), motion.py (velocities_of_rows), map_scores.py,
 * route_progress.py (_write_positions_on_routes, expert_progress_ratio, making_progress), comfort.py (comfort_of_frames),
 * scene_score.py (detail_scenes) and metric.py (combine).
 */

import { boxesOverlap, cornersOf, turnBetween } from "l5kit/drive/boxes_apart";
import { areComfortable, LEAST_FRAMES } from "l5kit/drive/comfort";
import { projectOnward } from "l5kit/drive/road";

const STANDS_MPS = 0.05;
const STOPPED_MPS = 0.005;
const AHEAD_RAD = (30 * Math.PI) / 180;
const BEHIND_RAD = (150 * Math.PI) / 180;
const MOST_OFF_ROAD_M = 0.3;
const TOLERATED_BACKWARD_M = [2, 6];
const MOST_EXCESS_MPS = 2.23;
const [LEAST_PROGRESS_M, LEAST_RATIO] = [2, 0.2];
const [REACH_M, REACH_PER_M] = [10, 2];
const TOLERATED = [0, 0, 1]; // collisions with vehicles, vulnerable road users and other objects
const OTHER_OBJECT = 2;
const SETTLING_FRAMES = 12; // look-ahead of the comfort filters, within which the comfort of the newest frames may change
const KINDS = { NONE: 0, EGO_STOPPED: 1, OTHER_STOPPED: 2, REAR: 3, FRONT: 4, LATERAL: 5 };

/** @typedef {import("l5kit/drive/simulation").AgentRow} AgentRow */
/** @typedef {import("l5kit/drive/simulation").EgoFrame} EgoFrame */
/** @typedef {import("l5kit/drive/boxes_apart").DrivenBox} DrivenBox */
/**
 * @typedef {object} Term terms of a frame, named as in `SceneDetails`
 * @property {number[]} atFault collisions at fault with each group, (3,)
 * @property {number[]} collided tracks that collide in this frame for the first time
 * @property {number} timeToCollision_s infinite without a conflict
 * @property {number} offRoad_m infinite beyond half a metre
 * @property {number} lane -1 for none
 * @property {number} alongLane_m since the previous frame
 * @property {number} alongLanes_m in the last second
 * @property {number} limit_mps NaN for none
 * @property {number} excess_mps
 * @property {number} progress_m along the route since the previous frame
 */
/**
 * @typedef {object} RouteState position of the AV on the route
 * @property {number} part from which the search starts
 * @property {number} lastPart -1 for none
 * @property {number} lastFrame
 * @property {number[]} along_m length of the route up to the AV in each frame, NaN off it
 */

/** Judges the frames of a simulation one by one. */
export class DriveJudge {
  /**
   * @param {import("l5kit/drive/simulation").DriveSimulation} simulation
   * @param {import("l5kit/drive/road").Road} road
   */
  constructor(simulation, road) {
    this.simulation = simulation;
    this.road = road;
    this.restart();
  }

  /** Restart with the first frame of the simulation. */
  restart() {
    /** @type {Term[]} */
    this.terms = [];
    /** @type {Set<number>} */
    this.hasCollided = new Set(); // up to the last frame with a known next frame
    /** @type {RouteState} */
    this.route = { part: 0, lastPart: -1, lastFrame: 0, along_m: [] };
    this.look();
  }

  /** Judge the newest frame, and the previous one again, since velocities of stopping vehicles need the next frame. */
  look() {
    const { frame } = this.simulation;
    if (frame > 0) this.settle(frame - 1);
    this.terms[frame] = { ...this.termOfRoad(frame), ...this.termOfOthers(frame, new Set(this.hasCollided)) };
  }

  /** @param {number} frame with a known next frame */
  settle(frame) {
    Object.assign(this.terms[frame], this.termOfOthers(frame, this.hasCollided));
  }

  /** @param {number} frame @returns {DrivenBox} */
  egoBox(frame) {
    const { x, y, yaw } = this.simulation.frames[frame].ego;
    const [length, width] = this.simulation.facts.size_m;
    return { x, y, yaw, length, width };
  }

  /** @param {number} frame @returns {[number, number]} centre of the rear axle */
  rearAxle(frame) {
    const { x, y, yaw } = this.simulation.frames[frame].ego;
    const back_m = this.simulation.facts.rear_axle_to_centre_m;
    return [x - back_m * Math.cos(yaw), y - back_m * Math.sin(yaw)];
  }

  /**
   * Mirrors `velocities_of_rows`, for rows without a recorded velocity.
   * @param {AgentRow} row
   * @param {number} frame
   * @returns {number} m/s
   */
  speedOf(row, frame) {
    if (row.vx !== 0 || row.vy !== 0) return Math.hypot(row.vx, row.vy);
    const [before, after] = [this.nearestOf(row.track, frame, -1), this.nearestOf(row.track, frame, 1)];
    const { time_s } = this.simulation.arrays;
    const seconds = time_s[after?.frame ?? frame] - time_s[before?.frame ?? frame];
    const [first, last] = [before?.row ?? row, after?.row ?? row];
    return seconds > 0 ? Math.hypot((last.x - first.x) / seconds, (last.y - first.y) / seconds) : 0;
  }

  /**
   * @param {number} track
   * @param {number} frame
   * @param {number} way -1 for the row before, 1 for the row after
   * @returns {{row: AgentRow, frame: number} | null}
   */
  nearestOf(track, frame, way) {
    for (let other = frame + way; other >= 0 && other <= this.simulation.frame; other += way) {
      const row = this.simulation.frames[other]?.rows.find((each) => each.track === track);
      if (row) return { row, frame: other };
    }
    return null;
  }

  /**
   * Mirrors `find_collisions`, `count_at_fault` and `find_times_to_collision` for one frame.
   * @param {number} frame
   * @param {Set<number>} hasCollided tracks; updated
   * @returns {Pick<Term, "atFault" | "collided" | "timeToCollision_s">}
   */
  termOfOthers(frame, hasCollided) {
    const { ego, rows } = this.simulation.frames[frame];
    const [box, rear] = [this.egoBox(frame), this.rearAxle(frame)];
    const isAcross = this.road.isAcross(cornersOf(box));
    const widest_rad = isAcross || this.road.isInJunction(rear) ? BEHIND_RAD : AHEAD_RAD;
    const term = { atFault: [0, 0, 0], collided: [], timeToCollision_s: Infinity };
    for (const row of rows) {
      if (row.group < 0 || hasCollided.has(row.track)) continue;
      if (boxesOverlap(box, row)) {
        hasCollided.add(row.track);
        const kind = kindOf(box, rear, ego.speed, row, this.speedOf(row, frame));
        /** @type {number[]} */ (term.collided).push(row.track);
        if (kind === KINDS.FRONT || kind === KINDS.OTHER_STOPPED || (kind === KINDS.LATERAL && isAcross))
          term.atFault[row.group] += 1;
        continue;
      }
      if (ego.speed <= STOPPED_MPS || angleFrom(box.yaw, rear, row) > widest_rad) continue;
      const time_s = meetingTime(box, ego.speed, row, () => this.speedOf(row, frame), this.simulation.facts.look);
      term.timeToCollision_s = Math.min(term.timeToCollision_s, time_s);
    }
    if (term.atFault.some(Boolean)) term.timeToCollision_s = 0;
    return term;
  }

  /**
   * Mirrors the map terms of `detail_scenes` for one frame, given all earlier frames.
   * @param {number} frame
   * @returns {Omit<Term, "atFault" | "collided" | "timeToCollision_s">}
   */
  termOfRoad(frame) {
    const { ego } = this.simulation.frames[frame];
    const place = /** @type {[number, number]} */ ([ego.x, ego.y]);
    const before = frame > 0 ? this.terms[frame - 1].lane : -1;
    const lane = this.road.chooseLane(place, ego.yaw, before);
    const isSame = frame > 0 && lane >= 0 && lane === before;
    const last = isSame ? this.simulation.frames[frame - 1].ego : ego;
    const alongLane_m = isSame ? this.road.arcOnLane(lane, place) - this.road.arcOnLane(lane, [last.x, last.y]) : 0;
    const limit_mps = lane >= 0 ? this.road.arrays.speed_limits[lane] : NaN;
    return {
      offRoad_m: Math.max(...cornersOf(this.egoBox(frame)).map((corner) => this.road.distanceOffRoad(corner))),
      lane,
      alongLane_m,
      alongLanes_m: this.sumOfLastSecond(frame, alongLane_m),
      limit_mps,
      excess_mps: Number.isNaN(limit_mps) ? 0 : Math.max(0, ego.speed - limit_mps),
      progress_m: this.progressAt(frame, lane),
    };
  }

  /** Mirrors `sum_over_last_second`. @param {number} frame @param {number} now @returns {number} */
  sumOfLastSecond(frame, now) {
    const count = Math.round(1 / this.step_s) + 1;
    let sum_m = 0;
    for (let other = Math.max(frame + 1 - count, 0); other < frame; other += 1) sum_m += this.terms[other].alongLane_m;
    return sum_m + now;
  }

  /** @returns {number} mean time between two frames of the scene, seconds */
  get step_s() {
    const { time_s } = this.simulation.arrays;
    return (time_s[time_s.length - 1] - time_s[0]) / (time_s.length - 1);
  }

  /**
   * Mirrors `_write_positions_on_routes` for one frame.
   * @param {number} frame
   * @param {number} lane
   * @returns {number} metres since the previous frame, 0 if the AV is or was off the route
   */
  progressAt(frame, lane) {
    const { route_parents, route_line_starts, route_points, route_arcs } = this.simulation.arrays;
    const { route } = this;
    route.along_m[frame] = NaN;
    const parent = lane < 0 ? -1 : this.road.arrays.parents[lane];
    let part = route.part;
    while (part < route_parents.length && route_parents[part] !== parent) part += 1;
    if (part === route_parents.length) return 0;
    const [here, there] = [this.simulation.frames[frame].ego, this.simulation.frames[route.lastFrame].ego];
    const reach_m = REACH_M + REACH_PER_M * Math.hypot(here.x - there.x, here.y - there.y);
    const before_m = part === route.lastPart ? route.along_m[route.lastFrame] : NaN;
    const [first, end] = [route_line_starts[part], route_line_starts[part + 1]];
    const [points, lengths_m] = [route_points.subarray(2 * first, 2 * end), route_arcs.subarray(first, end)];
    route.along_m[frame] = projectOnward(points, lengths_m, [here.x, here.y], before_m, reach_m);
    Object.assign(route, { part, lastPart: part, lastFrame: frame });
    const step_m = frame > 0 ? route.along_m[frame] - route.along_m[frame - 1] : 0;
    return Number.isNaN(step_m) ? 0 : step_m;
  }

  /** @returns {boolean[]} whether each frame so far is comfortable if the drive ended now */
  areComfortable() {
    const egos = this.simulation.frames.map(({ ego }) => ego);
    return areComfortable(egos, this.step_s, this.simulation.facts.comfort_bounds);
  }

  /**
   * Mirrors `SceneDetails.scores`.
   * @param {boolean[]} comfortable by frame
   * @returns {Record<string, number>} each metric so far, NaN if not applicable
   */
  metrics(comfortable) {
    const { terms } = this;
    const sum = (/** @type {(term: Term) => number} */ of) => terms.reduce((total, term) => total + of(term), 0);
    const ratio = this.progressRatio(sum(({ progress_m }) => progress_m));
    const backward_m = Math.max(0, ...terms.map(({ alongLanes_m }) => -alongLanes_m));
    const duration_s = this.step_s * (terms.length - 1);
    const excess =
      duration_s > 0 ? (sum(({ excess_mps }) => excess_mps) * this.step_s) / (MOST_EXCESS_MPS * duration_s) : 0;
    return {
      no_at_fault_collisions: TOLERATED.reduce(
        (product, tolerated, group) =>
          product * Math.max(0, 1 - sum(({ atFault }) => atFault[group]) / (tolerated + 1)),
        1,
      ),
      drivable_area_compliance: Number(terms.every(({ offRoad_m }) => offRoad_m < MOST_OFF_ROAD_M)),
      making_progress: Number.isNaN(ratio) ? NaN : Number(ratio >= LEAST_RATIO),
      driving_direction_compliance: TOLERATED_BACKWARD_M.filter((most_m) => backward_m < most_m).length / 2,
      progress: ratio,
      time_to_collision: Number(terms.every((term) => term.timeToCollision_s > this.simulation.facts.look.least_s)),
      speed_limit_compliance: Math.max(0, 1 - excess),
      comfort: terms.length >= LEAST_FRAMES ? Number(comfortable.every(Boolean)) : NaN,
    };
  }

  /** Mirrors `expert_progress_ratio`, relative to the progress of the log in the same number of frames. @param {number} total_m @returns {number} */
  progressRatio(total_m) {
    const expert_m = this.simulation.arrays.expert_progress
      .subarray(0, this.terms.length)
      .reduce((/** @type {number} */ sum, /** @type {number} */ step_m) => sum + step_m, 0);
    if (expert_m < LEAST_PROGRESS_M) return NaN;
    if (total_m < -LEAST_PROGRESS_M) return 0;
    return Math.min(1, Math.max(total_m, LEAST_PROGRESS_M) / Math.max(expert_m, LEAST_PROGRESS_M));
  }

  /** @returns {{score: number, metrics: Record<string, number>, terms: Term[], comfortable: boolean[]}} the complete judgement, as if the drive had ended */
  report() {
    const comfortable = this.areComfortable();
    return { ...this.scored(comfortable), terms: this.terms, comfortable };
  }

  /** @returns {{score: number, metrics: Record<string, number>, comfortable: boolean[]}} so far, except for frames whose comfort may still change */
  reportNow() {
    const comfortable = this.areComfortable();
    const isSettled = this.simulation.isDone ? comfortable : comfortable.slice(0, -SETTLING_FRAMES);
    return { ...this.scored(isSettled), comfortable: isSettled };
  }

  /** @param {boolean[]} comfortable @returns {{score: number, metrics: Record<string, number>}} */
  scored(comfortable) {
    const metrics = this.metrics(comfortable);
    return { score: combine(metrics, this.simulation.facts.metrics), metrics };
  }
}

/**
 * Mirrors `combine`.
 * @param {Record<string, number>} values
 * @param {{name: string, role: string | number | null}[]} metrics
 * @returns {number}
 */
function combine(values, metrics) {
  let [product, sum, total] = [1, 0, 0];
  for (const { name, role } of metrics) {
    const value = values[name];
    if (Number.isNaN(value) || role === null) continue;
    if (typeof role === "string") product *= value;
    else [sum, total] = [sum + role * value, total + role];
  }
  return product * (total > 0 ? sum / total : NaN);
}

/** Mirrors `angle_from_heading`. @param {number} yaw @param {[number, number]} from @param {{x: number, y: number}} to @returns {number} */
function angleFrom(yaw, [x, y], to) {
  return turnBetween(Math.atan2(to.y - y, to.x - x), yaw);
}

/**
 * Mirrors `kind_of` and `stands`.
 * @param {DrivenBox} box of the AV
 * @param {[number, number]} rear
 * @param {number} speed
 * @param {AgentRow} other
 * @param {number} otherSpeed
 * @returns {number} one of KINDS
 */
function kindOf(box, rear, speed, other, otherSpeed) {
  if (speed <= STANDS_MPS) return KINDS.EGO_STOPPED;
  if (other.group === OTHER_OBJECT || otherSpeed <= STANDS_MPS) return KINDS.OTHER_STOPPED;
  if (angleFrom(box.yaw, rear, other) > BEHIND_RAD) return KINDS.REAR;
  const half_m = 0.5 * box.length;
  const [x, y] = [box.x + half_m * Math.cos(box.yaw), box.y + half_m * Math.sin(box.yaw)];
  return boxesOverlap({ ...box, x, y, length: 0 }, other) ? KINDS.FRONT : KINDS.LATERAL;
}

/**
 * Mirrors `meeting_time`.
 * @param {DrivenBox} box of the AV
 * @param {number} speed
 * @param {AgentRow} other
 * @param {() => number} speedOf speed of the other, computed only if it may be close enough
 * @param {{step_s: number, num_steps: number}} look
 * @returns {number} infinite for none
 */
function meetingTime(box, speed, other, speedOf, { step_s, num_steps }) {
  const otherSpeed = speedOf();
  const reach_m = 0.5 * (Math.hypot(box.length, box.width) + Math.hypot(other.length, other.width));
  const travel_m = num_steps * step_s * (speed + otherSpeed);
  if (Math.hypot(other.x - box.x, other.y - box.y) > reach_m + travel_m) return Infinity;
  const [cos, sin, otherCos, otherSin] = [box.yaw, other.yaw].flatMap((yaw) => [Math.cos(yaw), Math.sin(yaw)]);
  for (let step = 1; step <= num_steps; step += 1) {
    const time_s = step * step_s;
    const moved = { ...box, x: box.x + time_s * speed * cos, y: box.y + time_s * speed * sin };
    const [x, y] = [other.x + time_s * otherSpeed * otherCos, other.y + time_s * otherSpeed * otherSin];
    if (boxesOverlap(moved, { ...other, x, y })) return time_s;
  }
  return Infinity;
}
