// @ts-check
/** Ranges of the vertical axes of plots, from their values. */

/** @param {number} _ @param {number} most @returns {[number, number]} from 0, so that standstill is at the bottom */
export function speedRange(_, most) {
  return [0, Math.max(1.1 * most, 2)];
}

/** @param {number} least @param {number} most @returns {[number, number]} at least 20 degrees */
export function yawRange(least, most) {
  const spare = Math.max((20 - (most - least)) / 2, 0.08 * (most - least));
  return [least - spare, most + spare];
}

/** @param {number} _ @param {number} most @returns {[number, number]} of times to collision, which end at 3 s */
export function closeRange(_, most) {
  return [0, Math.max(most, 3)];
}

/** @param {number} _ @param {number} most @returns {[number, number]} of distances from the road, known up to 0.5 m */
export function offRoadRange(_, most) {
  return [0, Math.max(1.1 * most, 0.55)];
}

/** @param {number} least @param {number} most @returns {[number, number]} including 0, with some margin */
export function valueRange(least, most) {
  const spare = 0.1 * Math.max(most, 0) - 0.1 * Math.min(least, 0) || 1;
  return [Math.min(least, 0) - (least < 0 ? spare : 0), Math.max(most, 0) + (most > 0 || least >= 0 ? spare : 0)];
}

/** @type {Map<string, (least: number, most: number) => [number, number]>} */
const RANGES = new Map([
  ["speed", speedRange],
  ["close", closeRange],
  ["off_road", offRoadRange],
]);

/** @param {string} axis of a curve @returns {(least: number, most: number) => [number, number]} */
export function rangeNamed(axis) {
  return RANGES.get(axis) ?? valueRange;
}
