// @ts-check
/** A ruler: two positions in the world and their distance, without elements. */

/** @typedef {{x: number, y: number}} Point metres, world */

const FINE_BELOW_M = 10;

/** State of the ruler; while it is on, clicks set its ends. */
export class Ruler {
  constructor() {
    this.on = false;
    /** @type {Point[]} */
    this.ends = [];
    /** @type {Point | null} */
    this.pointer = null; // candidate for the second end
  }

  start() {
    this.on = true;
  }

  /** Stop measuring. @returns {boolean} whether it was on */
  stop() {
    const was = this.on;
    this.on = false;
    this.ends = [];
    this.pointer = null;
    return was;
  }

  /** Set the next end; after two ends, start another line. @param {Point} point */
  click(point) {
    if (this.ends.length === 2) this.ends = [];
    this.ends.push(point);
  }

  /** @param {number} end 0 or 1 @param {Point} point its new position */
  move(end, point) {
    if (end < this.ends.length) this.ends[end] = point;
  }

  /** @returns {Point[]} ends of the line as drawn: the pointer replaces a missing second end */
  line() {
    return this.ends.length === 1 && this.pointer ? [this.ends[0], this.pointer] : [...this.ends];
  }

  /** @returns {number | null} metres; null without a line */
  length_m() {
    const [from, to] = this.line();
    return to ? Math.hypot(to.x - from.x, to.y - from.y) : null;
  }
}

/** @param {number} length_m @returns {string} centimetres below 10 m, else decimetres */
export function lengthText(length_m) {
  const fine = length_m.toFixed(2);
  return Number(fine) < FINE_BELOW_M ? `${fine} m` : `${length_m.toFixed(1)} m`;
}
