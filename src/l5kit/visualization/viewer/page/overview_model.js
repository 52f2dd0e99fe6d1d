// @ts-check
/** Overview of planners and scenes: gains over the reference, and orders of scenes. */

/** @typedef {{scene: number, places: number[], values: (number | null)[], failures: string[], tags: string[]}} OverviewScene */
/**
 * @typedef {object} OverviewFacts
 * @property {string} label name of the values
 * @property {number} digits
 * @property {boolean} low_is_better
 * @property {number} reference planner that others are compared with
 * @property {{name: string, mean: string, verdict: string}[]} planners
 * @property {OverviewScene[]} scenes
 */

const SAME = 1e-9;

/**
 * Return by how much a planner is better than the reference in a scene.
 * @param {OverviewFacts} facts
 * @param {OverviewScene} scene
 * @param {number} planner
 * @returns {number} 0 if a value is missing
 */
export function gainOf({ low_is_better, reference }, { values }, planner) {
  const [value, other] = [values[planner], values[reference]];
  if (value === null || other === null) return 0;
  const gain = low_is_better ? other - value : value - other;
  return Math.abs(gain) > SAME ? gain : 0;
}

/** @param {OverviewFacts} facts @param {OverviewScene} scene @returns {boolean} whether any planner differs */
export function differs(facts, scene) {
  return facts.planners.some((_, planner) => gainOf(facts, scene, planner) !== 0);
}

/**
 * Return the planner to play next to another one: the reference, or, for the reference, the one that differs most.
 * @param {OverviewFacts} facts
 * @param {OverviewScene} scene
 * @param {number} planner
 * @returns {number}
 */
export function partnerOf(facts, scene, planner) {
  if (planner !== facts.reference) return facts.reference;
  const others = facts.planners.map((_, at) => at).filter((at) => at !== planner);
  const gain = (/** @type {number} */ at) => Math.abs(gainOf(facts, scene, at));
  return others.reduce((most, at) => (gain(at) > gain(most) ? at : most), others[0]);
}

/**
 * Return the page where two drives of a scene play side by side, the reference on the left.
 * @param {OverviewFacts} facts
 * @param {OverviewScene} scene
 * @param {number} planner
 * @returns {string} relative address
 */
export function addressOf(facts, scene, planner) {
  const partner = partnerOf(facts, scene, planner);
  const [left, right] = planner === facts.reference ? [planner, partner] : [partner, planner];
  return `beside?left=planner-${left}&right=planner-${right}#scene=${scene.places[left]}`;
}

/** @typedef {{planner: number | null, falls: boolean}} Order by the gain of a planner (for the reference, its value), or by scene */

/**
 * @param {OverviewFacts} facts
 * @param {Order} order
 * @returns {OverviewScene[]}
 */
export function sorted(facts, { planner, falls }) {
  const keyOf = (/** @type {OverviewScene} */ scene) => {
    if (planner === null) return scene.scene;
    if (planner === facts.reference) return scene.values[planner] ?? Number.NEGATIVE_INFINITY;
    return gainOf(facts, scene, planner);
  };
  const sign = falls ? -1 : 1;
  return [...facts.scenes].sort((one, other) => sign * (keyOf(one) - keyOf(other)) || one.scene - other.scene);
}
