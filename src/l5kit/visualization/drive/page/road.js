// @ts-check
/**
 * Lanes and drivable surface of a map, with the queries of the judge.
 * Mirrors `geometry/polygon.py` (project_on_line, distance_to_edge, is_inside_polygon, distance_to_polygon),
 * `lanes/road_surface.py` (distance_to_surface, write_lanes_at, is_in_junction), `lanes/driving_map.py` (arcs_on_lanes_m,
 * project_onward) and `evaluation/driving/lane_positions.py` (turn_to_line, is_across_lanes).
 */

import { turnBetween } from "l5kit/drive/boxes_apart";

const REACH_M = 0.5;
const CELL_M = 20; // of the grid for finding areas; affects speed only
const ALL_CORNERS = 0b1111;

/** @typedef {[number, number]} Point world, metres */
/** @typedef {{lane: number, held: number}} HeldLane a lane, and a bit for each corner inside it */

/**
 * Mirrors `project_on_line`.
 * @param {Float64Array} line x0, y0, x1, y1 ...
 * @param {Point} point
 * @returns {[number, number]} the nearest edge, and the share of it before the nearest position
 */
function projectOnLine(line, [px, py]) {
  let [best, bestEdge, bestPart] = [Infinity, 0, 0];
  for (let edge = 0; 2 * edge + 3 < line.length; edge += 1) {
    const [startX, startY] = [line[2 * edge], line[2 * edge + 1]];
    const [edgeX, edgeY] = [line[2 * edge + 2] - startX, line[2 * edge + 3] - startY];
    const [x, y] = [px - startX, py - startY];
    const squaredLength = edgeX * edgeX + edgeY * edgeY;
    let part = 0;
    if (squaredLength > 0) part = Math.min(Math.max((x * edgeX + y * edgeY) / squaredLength, 0), 1);
    const squared = (x - part * edgeX) ** 2 + (y - part * edgeY) ** 2;
    if (squared < best) [best, bestEdge, bestPart] = [squared, edge, part];
  }
  return [bestEdge, bestPart];
}

/**
 * Mirrors `project_onward`.
 * @param {Float64Array} line
 * @param {Float64Array} lengths_m up to each of its points
 * @param {Point} point
 * @param {number} before_m NaN for none
 * @param {number} reach_m
 * @returns {number} arc length of the nearest position
 */
export function projectOnward(line, lengths_m, point, before_m, reach_m) {
  let [first, stop] = [0, lengths_m.length];
  if (before_m >= lengths_m[0] - reach_m && before_m <= lengths_m[stop - 1] + reach_m) {
    while (first < stop - 2 && lengths_m[first + 1] < before_m - reach_m) first += 1;
    while (stop > first + 2 && lengths_m[stop - 2] > before_m + reach_m) stop -= 1;
  }
  const [edge, share] = projectOnLine(line.subarray(2 * first, 2 * stop), point);
  const [start_m, end_m] = [lengths_m[first + edge], lengths_m[first + edge + 1]];
  return start_m + share * (end_m - start_m);
}

/** Queries of a map. */
export class Road {
  /** @param {{facts: any, arrays: any}} packed content of `road_bytes` */
  constructor({ facts, arrays }) {
    this.numLanes = facts.num_lanes;
    this.arrays = arrays;
    this.numPoints = facts.num_lanes ? arrays.arc_lengths.length / facts.num_lanes : 0;
    /** @type {Map<string, number[]>} */
    this.cells = new Map();
    for (let area = 0; area < facts.num_areas; area += 1) this.enter(area);
  }

  /** Add an area to the grid. @param {number} area */
  enter(area) {
    const cellOf = (/** @type {number} */ at, /** @type {number} */ margin) =>
      Math.floor((this.arrays.area_bounds[4 * area + at] + margin) / CELL_M);
    for (let x = cellOf(0, -REACH_M); x <= cellOf(2, REACH_M); x += 1)
      for (let y = cellOf(1, -REACH_M); y <= cellOf(3, REACH_M); y += 1) {
        const key = `${x} ${y}`;
        const areas = this.cells.get(key);
        if (areas) areas.push(area);
        else this.cells.set(key, [area]);
      }
  }

  /** @param {Point} point @returns {number[]} nearby areas, ascending */
  areasNear([x, y]) {
    const { area_bounds: bounds } = this.arrays;
    const areas = this.cells.get(`${Math.floor(x / CELL_M)} ${Math.floor(y / CELL_M)}`) ?? [];
    return areas.filter(
      (area) =>
        x > bounds[4 * area] - REACH_M &&
        y > bounds[4 * area + 1] - REACH_M &&
        x < bounds[4 * area + 2] + REACH_M &&
        y < bounds[4 * area + 3] + REACH_M,
    );
  }

  /** Mirrors `is_inside_polygon`. @param {number} area @param {Point} point @returns {boolean} */
  holds(area, [x, y]) {
    const { area_points: points, area_starts: starts } = this.arrays;
    let isInside = false;
    for (let at = starts[area], before = starts[area + 1] - 1; at < starts[area + 1]; before = at, at += 1) {
      const [startY, endY] = [points[2 * before + 1], points[2 * at + 1]];
      if (startY > y === endY > y) continue;
      const startX = points[2 * before];
      if (x < startX + ((y - startY) / (endY - startY)) * (points[2 * at] - startX)) isInside = !isInside;
    }
    return isInside;
  }

