// @ts-check
/**
 * Compact observation of a policy: its own vehicle, its route and road users, as one row of numbers.
 * Mirrors `environment/observations/compact_state.py` (_clip, _write_surroundings, _write_route_columns, _write_route,
 * _write_pose, _remoteness_m2, _find_agents, _write_agent, _extent_of) in the frame of the route, with forecasts by
 * velocity and without lanes, and `environment/observations/compact_view.py` (CompactSight.look).
 */

import {
  FollowedPosition,
  findOnPath,
  indexAlong,
  lineAt,
  PATH_STEP_M,
  pieceAt,
  speedInBend,
} from "l5kit/drive/lane_paths";

const BOUND = 5;
const [SPEED_SCALE_MPS, ACCELERATION_SCALE_MPS2, SIZE_SCALE_M, OFFSET_SCALE_M] = [20, 5, 10, 5];
const [EGO, ROUTE, AGENT, GROUP, NUM_GROUPS] = [14, 4, 12, 8, 3]; // columns
const BEND_MPS2 = 2;
const LONGEST_S = 5;
const BACK_M = 30;
const LINE_SLACK_M = 0.5;
const [YELLOW, RED] = [2, 3]; // ranks of lights

/** @typedef {import("l5kit/drive/lane_paths").LanePath} LanePath */
/** @typedef {import("l5kit/drive/lane_paths").RoutePosition} RoutePosition */
/** @typedef {import("l5kit/drive/simulation").AgentRow} AgentRow */
/**
 * @typedef {object} Layout the fields of `CompactLayout` that the page needs
 * @property {number} num_agents
 * @property {number} num_route_points
 * @property {number} route_step_m
 * @property {number} reach_m
 */
/**
 * @typedef {object} Stretch of the route
 * @property {LanePath} path
 * @property {number} first of its points
 * @property {number} stop
 * @property {number} arc of the vehicle
 * @property {number} width of the vehicle
 */

/** Mirrors `_clip`. @param {number} value @returns {number} within the bound, 0 for NaN */
function clip(value) {
  if (value >= -BOUND) return Math.min(value, BOUND);
  return value < -BOUND ? -BOUND : 0;
}

/** Observations of the AV of a simulation. */
export class CompactSight {
  /**
   * @param {import("l5kit/drive/simulation").DriveSimulation} simulation
   * @param {Layout} layout
   */
  constructor(simulation, layout) {
    this.simulation = simulation;
    this.layout = layout;
    this.size = EGO + ROUTE * layout.num_route_points + AGENT * layout.num_agents;
    this.followed = new FollowedPosition();
  }

  /** Forget the last position of the AV. */
  restart() {
    this.followed = new FollowedPosition();
  }

  /**
   * Mirrors `CompactSight.look`.
   * @param {LanePath} path of the AV
   * @returns {{seen: Float32Array, position: RoutePosition}} the row, and the position of the AV on its route
   */
  look(path) {
    const { simulation, layout } = this;
    const { frame, vehicle, egoBox } = simulation;
    const position = this.followed.follow(path, frame, vehicle, simulation.arrays.av_path_arcs[frame]);
    const seen = new Float32Array(this.size);
    seen.set(
      [vehicle.speed / SPEED_SCALE_MPS, vehicle.acceleration / ACCELERATION_SCALE_MPS2, vehicle.steering].map(clip),
    );
    seen.set([egoBox.length / SIZE_SCALE_M, egoBox.width / SIZE_SCALE_M].map(clip), 3);
    writeRouteColumns(seen, layout.reach_m, path, position, 0.5 * egoBox.length, simulation.ranksNow());
    writeRoute(seen, layout, vehicle.yaw, path, position[0]);
    const [arc_m] = position;
    const last = path.numPoints - 1;
    const [first, stop] = [indexAlong(arc_m - BACK_M, last), indexAlong(arc_m + layout.reach_m, last) + 1];
    const stretch = { path, first, stop, arc: arc_m, width: egoBox.width };
    const near = findAgents(layout, vehicle, simulation.rows[frame], stretch);
    near.forEach((row, index) => {
      const column = EGO + ROUTE * layout.num_route_points + AGENT * index;
      writeAgent(seen, column, layout.reach_m, vehicle.speed, row, stretch);
      seen[column + GROUP + Math.min(row.group, NUM_GROUPS - 1)] = 1;
      seen[column + AGENT - 1] = 1;
    });
    return { seen, position };
  }
}

/**
 * Mirrors `_write_route_columns`.
 * @param {Float32Array} row output
 * @param {number} reach_m
 * @param {LanePath} path
 * @param {RoutePosition} position
 * @param {number} half_m length of the vehicle
 * @param {Map<number, number>} ranks rank of the light, by lane
 */
