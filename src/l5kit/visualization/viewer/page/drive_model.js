// @ts-check
/** A drive of a simulation as the page asks for it: ghosts and plan of a frame, curves of metrics, failures. */

import { closeRange, offRoadRange, speedRange } from "l5kit/plot_ranges";

/** @typedef {import("l5kit/boxes").Box} Box */
/** @typedef {import("l5kit/unpack").PackedDrive} PackedDrive */
/** @typedef {"speed" | "log_distance" | "time_to_collision" | "off_road" | "speed_excess"} CurveKey */
/**
 * @typedef {object} Curve
 * @property {CurveKey} key
 * @property {string} name
 * @property {string} chip short, for the button that hides it
 * @property {string} unit
 * @property {number} digits of values after the point
 * @property {(least: number, most: number) => [number, number]} range of the axis
 * @property {string[]} kinds of failures that are marked on it
 */

/** @type {Curve[]} */
export const CURVES = [
  {
    key: "speed",
    name: "Speed",
    chip: "Speed",
    unit: "m/s",
    digits: 1,
    range: speedRange,
    kinds: ["collision_at_fault", "collision", "appeared_close", "comfort"],
  },
  {
    key: "log_distance",
    name: "Distance to log",
    chip: "To log",
    unit: "m",
    digits: 1,
    range: speedRange,
    kinds: ["wrong_direction"],
  },
  {
    key: "time_to_collision",
    name: "Time to collision",
    chip: "Collision",
    unit: "s",
    digits: 1,
    range: closeRange,
    kinds: ["time_to_collision", "collision_at_fault", "collision", "appeared_close"],
  },
  {
    key: "off_road",
    name: "Off road",
    chip: "Off road",
    unit: "m",
    digits: 2,
    range: offRoadRange,
    kinds: ["off_road"],
  },
  {
    key: "speed_excess",
    name: "Over the limit",
    chip: "Over limit",
    unit: "m/s",
    digits: 1,
    range: speedRange,
    kinds: ["speeding"],
  },
];

/** A drive of F frames. */
export class DriveModel {
  /** @param {PackedDrive} packed */
  constructor({ facts, arrays }) {
    this.facts = facts;
    this.arrays = arrays;
    this.failures = facts.failures;
    this.at = -1; // of the failure that was played last
  }

  /** @param {number} frame @returns {number[]} x0, y0, x1, y1 ... of what was planned, as far as it is known */
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
   * @returns {Box | null} the AV of the log; null where it is not known
   */
  egoGhost(frame, [length, width]) {
    const { log_xy, log_yaw } = this.arrays;
    return finiteBox({ x: log_xy[2 * frame], y: log_xy[2 * frame + 1], yaw: log_yaw[frame], length, width });
  }

  /** @param {number} frame @returns {Box[]} agents of the log that the simulation has elsewhere */
  agentGhosts(frame) {
    const { ghost_starts, ghost_xy, ghost_yaw, ghost_extent } = this.arrays;
    const boxes = [];
    for (let row = ghost_starts[frame]; row < ghost_starts[frame + 1]; row += 1) {
      const [length, width] = [ghost_extent[3 * row], ghost_extent[3 * row + 1]];
      boxes.push(finiteBox({ x: ghost_xy[2 * row], y: ghost_xy[2 * row + 1], yaw: ghost_yaw[row], length, width }));
    }
    return boxes.filter((box) => box !== null);
  }

  /** @param {CurveKey | "log_speed"} key @returns {(number | null)[]} null where there is no value, (F,) */
  curve(key) {
    return Array.from(this.arrays[key], (value) => (Number.isFinite(value) ? value : null));
  }

  /** @param {CurveKey} key @returns {boolean} whether it has any value */
  hasCurve(key) {
    return this.arrays[key].some((value) => Number.isFinite(value));
  }

  /**
   * The failure after the one that was played last, or before it; behind the last comes the first.
   * @param {number} by 1 or -1
   * @returns {number | null} its number; null where there is none
   */
  nextFailure(by) {
    const { length } = this.failures;
    if (!length) return null;
    if (this.at < 0) return by > 0 ? 0 : length - 1;
    return (this.at + by + length) % length;
  }
}

/** @param {Omit<Box, "track" | "row">} box @returns {Box | null} null where a number is not known */
function finiteBox(box) {
  return Object.values(box).every(Number.isFinite) ? { track: -2, row: -1, ...box } : null;
}
