// @ts-check
/** Map data of lanes: ids, speed limits, lengths and connections. */

/** @typedef {{number: number, id: string, isHere: boolean}} Neighbour isHere: whether the page has its outline */

const KMH = 3.6;

/** The lanes of the map of the page, by number. */
export class LaneModel {
  /** @param {import("l5kit/unpack").PackedLanes} packed */
  constructor({ facts, arrays }) {
    this.ids = facts.ids;
    this.numLanes = facts.num_lanes;
    this.arrays = arrays;
    /** @type {Map<string, number>} */
    this.numbers = new Map(this.ids.slice(0, this.numLanes).map((id, number) => [id, number]));
  }

  /** @param {string} id @returns {number | null} null if the page has no such lane */
  numberOf(id) {
    return this.numbers.get(id) ?? null;
  }

  /** @param {number} lane @returns {{left: Neighbour[], right: Neighbour[], ahead: Neighbour[], behind: Neighbour[]}} */
  neighbours(lane) {
    const { left, right, ahead, ahead_starts, behind, behind_starts } = this.arrays;
    return {
      left: this.named([left[lane]]),
      right: this.named([right[lane]]),
      ahead: this.named(ahead.subarray(ahead_starts[lane], ahead_starts[lane + 1])),
      behind: this.named(behind.subarray(behind_starts[lane], behind_starts[lane + 1])),
    };
  }

  /** @param {ArrayLike<number>} numbers negative for none @returns {Neighbour[]} */
  named(numbers) {
    const there = Array.from(numbers).filter((number) => number >= 0);
    return there.map((number) => ({ number, id: this.ids[number], isHere: number < this.numLanes }));
  }
}

/** @param {number} limit_mps NaN if unknown @returns {string} */
export function limitText(limit_mps) {
  if (!Number.isFinite(limit_mps)) return "unknown";
  return `${limit_mps.toFixed(1)} m/s (${Math.round(KMH * limit_mps)} km/h)`;
}
