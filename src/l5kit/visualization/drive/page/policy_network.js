// @ts-check
/**
 * The network of a policy, from observations to actions.
 * Mirrors `environment/policy_file.py` (CompactEncoder.encode, PolicyNetwork.act); sums are in float64, so that the last
 * digits differ from float32.
 */

const MOST_NORMALISED = 5;

/** @typedef {import("l5kit/unpack").Packed} Packed */
/** @typedef {{weights: Float32Array, offsets: Float32Array | null, numInputs: number, numOutputs: number}} Layer */

/** A forward pass over weights. */
export class PolicyNetwork {
  /** @param {Packed} packed content of a `PagePolicy` */
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
    /** Computes the queries of all heads; null for max pooling. */
    this.query = "agents_query_weights" in packed.arrays ? layerOf(packed, "agents_query") : null;
    this.layers = Array.from({ length: num_layers }, (_, index) => layerOf(packed, `layer_${index}`));
  }

  /** Mirrors `PolicyNetwork.act`. @param {Float32Array} seen @returns {Float32Array} the action */
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
    const own = values.subarray(0, this.ownColumns);
    /** @type {Float32Array[]} */
    const rows = [];
    for (let agent = 0; agent < this.numAgents; agent += 1) {
      const first = this.ownColumns + agent * this.agentColumns;
      if (seen[first + this.agentColumns - 1] === 0) continue; // empty slot
      /** @type {Float32Array} */
      let row = values.subarray(first, first + this.agentColumns);
      for (const layer of this.each) row = times(layer, row).map((value) => Math.max(value, 0));
      rows.push(row);
    }
    const width = this.each[1].numOutputs;
    const others = times(this.mix, this.query ? attended(times(this.query, own), rows, width) : largest(rows, width));
    return times(this.own, own).map((value, at) => Math.tanh(value + others[at]));
  }
}

/** Max pooling, at least 0, the value of empty slots. @param {Float32Array[]} rows @param {number} width */
function largest(rows, width) {
  return new Float32Array(width).map((_, at) => Math.max(0, ...rows.map((row) => row[at])));
}

/**
 * Attention of all heads, concatenated: rows weighted by a softmax of their scores and of a row of zeros, whose score is
 * 0.
 * @param {Float32Array} queries of all heads @param {Float32Array[]} rows @param {number} width
 */
function attended(queries, rows, width) {
  const all = new Float32Array(queries.length);
  for (let head = 0; head < queries.length; head += width) {
    const query = queries.subarray(head, head + width);
    const scores = rows.map((row) => row.reduce((sum, value, at) => sum + value * query[at], 0) / Math.sqrt(width));
    const most = Math.max(0, ...scores);
    const shares = scores.map((score) => Math.exp(score - most));
    const total = shares.reduce((sum, share) => sum + share, Math.exp(-most));
    for (let at = 0; at < width; at += 1) {
      all[head + at] = rows.reduce((sum, row, index) => sum + row[at] * shares[index], 0) / total;
    }
  }
  return all;
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