function writeRouteColumns(row, reach_m, path, [arc_m, left_m, turn], half_m, ranks) {
  const { pieceArcs, lineLanes, limits } = path;
  let [here, line_m, rank] = [0, reach_m, 0];
  for (let piece = 0; piece < pieceArcs.length; piece += 1) {
    if (pieceArcs[piece] <= arc_m) here = piece;
    const gap_m = pieceArcs[piece] - arc_m - half_m;
    if (gap_m > reach_m) break;
    if (rank > 0 || !(gap_m >= -LINE_SLACK_M)) continue;
    rank = Math.max(ranks.get(lineLanes[2 * piece]) ?? 0, ranks.get(lineLanes[2 * piece + 1]) ?? 0);
    if (rank < YELLOW) rank = 0;
    if (rank > 0) line_m = gap_m;
  }
  row[5] = 1;
  row.set([left_m / OFFSET_SCALE_M, Math.cos(turn), Math.sin(turn)].map(clip), 6);
  row[9] = pieceArcs.length ? clip(limits[here] / SPEED_SCALE_MPS) : 0;
  row[10] = clip(line_m / reach_m);
  row[11] = Number(rank >= RED);
  row[12] = Number(rank > 0 && rank < RED);
  row[13] = clip(Math.min((path.length_m - arc_m) / reach_m, 1));
}

/**
 * Mirrors `_write_route`.
 * @param {Float32Array} row output
 * @param {Layout} layout
 * @param {number} yaw of the vehicle
 * @param {LanePath} path
 * @param {number} arc_m
 */
function writeRoute(row, { num_route_points, route_step_m }, yaw, path, arc_m) {
  const [cos, sin] = [Math.cos(yaw), Math.sin(yaw)];
  let piece = 0;
  for (let point = 0; point < num_route_points; point += 1) {
    const ahead_m = Math.min(arc_m + (point + 1) * route_step_m, path.length_m);
    const [, , alongX, alongY] = lineAt(path, ahead_m);
    piece = pieceAt(path, piece, ahead_m);
    const bend = speedInBend(path, indexAlong(ahead_m, path.numPoints - 1), BEND_MPS2);
    row.set(
      [
        Math.min(bend / SPEED_SCALE_MPS, 1),
        clip(path.limits[piece] / SPEED_SCALE_MPS),
        clip(alongX * cos + alongY * sin),
        clip(alongY * cos - alongX * sin),
      ],
      EGO + ROUTE * point,
    );
  }
}

/** Mirrors `_remoteness_m2`. @param {Stretch} stretch @param {number} x @param {number} y @returns {number} */
function remoteness({ path: { points }, first, stop, arc }, x, y) {
  let [nearest, nearest_m2] = [first, Infinity];
  for (let point = first; point < stop; point += 2) {
    const [dx, dy] = [points[2 * point] - x, points[2 * point + 1] - y];
    const far_m2 = dx * dx + dy * dy;
    if (far_m2 < nearest_m2) [nearest, nearest_m2] = [point, far_m2];
  }
  let ahead_m = nearest * PATH_STEP_M - arc;
  if (ahead_m < 0) ahead_m *= 2;
  return ahead_m * ahead_m + 4 * nearest_m2;
}

/**
 * Mirrors `_find_agents`.
 * @param {Layout} layout
 * @param {{x: number, y: number}} vehicle
 * @param {AgentRow[]} rows
 * @param {Stretch} stretch
 * @returns {AgentRow[]} the nearest road users, potential conflicts first
 */
function findAgents({ num_agents, reach_m }, { x, y }, rows, stretch) {
  const near = rows.flatMap((row, index) => {
    const [dx, dy] = [row.x - x, row.y - y];
    if (row.group < 0 || !(dx * dx + dy * dy <= reach_m * reach_m)) return [];
    return [{ row, index, far_m2: remoteness(stretch, x + dx, y + dy) }];
  });
  near.sort((a, b) => a.far_m2 - b.far_m2 || a.index - b.index);
  return near.slice(0, num_agents).map(({ row }) => row);
}

/**
 * Mirrors `_write_agent`.
 * @param {Float32Array} row output
 * @param {number} column
 * @param {number} reach_m
 * @param {number} speed of the vehicle
 * @param {AgentRow} agent
 * @param {Stretch} stretch
 */
function writeAgent(row, column, reach_m, speed, agent, { path, first, stop, arc, width }) {
  const [arc_m, left_m] = findOnPath(path, first, stop, agent);
  const along_m = arc_m - arc;
  const [, , cos, sin] = lineAt(path, arc_m);
  const along = agent.vx * cos + agent.vy * sin - speed;
  const left = agent.vy * cos - agent.vx * sin;
  const [lengthAlong_m, lengthAcross_m] = extentOf(agent, cos, sin);
  const gap_m = Math.abs(left_m) - 0.5 * (lengthAcross_m + width);
  const nearing = left_m > 0 ? -left : left;
  let time_s = 0;
  if (gap_m > 0) time_s = nearing * LONGEST_S > gap_m ? gap_m / nearing : LONGEST_S;
  row.set(
    [
      clip(along_m / reach_m),
      clip(left_m / OFFSET_SCALE_M),
      clip(along / SPEED_SCALE_MPS),
      clip(left / SPEED_SCALE_MPS),
      clip(lengthAlong_m / SIZE_SCALE_M),
      clip(lengthAcross_m / SIZE_SCALE_M),
      time_s / LONGEST_S,
      clip((along_m + along * time_s) / reach_m),
    ],
    column,
  );
}

/** Mirrors `_extent_of`. @param {AgentRow} agent @param {number} alongX @param {number} alongY @returns {[number, number]} */
function extentOf({ yaw, length, width }, alongX, alongY) {
  const [headingX, headingY] = [Math.cos(yaw), Math.sin(yaw)];
  const cos = Math.abs(headingX * alongX + headingY * alongY);
  const sin = Math.abs(headingY * alongX - headingX * alongY);
  return [cos * length + sin * width, sin * length + cos * width];
}
