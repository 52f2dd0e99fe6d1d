// @ts-check
/** Resolution of an address in this dataset; references to missing things become problems to report. */

import { AV } from "l5kit/address";
import { EGO_TRACK } from "l5kit/tracks";

/** @typedef {import("l5kit/address").Place} Place */
/** @typedef {{only: number | null, numScenes: number}} Holdings `only`: the only scene of an exported file */

/**
 * Return the scene to start with: that of the address, else the first readable one.
 * @param {Place} place
 * @param {Holdings} holdings
 * @param {(scene: number) => boolean} isReadable
 * @param {number[] | null} [listed] the scenes in the order of the list, if known
 * @returns {{scene: number | null, problems: string[]}} scene: null for none
 */
export function firstScene(place, { only, numScenes }, isReadable, listed = null) {
  const problems = sceneProblems(place, { only, numScenes });
  if (only !== null) return { scene: only, problems };
  if (numScenes === 0) return { scene: null, problems: [] };
  if (place.scene !== undefined && !problems.length) return { scene: place.scene, problems };
  const scenes = listed ?? Array.from({ length: numScenes }, (_, scene) => scene);
  const readable = scenes.find(isReadable);
  return { scene: readable ?? 0, problems };
}

/**
 * @param {Place} place
 * @param {Holdings} holdings
 * @returns {string[]} empty if its scene exists, or it has none
 */
export function sceneProblems({ scene }, { only, numScenes }) {
  if (scene === undefined) return [];
  if (only !== null) return scene === only ? [] : [`scene=${scene} (this file holds scene ${only} only)`];
  return scene < numScenes ? [] : [`scene=${scene} (this dataset has scenes 0 to ${numScenes - 1})`];
}

/**
 * Return frame and track of an address in the open scene.
 * @param {Place} place
 * @param {{facts: {scene_index: number}, numFrames: number, trackOf: (id: string) => number | null}} model
 * @returns {{frame: number | undefined, track: number | null, problems: string[]}} frame: undefined if it stays
 */
export function placeInScene(place, model) {
  const { facts, numFrames } = model;
  const scene = `scene ${facts.scene_index}`;
  const problems = [];
  const hasFrame = place.frame !== undefined && place.frame < numFrames;
  if (place.frame !== undefined && !hasFrame) {
    problems.push(`frame=${place.frame} (${scene} has frames 0 to ${numFrames - 1})`);
  }
  const track = place.track === undefined ? null : place.track === AV ? EGO_TRACK : model.trackOf(place.track);
  if (place.track !== undefined && track === null) problems.push(`track=${place.track} (${scene} has no such track)`);
  return { frame: hasFrame ? place.frame : undefined, track, problems };
}
