// @ts-check
/** Failures of a drive: names, colours, positions of marks, and first frames of playback. */

import { quantity } from "l5kit/format";
import { frameAt } from "l5kit/playback";

/** @typedef {import("l5kit/unpack").Failure} Failure */

export const BEFORE_S = 2; // playback starts this long before a failure

/** Colour of each kind. */
const COLORS = new Map([
  ["collision_at_fault", "#D8392F"],
  ["collision", "#E58A1F"],
  ["appeared_close", "#00897B"],
  ["off_road", "#8E44AD"],
  ["wrong_direction", "#C2398B"],
  ["time_to_collision", "#B59A00"],
  ["speeding", "#1F77B4"],
  ["comfort", "#6B7785"],
]);
const COLOR_OF_OTHERS = "#3D5A80"; // colour of custom metrics

/** @param {Failure} failure @returns {string} */
export function colorOf({ kind }) {
  return COLORS.get(kind) ?? COLOR_OF_OTHERS;
}

/** @param {Failure} failure @param {ArrayLike<number>} time_s (F,) @returns {string} such as "Off road, 4.3 to 5.0 s" */
export function describe(failure, time_s) {
  const { kind, first_frame: first, last_frame: last, track_id: track } = failure;
  const whom = track === null ? "" : `${kind === "appeared_close" ? ":" : " with"} track ${track}`;
  const until = last > first ? ` to ${quantity(time_s[last], 1)}` : "";
  return `${failure.name}${whom}, ${quantity(time_s[first], 1)}${until} s`;
}

/** @param {Failure} failure @param {ArrayLike<number>} time_s non-decreasing @returns {number} first frame of playback */
export function frameBefore({ first_frame: first }, time_s) {
  return time_s[first] <= BEFORE_S ? 0 : frameAt(time_s, time_s[first] - BEFORE_S + 1e-6);
}

/**
 * Assign marks to as few rows as possible, without overlaps.
 * @param {Failure[]} failures by first frame
 * @param {number} least_frames smallest width of a mark
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
