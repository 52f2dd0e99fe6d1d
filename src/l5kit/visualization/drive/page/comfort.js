// @ts-check
/**
 * Comfort of a drive: smoothed accelerations, jerks and yaw rates, and whether they are within their bounds.
 * Mirrors `evaluation/driving/comfort.py` (smoothing_matrix, comfort_filters, find_comfort_signals, is_comfortable).
 */

const LEAST_SAMPLES = 4;
export const LEAST_FRAMES = 17; // shorter drives have no score of comfort

/** @typedef {import("l5kit/drive/simulation").EgoFrame} EgoFrame */
/** @typedef {Record<string, [number, number]>} Bounds lowest and highest value of each signal */

/** @type {Map<string, number[]>} */
const known = new Map(); // cached weights, by their parameters

/**
 * Mirrors a row of `smoothing_matrix`: weights of the samples of a window in a derivative of the fitted polynomial at a
 * position.
 * @param {number} length
 * @param {number} position
 * @param {number} order
 * @param {number} derivative
 * @returns {number[]}
 */
function weightsOf(length, position, order, derivative) {
  const key = [length, position, order, derivative].join(" ");
  const found = known.get(key);
  if (found) return found;
  const rows = Array.from({ length }, (_, at) =>
    Array.from({ length: order + 1 }, (_, power) => (at - position) ** power),
  );
  const products = Array.from({ length: order + 1 }, (_, i) =>
    Array.from({ length: order + 1 }, (_, j) => rows.reduce((sum, row) => sum + row[i] * row[j], 0)),
  );
  const unit = products.map((_, power) => Number(power === derivative));
  const solution = solve(products, unit);
  const factorial = derivative < 2 ? 1 : 2;
  const weights = rows.map((row) => factorial * row.reduce((sum, value, power) => sum + value * solution[power], 0));
  known.set(key, weights);
  return weights;
}

/** @param {number[][]} matrix @param {number[]} values @returns {number[]} solution x of matrix x = values, by elimination with pivoting */
function solve(matrix, values) {
  const rows = matrix.map((row, index) => [...row, values[index]]);
  const size = rows.length;
  for (let column = 0; column < size; column += 1) {
    let pivot = column;
    for (let row = column; row < size; row += 1)
      if (Math.abs(rows[row][column]) > Math.abs(rows[pivot][column])) pivot = row;
    [rows[column], rows[pivot]] = [rows[pivot], rows[column]];
    for (let row = 0; row < size; row += 1) {
      if (row === column) continue;
      const factor = rows[row][column] / rows[column][column];
      for (let at = column; at <= size; at += 1) rows[row][at] -= factor * rows[column][at];
    }
  }
  return rows.map((row, index) => row[size] / row[index]);
}

/**
 * Mirrors the product of a signal with `smoothing_matrix`.
 * @param {ArrayLike<number>} signal
 * @param {number} window
 * @param {number} order
 * @param {number} derivative
 * @returns {Float64Array}
 */
function smoothed(signal, window, order, derivative) {
  const size = signal.length;
  const length = Math.min(window, size);
  const half = Math.floor(length / 2);
  const result = new Float64Array(size);
  for (let sample = 0; sample < size; sample += 1) {
    const isInside = half <= sample && sample < size - half;
    const ends = sample < half ? 0 : size - length;
    const first = isInside ? sample - Math.floor((length - 1) / 2) : ends;
    const weights = weightsOf(length, isInside ? (length - 1) / 2 : sample - first, order, derivative);
    for (let at = 0; at < length; at += 1) result[sample] += weights[at] * signal[first + at];
  }
  return result;
}

/** Mirrors `np.unwrap`. @param {number[]} yaws @returns {Float64Array} */
function unwrapped(yaws) {
  const result = Float64Array.from(yaws);
  for (let at = 1, turns = 0; at < yaws.length; at += 1) {
    const step = yaws[at] - yaws[at - 1];
    if (step > Math.PI) turns -= 1;
    else if (step < -Math.PI) turns += 1;
    result[at] = yaws[at] + turns * 2 * Math.PI;
  }
  return result;
}

/**
 * Mirrors `find_comfort_signals`, for the signals with bounds.
 * @param {EgoFrame[]} frames of a drive
 * @param {number} step_s
 * @returns {Record<string, Float64Array> | null} null for too few frames
 */
function comfortSignals(frames, step_s) {
  if (frames.length < LEAST_SAMPLES) return null;
  const smooth = (/** @type {number[]} */ values) => smoothed(values, 8, 2, 0);
  const along = smooth(frames.map((frame) => frame.along));
  const across = smooth(frames.map((frame) => frame.across));
  const size = smooth(frames.map((frame) => Math.hypot(frame.along, frame.across)));
  const yaws = unwrapped(frames.map(({ yaw }) => yaw));
  return {
    accelerations_along_mps2: along,
    accelerations_across_mps2: across,
    jerks_mps3: smoothed(size, 15, 2, 1).map((value) => value / step_s),
    jerks_along_mps3: smoothed(along, 15, 2, 1).map((value) => value / step_s),
    yaw_rates_radps: smoothed(yaws, 5, 2, 1).map((value) => value / step_s),
    yaw_accelerations_radps2: smoothed(yaws, 5, 3, 2).map((value) => value / step_s ** 2),
  };
}

/**
 * Mirrors `is_comfortable`.
 * @param {EgoFrame[]} frames
 * @param {number} step_s
 * @param {Bounds} bounds
 * @returns {boolean[]} whether all signals of each frame are within their bounds
 */
export function areComfortable(frames, step_s, bounds) {
  const signals = comfortSignals(frames, step_s);
  return frames.map(
    (_, frame) =>
      !signals ||
      Object.entries(bounds).every(
        ([name, [least, most]]) => !(signals[name][frame] < least || signals[name][frame] > most),
      ),
  );
}
