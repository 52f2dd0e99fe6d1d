// @ts-check
/** The current moment in the format of the bird's-eye view: a scene of one frame, whose arrays are updated in place. */

const TAU = 2 * Math.PI;

/** @typedef {import("l5kit/drive/simulation").DriveSimulation} DriveSimulation */
/** @typedef {import("l5kit/unpack").PackedScene} PackedScene */

/** Draws a simulation between its last two frames. */
export class LiveScene {
  /** @param {DriveSimulation} simulation */
  constructor(simulation) {
    this.simulation = simulation;
    const { facts } = simulation;
    this.origin = [Math.round(facts.start.x), Math.round(facts.start.y)];
    /** @type {[number, number, number][]} */
    this.plan = [];
    const arrays = {
      agent_starts: new Uint32Array(2),
      ego_xy: new Float32Array(2),
      ego_yaw: new Float32Array(1),
      light_starts: new Uint32Array(2),
      agent_track: new Uint32Array(0),
    };
    this.packed = /** @type {PackedScene} */ (
      /** @type {unknown} */ ({
        facts: {
          origin_m: this.origin,
          track_ids: facts.track_ids,
          ego_size_m: facts.size_m,
          labels: facts.labels,
        },
        arrays,
      })
    );
    this.show(1);
  }

  /** Additional drawings of the view: the plan, and the car at its end. @returns {import("l5kit/drive_model").DriveModel} */
  get drive() {
    const drive = {
      planAt: () => this.planPoints(),
      agentGhosts: () => this.planGhosts(),
      egoGhost: () => null,
      arrays: { log_xy: new Float32Array(0) },
    };
    return /** @type {import("l5kit/drive_model").DriveModel} */ (/** @type {unknown} */ (drive));
  }

  /** @returns {number[]} x0, y0, x1, y1 ... starting at the AV */
  planPoints() {
    const [x, y] = this.origin;
    const { ego_xy } = this.packed.arrays;
    if (!this.plan.length) return [];
    return [ego_xy[0], ego_xy[1], ...this.plan.flatMap((pose) => [pose[0] - x, pose[1] - y])];
  }

  /** @returns {import("l5kit/boxes").Box[]} the AV at the end of the plan; none if it would cover the AV */
  planGhosts() {
    const end = this.plan.at(-1);
    if (!end) return [];
    const { ego_xy } = this.packed.arrays;
    const [x, y, yaw] = [end[0] - this.origin[0], end[1] - this.origin[1], end[2]];
    const [length, width] = this.simulation.facts.size_m;
    if (Math.hypot(x - ego_xy[0], y - ego_xy[1]) < length) return [];
    return [{ track: -1, row: -1, x, y, yaw, length, width }];
  }

  /** @param {number} part of the step from the previous frame to the newest one, 0 to 1 */
  show(part) {
    const { simulation, packed } = this;
    const { frame, frames } = simulation;
    const [now, before] = [frames[frame], frames[Math.max(frame - 1, 0)]];
    const earlier = new Map(before.rows.map((row) => [row.track, row]));
    const [x0, y0] = this.origin;
    const { arrays } = packed;
    const size = now.rows.length;
    const columns = {
      agent_track: new Uint32Array(size),
      agent_xy: new Float32Array(2 * size),
      agent_yaw: new Float32Array(size),
      agent_extent: new Float32Array(3 * size),
      agent_label: new Uint8Array(size),
    };
    now.rows.forEach((row, index) => {
      const pose = between(earlier.get(row.track) ?? row, row, part);
      columns.agent_track[index] = row.track;
      columns.agent_xy.set([pose.x - x0, pose.y - y0], 2 * index);
      columns.agent_yaw[index] = pose.yaw;
      columns.agent_extent.set([row.length, row.width, row.height], 3 * index);
      columns.agent_label[index] = row.label;
    });
    const ego = between(before.ego, now.ego, part);
    arrays.ego_xy.set([ego.x - x0, ego.y - y0]);
    arrays.ego_yaw[0] = ego.yaw;
    arrays.agent_starts[1] = size;
    const { light_starts, light_lanes, light_colors } = simulation.arrays;
    const [first, end] = [light_starts[frame], light_starts[frame + 1]];
    arrays.light_starts[1] = end - first;
    Object.assign(arrays, columns, {
      light_lanes: light_lanes.subarray(first, end),
      light_colors: light_colors.subarray(first, end),
    });
  }
}

/** @typedef {{x: number, y: number, yaw: number}} Pose */

/** @param {Pose} before @param {Pose} after @param {number} part @returns {Pose} */
function between(before, after, part) {
  const turn = after.yaw - before.yaw;
  return {
    x: before.x + part * (after.x - before.x),
    y: before.y + part * (after.y - before.y),
    yaw: before.yaw + part * (turn - TAU * Math.round(turn / TAU)),
  };
}
