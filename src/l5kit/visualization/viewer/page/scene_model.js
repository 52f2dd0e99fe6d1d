// @ts-check
/** One scene, with the queries of the panels: rows by track and frame, and series of a track. */

import { EGO_TRACK, Tracks } from "l5kit/tracks";

/** @typedef {import("l5kit/unpack").PackedScene} PackedScene */

const FRAME_S = 0.1; // step of frames without usable times

/** A scene with F frames, N agent rows and T tracks. */
export class SceneModel {
  /** @param {PackedScene} packed the unpacked scene blob */
  constructor(packed) {
    this.packed = packed;
    this.facts = packed.facts;
    this.arrays = packed.arrays;
    this.numFrames = packed.facts.num_frames;
    this.trackIds = packed.facts.track_ids;
    /** seconds since the first frame, non-decreasing, (F,) */
    this.time_s = risingTimes(packed.arrays.time_s);
    /** frame of each agent row, (N,) */
    this.frameOfRow = framesOfRows(packed.arrays.agent_starts, packed.arrays.agent_track.length);
    this.tracks = new Tracks(packed);
  }

  /** @returns {number} seconds from the first frame to the end of the last one */
  get duration_s() {
    const last = this.numFrames - 1;
    if (last < 0) return 0;
    return this.time_s[last] + (last > 0 ? this.time_s[last] / last : FRAME_S);
  }

  /** @param {number} track @returns {Uint32Array} rows of the track, by frame */
  rowsOf(track) {
    const { starts, rows } = this.tracks;
    return rows.subarray(starts[track], starts[track + 1]);
  }

  /** @param {number} frame @returns {[number, number]} first row and end */
  rowsIn(frame) {
    const starts = this.arrays.agent_starts;
    return [starts[frame], starts[frame + 1]];
  }

  /** @param {number} track @param {number} frame @returns {number} row; -1 if the track is not in the frame */
  rowOf(track, frame) {
    return this.tracks.rowAt(track, frame);
  }

  /** @param {number} track @param {number} frame @returns {number} row of the track in the frame nearest to this one */
  nearestRow(track, frame) {
    const rows = this.rowsOf(track);
    let best = rows[0];
    for (const row of rows) {
      if (Math.abs(this.frameOfRow[row] - frame) < Math.abs(this.frameOfRow[best] - frame)) best = row;
    }
    return best;
  }

  /** @param {string} id decimal @returns {number | null} index of the track with this id */
  trackOf(id) {
    const track = this.trackIds.indexOf(id);
    return track < 0 ? null : track;
  }

  /** @param {number} row @returns {number} m/s */
  speedOf(row) {
    const velocity = this.arrays.agent_velocity;
    return Math.hypot(velocity[2 * row], velocity[2 * row + 1]);
  }

  /** @param {number} row @returns {number} metres between the centres of the agent and the AV in that frame */
  distanceToEgo(row) {
    const frame = this.frameOfRow[row];
    const { agent_xy: agent, ego_xy: ego } = this.arrays;
    return Math.hypot(agent[2 * row] - ego[2 * frame], agent[2 * row + 1] - ego[2 * frame + 1]);
  }

  /** @returns {string[]} names of the occurring classes, most frequent first */
  classes() {
    /** @type {Map<number, number>} */
    const counts = new Map();
    for (const label of this.arrays.agent_label) counts.set(label, (counts.get(label) ?? 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1]).map(([label]) => this.facts.labels[label] ?? `class ${label}`);
  }

  /**
   * Speed and yaw of a track or the AV over all frames; null if not seen.
   * @param {number} track
   * @returns {{speed: (number | null)[], yaw: (number | null)[]}} m/s and degrees (unwrapped), (F,) each
   */
  series(track) {
    const speed = new Array(this.numFrames).fill(null);
    const yaw = new Array(this.numFrames).fill(null);
    if (track === EGO_TRACK) {
      for (let frame = 0; frame < this.numFrames; frame += 1) {
        speed[frame] = finite(this.arrays.ego_speed[frame]);
        yaw[frame] = finite(this.arrays.ego_yaw[frame]);
      }
    } else {
      for (const row of this.rowsOf(track)) {
        speed[this.frameOfRow[row]] = finite(this.speedOf(row));
        yaw[this.frameOfRow[row]] = finite(this.arrays.agent_yaw[row]);
      }
    }
    return { speed, yaw: unwrappedDegrees(yaw) };
  }
}

/** @param {number} value @returns {number | null} */
function finite(value) {
  return Number.isFinite(value) ? value : null;
}

/**
 * Unwrap angles, across gaps too.
 * @param {(number | null)[]} radians
 * @returns {(number | null)[]} degrees
 */
export function unwrappedDegrees(radians) {
  let last = NaN;
  return radians.map((value) => {
    if (value === null) return null;
    const degrees = (value * 180) / Math.PI;
    last = Number.isNaN(last) ? degrees : degrees + 360 * Math.round((last - degrees) / 360);
    return last;
  });
}

/**
 * Make times usable for playback: non-decreasing, and constant for at most one real step.
 * @param {ArrayLike<number>} times seconds, (F,)
 * @returns {Float64Array}
 */
export function risingTimes(times) {
  const rising = Float64Array.from(times);
  for (let i = 0; i < rising.length; i += 1) {
    const before = i ? rising[i - 1] : 0;
    if (!Number.isFinite(rising[i])) rising[i] = i ? before + FRAME_S : 0;
    else if (i && rising[i] < before) rising[i] = before;
  }
  const last = rising.length - 1;
  return last > 0 && rising[last] <= rising[0] ? rising.map((_, i) => i * FRAME_S) : rising;
}

/** @param {Uint32Array} starts (F+1,) @param {number} numRows @returns {Uint32Array} frame of each row, (N,) */
function framesOfRows(starts, numRows) {
  const frames = new Uint32Array(numRows);
  for (let frame = 0; frame + 1 < starts.length; frame += 1) frames.fill(frame, starts[frame], starts[frame + 1]);
  return frames;
}