  /** Mirrors `write_lanes_at`. @param {Point} point @returns {number[]} lanes that contain it, ascending */
  lanesAt(point) {
    return this.areasNear(point).filter((area) => area < this.numLanes && this.holds(area, point));
  }

  /** Mirrors `is_in_junction`. @param {Point} point @returns {boolean} */
  isInJunction(point) {
    return this.lanesAt(point).some((lane) => this.arrays.is_in_junction[lane]);
  }

  /** Mirrors `distance_to_surface`. @param {Point} point @returns {number} infinite beyond half a metre */
  distanceOffRoad(point) {
    const areas = this.areasNear(point);
    if (areas.some((area) => this.holds(area, point))) return 0;
    const distance_m = Math.min(Infinity, ...areas.map((area) => this.distanceToOutline(area, point)));
    return distance_m < REACH_M ? distance_m : Infinity;
  }

  /** Mirrors `distance_to_polygon` for a point outside. @param {number} area @param {Point} point @returns {number} */
  distanceToOutline(area, [px, py]) {
    const { area_points: points, area_starts: starts } = this.arrays;
    let least_m = Infinity;
    for (let at = starts[area], before = starts[area + 1] - 1; at < starts[area + 1]; before = at, at += 1) {
      const [startX, startY] = [points[2 * before], points[2 * before + 1]];
      const [edgeX, edgeY] = [points[2 * at] - startX, points[2 * at + 1] - startY];
      const [x, y] = [px - startX, py - startY];
      const squaredLength = edgeX * edgeX + edgeY * edgeY;
      let along = 0;
      if (squaredLength > 0) along = Math.min(Math.max((x * edgeX + y * edgeY) / squaredLength, 0), 1);
      least_m = Math.min(least_m, Math.hypot(x - along * edgeX, y - along * edgeY));
    }
    return least_m;
  }

  /** @param {number} lane @returns {Float64Array} its centre line */
  lineOf(lane) {
    return this.arrays.centre_lines.subarray(2 * this.numPoints * lane, 2 * this.numPoints * (lane + 1));
  }

  /** Mirrors `turn_to_line`. @param {number} lane @param {Point} point @param {number} yaw @returns {number} */
  turnToLane(lane, point, yaw) {
    const line = this.lineOf(lane);
    const [edge] = projectOnLine(line, point);
    return turnBetween(Math.atan2(line[2 * edge + 3] - line[2 * edge + 1], line[2 * edge + 2] - line[2 * edge]), yaw);
  }

  /** Mirrors `arcs_on_lanes_m`. @param {number} lane -1 for none @param {Point} point @returns {number} NaN for none */
  arcOnLane(lane, point) {
    if (lane < 0) return NaN;
    const [edge, part] = projectOnLine(this.lineOf(lane), point);
    const at = this.numPoints * lane + edge;
    const { arc_lengths: lengths_m } = this.arrays;
    return lengths_m[at] + part * (lengths_m[at + 1] - lengths_m[at]);
  }

  /** @param {number} lane @returns {Uint32Array} successors without a lane change */
  aheadOf(lane) {
    const { ahead_starts: starts, ahead_rows: rows } = this.arrays;
    return rows.subarray(starts[lane], starts[lane + 1]);
  }

  /**
   * Mirrors `_write_chosen_lanes` for one frame.
   * @param {Point} point
   * @param {number} yaw
   * @param {number} before lane in the previous frame, -1 for none
   * @returns {number} lane of the vehicle, -1 for none
   */
  chooseLane(point, yaw, before) {
    let [chosen, chosenRank, chosenTurn] = [-1, 3, Infinity];
    for (const lane of this.lanesAt(point)) {
      let rank = 2;
      if (before >= 0 && (lane === before || this.aheadOf(before).includes(lane))) rank = lane === before ? 0 : 1;
      const turn = this.turnToLane(lane, point, yaw);
      if (rank < chosenRank || (rank === chosenRank && turn < chosenTurn))
        [chosen, chosenRank, chosenTurn] = [lane, rank, turn];
    }
    return chosen;
  }

  /**
   * Mirrors `is_across_lanes`.
   * @param {Point[]} corners
   * @returns {boolean} whether they are neither in one lane nor in successive lanes
   */
  isAcross(corners) {
    /** @type {HeldLane[]} */
    const lanes = [];
    const put = (/** @type {number} */ lane, /** @type {number} */ held) => {
      const known = lanes.find((each) => each.lane === lane);
      if (known) known.held |= held;
      else lanes.push({ lane, held });
    };
    corners.forEach((corner, index) => {
      for (const lane of this.lanesAt(corner)) put(lane, 1 << index);
    });
    for (const { lane } of lanes.slice()) for (const ahead of this.aheadOf(lane)) put(ahead, 0);
    return !this.reachesAll(lanes);
  }

  /** Mirrors the end of `is_across_lanes`. @param {HeldLane[]} lanes @returns {boolean} whether a chain of them contains all corners */
  reachesAll(lanes) {
    const reached = lanes.map(({ held }) => 1 << held);
    for (let round = 0; round < lanes.length; round += 1) {
      if (reached.some((sets) => (sets >> ALL_CORNERS) & 1)) return true;
      lanes.forEach(({ lane }, index) => {
        lanes.forEach(({ lane: other, held }, next) => {
          if (index === next || !this.aheadOf(lane).includes(other)) return;
          for (let set = 0; set <= ALL_CORNERS; set += 1)
            if ((reached[index] >> set) & 1) reached[next] |= 1 << (set | held);
        });
      });
    }
    return false;
  }
}
