// @ts-check
/** Failures of a drive: their names and colours, where they are marked, and from which frame they are played. */

import { quantity } from "l5kit/format";
import { frameAt } from "l5kit/playback";

/** @typedef {import("l5kit/unpack").Failure} Failure */

export const BEFORE_S = 2; // a failure is played from so long before it

/** Name and tone of each kind, the worst first. */
export const KINDS = {
  collision_at_fault: { name: "Collision, at fault", color: "#D8392F" },
  collision: { name: "Collision, not at fault", color: "#E58A1F" },
  appeared_close: { name: "Appears close ahead in the log", color: "#00897B" },
  off_road: { name: "Off road", color: "#8E44AD" },
  wrong_direction: { name: "Wrong direction", color: "#C2398B" },
  time_to_collision: { name: "Too close (time to collision)", color: "#B59A00" },
  speeding: { name: "Too fast", color: "#1F77B4" },
  comfort: { name: "Uncomfortable", color: "#6B7785" },
};

/** What fails where a metric is not met, in few words, for the list of scenes. */
const METRIC_FAILURES = new Map([
  ["no_at_fault_collisions", "collision"],
  ["drivable_area_compliance", "off road"],
  ["making_progress", "no progress"],
  ["driving_direction_compliance", "wrong way"],
  ["time_to_collision", "too close"],
  ["speed_limit_compliance", "too fast"],
  ["comfort", "uncomfortable"],
]);

/** @param {string} metric @returns {string} what has failed, in few words */
export function failureOfMetric(metric) {
  return METRIC_FAILURES.get(metric) ?? metric.replaceAll("_", " ");
}

/** @param {Failure} failure @returns {{name: string, color: string}} */
export function kindOf({ kind }) {
  return Object.hasOwn(KINDS, kind)
    ? KINDS[/** @type {keyof typeof KINDS} */ (kind)]
    : { name: kind.replaceAll("_", " "), color: KINDS.comfort.color };
}

/** @param {Failure} failure @param {ArrayLike<number>} time_s (F,) @returns {string} such as "Off road, 4.3 to 5.0 s" */
export function describe(failure, time_s) {
  const { kind, first_frame: first, last_frame: last, track_id: track } = failure;
  const whom = track === null ? "" : `${kind === "appeared_close" ? ":" : " with"} track ${track}`;
  const until = last > first ? ` to ${quantity(time_s[last], 1)}` : "";
  return `${kindOf(failure).name}${whom}, ${quantity(time_s[first], 1)}${until} s`;
}

/** @param {Failure} failure @param {ArrayLike<number>} time_s never falling @returns {number} frame it is played from */
export function frameBefore({ first_frame: first }, time_s) {
  return time_s[first] <= BEFORE_S ? 0 : frameAt(time_s, time_s[first] - BEFORE_S + 1e-6);
}

/**
 * Rows of marks in which none lies over another, as few as they need.
 * @param {Failure[]} failures by first frame
 * @param {number} least_frames what a mark is wide at least
 * @returns {number[]} row of each
 */
export function rowsOfMarks(failures, least_frames) {
  /** @type {number[]} */
  const ends = [];
  return failures.map(({ first_frame: first, last_frame: last }) => {
    const free = ends.findIndex((end) => end < first);
    const row = free < 0 ? ends.length : free;
    ends[row] = Math.max(last, first + least_frames);
    return row;
  });
}
