// @ts-check
/** Predictions of a scene: the paths of a frame, and their distances from the actual future. */

import { EGO_TRACK } from "l5kit/tracks";

/** @typedef {import("l5kit/scene_model").SceneModel} SceneModel */
/**
 * @typedef {object} Mode a possible path of an agent
 * @property {number} confidence 0 to 1
 * @property {Float32Array} points x0, y0, x1, y1 ... in metres from the origin of the scene, one point per frame
 */
/** @typedef {{confidence: number, ade: number, fde: number}} ModeError metres; NaN if unknown */
/**
 * @typedef {object} Errors
 * @property {ModeError[]} modes most probable first
 * @property {{ade: number, fde: number}} best smallest of each
 * @property {number} numKnown steps in which the log has the agent
 * @property {number} numSteps
 */

/** The P predictions of a scene of F frames: M modes of T steps. */
export class PredictionModel {
  /**
   * @param {import("l5kit/unpack").PackedPredictions} packed
   * @param {SceneModel} scene
   */
  constructor({ facts, arrays }, scene) {
    this.facts = facts;
    this.arrays = arrays;
    this.scene = scene;
  }

  /** @param {number} frame @returns {number[]} indices of its predictions */
  at(frame) {
    const { starts } = this.arrays;
    return Array.from({ length: starts[frame + 1] - starts[frame] }, (_, place) => starts[frame] + place);
  }

  /** @param {number} prediction @returns {number} its track, EGO_TRACK for the AV */
  trackOf(prediction) {
    const row = this.arrays.agent_row[prediction];
    return row < 0 ? EGO_TRACK : this.scene.arrays.agent_track[row];
  }

  /** @param {number} track @param {number} frame @returns {number | null} its prediction; null for none */
  of(track, frame) {
    return this.at(frame).find((prediction) => this.trackOf(prediction) === track) ?? null;
  }

  /** @param {number} prediction @returns {Mode[]} most probable first */
  modes(prediction) {
    const { num_modes, num_steps } = this.facts;
    const { confidence, xy } = this.arrays;
    const first = prediction * num_modes;
    const modes = Array.from({ length: num_modes }, (_, mode) => ({
      confidence: confidence[first + mode],
      points: xy.subarray(2 * num_steps * (first + mode), 2 * num_steps * (first + mode + 1)),
    }));
    return modes.filter((mode) => !Number.isNaN(mode.confidence)).sort((a, b) => b.confidence - a.confidence);
  }

  /** @param {number} prediction @param {number} frame of the prediction @returns {[number, number]} position of its agent in the frame */
  placeOf(prediction, frame) {
    const row = this.arrays.agent_row[prediction];
    const { agent_xy, ego_xy } = this.scene.arrays;
    return row < 0 ? [ego_xy[2 * frame], ego_xy[2 * frame + 1]] : [agent_xy[2 * row], agent_xy[2 * row + 1]];
  }

  /**
   * Compute the errors of a prediction.
   * @param {number} prediction
   * @param {number} frame of the prediction
   * @returns {Errors}
   */
  errors(prediction, frame) {
    const numSteps = this.facts.num_steps;
    const truth = this.truth(this.trackOf(prediction), frame);
    const modes = this.modes(prediction).map(({ confidence, points }) => {
      const known = distances(points, truth).filter(Number.isFinite);
      const sum = known.reduce((total, distance_m) => total + distance_m, 0);
      return { confidence, ade: known.length ? sum / known.length : NaN, fde: distances(points, truth)[numSteps - 1] };
    });
    const least = (/** @type {"ade" | "fde"} */ key) => Math.min(...modes.map((mode) => mode[key]));
    const numKnown = truth.filter((value, at) => at % 2 === 0 && Number.isFinite(value)).length;
    return { modes, best: { ade: least("ade"), fde: least("fde") }, numKnown, numSteps };
  }

  /** @param {number} track @param {number} frame @returns {number[]} position in each step, NaN if unknown */
  truth(track, frame) {
    const { scene } = this;
    return Array.from({ length: this.facts.num_steps }, (_, step) => frame + 1 + step).flatMap((index) => {
      if (index >= scene.numFrames) return [NaN, NaN];
      if (track === EGO_TRACK) return [scene.arrays.ego_xy[2 * index], scene.arrays.ego_xy[2 * index + 1]];
      const row = scene.rowOf(track, index);
      return row < 0 ? [NaN, NaN] : [scene.arrays.agent_xy[2 * row], scene.arrays.agent_xy[2 * row + 1]];
    });
  }

  /** @returns {[number, number][]} first and last frame of each run of frames with predictions */
  runs() {
    const { starts } = this.arrays;
    /** @type {[number, number][]} */
    const runs = [];
    for (let frame = 0; frame + 1 < starts.length; frame += 1) {
      if (starts[frame] === starts[frame + 1]) continue;
      const last = runs[runs.length - 1];
      if (last && last[1] === frame - 1) last[1] = frame;
      else runs.push([frame, frame]);
    }
    return runs;
  }

  /** @returns {number} frames with predictions */
  numPredictedFrames() {
    return this.runs().reduce((sum, [first, last]) => sum + last - first + 1, 0);
  }
}

/** @param {ArrayLike<number>} points @param {ArrayLike<number>} truth @returns {number[]} metres, one per step */
function distances(points, truth) {
  return Array.from({ length: truth.length / 2 }, (_, step) =>
    Math.hypot(points[2 * step] - truth[2 * step], points[2 * step + 1] - truth[2 * step + 1]),
  );
}
