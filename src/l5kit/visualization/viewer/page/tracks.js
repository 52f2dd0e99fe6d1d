// @ts-check
/** Rows of agents by track, and the paths of tracks. */

/** Index that stands for the AV instead of a track. */
export const EGO_TRACK = -1;

const LONGEST_GAP = 5; // frames; a path is split where its agent was unseen for longer

/** Positions of the tracks of a scene by frame. */
export class Tracks {
  /** @param {import("l5kit/unpack").PackedScene} scene */
  constructor({ facts, arrays }) {
    this.arrays = arrays;
    const { agent_track, agent_starts } = arrays;
    this.starts = new Uint32Array(facts.track_ids.length + 1);
    for (const track of agent_track) this.starts[track + 1]++;
    for (let track = 0; track < facts.track_ids.length; track++) this.starts[track + 1] += this.starts[track];
    this.rows = new Uint32Array(agent_track.length);
    this.frames = new Uint32Array(agent_track.length); // of each of these rows
    const next = this.starts.slice();
    for (let frame = 0; frame + 1 < agent_starts.length; frame++) {
      for (let row = agent_starts[frame]; row < agent_starts[frame + 1]; row++) {
        const at = next[agent_track[row]]++;
        this.rows[at] = row;
        this.frames[at] = frame;
      }
    }
  }

  /** @param {number} track @param {number} frame @returns {number} first index of the track at or after the frame */
  placeOf(track, frame) {
    let [low, high] = [this.starts[track], this.starts[track + 1]];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.frames[middle] < frame) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** @param {number} track @param {number} frame @returns {number} row of the agent, -1 if it is not in the frame */
  rowAt(track, frame) {
    const place = this.placeOf(track, frame);
    return place < this.starts[track + 1] && this.frames[place] === frame ? this.rows[place] : -1;
  }

  /**
   * @param {number} track
   * @param {number} from first frame
   * @param {number} to last frame
   * @param {number} spacing_m least distance of points
   * @returns {number[][]} paths x0, y0, x1, y1 ... in metres from the origin of the scene
   */
  paths(track, from, to, spacing_m) {
    const { agent_xy } = this.arrays;
    const paths = [];
    const end = this.starts[track + 1];
    let previous = -Infinity;
    let path = new Path(spacing_m);
    for (let place = this.placeOf(track, from); place < end && this.frames[place] <= to; place++) {
      if (this.frames[place] - previous > LONGEST_GAP) {
        path = new Path(spacing_m);
        paths.push(path);
      }
      previous = this.frames[place];
      path.add(agent_xy[2 * this.rows[place]], agent_xy[2 * this.rows[place] + 1]);
    }
    return paths.map((path) => path.close());
  }
}

/** Points with a minimum distance from each other; the last one is always kept. */
export class Path {
  /** @param {number} spacing_m */
  constructor(spacing_m) {
    this.spacing_m = spacing_m;
    /** @type {number[]} */
    this.points = [];
    /** @type {number[]} */
    this.last = [];
  }

  /** @param {number} x @param {number} y */
  add(x, y) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) return;
    const { points } = this;
    const far =
      points.length === 0 || Math.hypot(x - points[points.length - 2], y - points[points.length - 1]) >= this.spacing_m;
    if (far) points.push(x, y);
    this.last = far ? [] : [x, y];
  }

  /** @returns {number[]} */
  close() {
    return [...this.points, ...this.last];
  }
}

/** @param {number[]} path @returns {number} diagonal of its bounds in metres */
export function spread(path) {
  let [left, bottom, right, top] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let at = 0; at < path.length; at += 2) {
    left = Math.min(left, path[at]);
    right = Math.max(right, path[at]);
    bottom = Math.min(bottom, path[at + 1]);
    top = Math.max(top, path[at + 1]);
  }
  return path.length ? Math.hypot(right - left, top - bottom) : 0;
}
