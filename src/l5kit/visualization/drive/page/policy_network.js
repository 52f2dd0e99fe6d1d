// @ts-check
/**
 * The network of a policy, which says what to do where it sees what it sees.
 * Mirrors `environment/policy_file.py` (CompactEncoder.encode, PolicyNetwork.act); sums are of float64, so that the last
 * digits of float32 differ.
 */

const MOST_NORMALISED = 5;

/** @typedef {import("l5kit/unpack").Packed} Packed */
/** @typedef {{weights: Float32Array, offsets: Float32Array | null, numInputs: number, numOutputs: number}} Layer */

/** A forward pass over weights. */
export class PolicyNetwork {
  /** @param {Packed} packed as `PagePolicy` packs it */
  constructor(packed) {
    const { own_columns, agent_columns, num_agents, num_layers } = /** @type {Record<string, number>} */ (packed.facts);
    this.ownColumns = own_columns;
    this.agentColumns = agent_columns;
    this.numAgents = num_agents;
    this.means = packed.arrays.means;
    this.deviations = packed.arrays.deviations;
    this.own = layerOf(packed, "own");
    this.each = [layerOf(packed, "agents_first"), layerOf(packed, "agents_second")];
    this.mix = layerOf(packed, "agents_mix");
    this.layers = Array.from({ length: num_layers }, (_, index) => layerOf(packed, `layer_${index}`));
  }

  /** Mirrors `PolicyNetwork.act`. @param {Float32Array} seen @returns {Float32Array} what to do */
  act(seen) {
    let values = this.encode(seen);
    this.layers.forEach((layer, index) => {
      values = times(layer, index === 0 ? values : values.map(Math.tanh));
    });
    return values;
  }

  /** Mirrors `CompactEncoder.encode`. @param {Float32Array} seen @returns {Float32Array} features */
  encode(seen) {
    const values = seen.map((value, at) => {
      const scaled = Math.fround(value - this.means[at]) / this.deviations[at];
      return Math.min(Math.max(scaled, -MOST_NORMALISED), MOST_NORMALISED);
    });
    const mixed = times(this.own, values.subarray(0, this.ownColumns));
    const largest = new Float32Array(this.each[1].numOutputs); // not below 0, as those of nobody are
    for (let agent = 0; agent < this.numAgents; agent += 1) {
      const first = this.ownColumns + agent * this.agentColumns;
      if (seen[first + this.agentColumns - 1] === 0) continue; // nobody is there
      /** @type {Float32Array} */
      let row = values.subarray(first, first + this.agentColumns);
      for (const layer of this.each) row = times(layer, row).map((value) => Math.max(value, 0));
      row.forEach((value, at) => {
        if (value > largest[at]) largest[at] = value;
      });
    }
    const others = times(this.mix, largest);
    return mixed.map((value, at) => Math.tanh(value + others[at]));
  }
}

/** @param {Packed} packed @param {string} name @returns {Layer} */
function layerOf({ arrays, shapes }, name) {
  const [numOutputs, numInputs] = shapes[`${name}_weights`];
  const weights = /** @type {Float32Array} */ (arrays[`${name}_weights`]);
  return {
    weights,
    offsets: /** @type {Float32Array | null} */ (arrays[`${name}_offsets`] ?? null),
    numInputs,
    numOutputs,
  };
}

/** Weights times values, with offsets. @param {Layer} layer @param {Float32Array} values @returns {Float32Array} */
function times({ weights, offsets, numInputs, numOutputs }, values) {
  const product = new Float32Array(numOutputs);
  for (let output = 0, at = 0; output < numOutputs; output += 1) {
    let sum = 0;
    for (let input = 0; input < numInputs; input += 1, at += 1) sum += weights[at] * values[input];
    product[output] = sum + (offsets ? offsets[output] : 0);
  }
  return product;
}
