// @ts-check
/** Curves of two drives of a scene on one time axis, which starts with the first drive. */

/** @typedef {import("l5kit/unpack").Curve} Curve */
/**
 * @typedef {object} ToldDrive the drive of a page, as reported to its parent page
 * @property {string} name of its dataset
 * @property {number | string} source the scene, by its index in the log
 * @property {string} start_time_ns of its first frame, since 1970, decimal
 * @property {number[]} time_s since that frame, (F,)
 * @property {Curve[]} curves the curves
 * @property {Record<string, (number | null)[]>} values of each curve by key, and `log_speed`, (F,)
 */
/** @typedef {{name: string, kind: "first" | "second" | "log", values: (number | null)[]}} JoinedLine */
/** @typedef {{time_s: number[], curves: {curve: Curve, lines: JoinedLine[]}[]}} JoinedCurves */

const LOG_SPEED = "log_speed";
const PER_SECOND = 1000; // times are equal if they round to the same millisecond

/**
 * @param {(ToldDrive | null)[]} drives of the two pages; null if a page shows a log
 * @returns {JoinedCurves | null} null if there is no drive, or the drives are of different scenes
 */
export function joinCurves(drives) {
  const known = drives.filter((drive) => drive !== null);
  if (!known.length || known.some(({ source }) => source !== known[0].source)) return null;
  const shifts_s = known.map((drive) => shiftOf(drive, known[0]));
  const places = known.map(({ time_s }, at) => time_s.map((time) => Math.round((time + shifts_s[at]) * PER_SECOND)));
  const axis = [...new Set(places.flat())].sort((one, other) => one - other);
  const spread = (/** @type {number} */ at, /** @type {string} */ key) => {
    const values = new Map(places[at].map((place, frame) => [place, known[at].values[key]?.[frame] ?? null]));
    return axis.map((place) => values.get(place) ?? null);
  };
  const curves = known[0].curves.map((curve) => {
    const lines = known.map((drive, at) => ({
      name: drive.name,
      kind: drive === drives[0] ? /** @type {const} */ ("first") : /** @type {const} */ ("second"),
      values: spread(at, curve.key),
    }));
    const log =
      curve.key === "speed" ? [{ name: "log", kind: /** @type {const} */ ("log"), values: spread(0, LOG_SPEED) }] : [];
    return { curve, lines: [...lines, ...log].filter(({ values }) => values.some((value) => value !== null)) };
  });
  return { time_s: axis.map((place) => place / PER_SECOND), curves: curves.filter(({ lines }) => lines.length) };
}

/**
 * Return how much later a drive starts than another one; drives of different days start together.
 * @param {{start_time_ns: string, time_s: number[]}} drive
 * @param {{start_time_ns: string}} other
 * @returns {number} seconds
 */
export function shiftOf({ start_time_ns, time_s }, other) {
  const later_s = Number(BigInt(start_time_ns) - BigInt(other.start_time_ns)) / 1e9;
  return Math.abs(later_s) <= (time_s.at(-1) ?? 0) ? later_s : 0;
}
