// @ts-check
/** A drive of a simulation: ghosts and plan of a frame, curves of metrics, failures. */

/** @typedef {import("l5kit/boxes").Box} Box */
/** @typedef {import("l5kit/unpack").PackedDrive} PackedDrive */
/** A drive of F frames. */
export class DriveModel {
  /** @param {PackedDrive} packed */
  constructor({ facts, arrays }) {
    this.facts = facts;
    this.arrays = arrays;
    this.failures = facts.failures;
    this.at = -1; // index of the last played failure
  }

  /** @param {number} frame @returns {number[]} x0, y0, x1, y1 ... of the plan, as far as it is known */
  planAt(frame) {
    const size = 2 * this.facts.plan_times_s.length;
    const plan = this.arrays.plan_xy.subarray(frame * size, (frame + 1) * size);
    const points = [];
    for (let at = 0; at < plan.length; at += 2) {
      if (Number.isFinite(plan[at]) && Number.isFinite(plan[at + 1])) points.push(plan[at], plan[at + 1]);
    }
    return points;
  }

  /**
   * @param {number} frame
   * @param {[number, number]} size_m of the AV
   * @returns {Box | null} the logged AV; null if unknown
   */
  egoGhost(frame, [length, width]) {
    const { log_xy, log_yaw } = this.arrays;
    return finiteBox({ x: log_xy[2 * frame], y: log_xy[2 * frame + 1], yaw: log_yaw[frame], length, width });
  }

  /** @param {number} frame @returns {Box[]} logged agents that are elsewhere in the simulation */
  agentGhosts(frame) {
    const { ghost_starts, ghost_xy, ghost_yaw, ghost_extent } = this.arrays;
    const boxes = [];
    for (let row = ghost_starts[frame]; row < ghost_starts[frame + 1]; row += 1) {
      const [length, width] = [ghost_extent[3 * row], ghost_extent[3 * row + 1]];
      boxes.push(finiteBox({ x: ghost_xy[2 * row], y: ghost_xy[2 * row + 1], yaw: ghost_yaw[row], length, width }));
    }
    return boxes.filter((box) => box !== null);
  }

  /** @param {string} key of a curve @returns {Float32Array} (F,) */
  valuesOf(key) {
    return /** @type {Record<string, Float32Array>} */ (/** @type {unknown} */ (this.arrays))[key];
  }

  /** @param {string} key of a curve, or log_speed @returns {(number | null)[]} null for no value, (F,) */
  curve(key) {
    return Array.from(this.valuesOf(key), (value) => (Number.isFinite(value) ? value : null));
  }

  /** @param {string} key @returns {boolean} whether it has any value */
  hasCurve(key) {
    return this.valuesOf(key).some((value) => Number.isFinite(value));
  }

  /**
   * Return the failure after or before the last played one, in cyclic order.
   * @param {number} by 1 or -1
   * @returns {number | null} its index; null for none
   */
  nextFailure(by) {
    const { length } = this.failures;
    if (!length) return null;
    if (this.at < 0) return by > 0 ? 0 : length - 1;
    return (this.at + by + length) % length;
  }
}

/** @param {Omit<Box, "track" | "row">} box @returns {Box | null} null if a number is unknown */
function finiteBox(box) {
  return Object.values(box).every(Number.isFinite) ? { track: -2, row: -1, ...box } : null;
}
