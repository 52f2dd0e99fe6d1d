// @ts-check
/** Formatting of numbers, times and names for display. */

const GROUPED = new Intl.NumberFormat("en-US");
const NOT_KNOWN = "\u2013";

/** @param {number} value @returns {string} such as "16,000" */
export function count(value) {
  return GROUPED.format(value);
}

/** @param {number} number @param {string} noun @returns {string} such as "1 scene" or "16,000 scenes" */
export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/**
 * @param {number | null | undefined} value
 * @param {number} digits decimal places
 * @param {string} [unit]
 * @returns {string} such as "7.31 m/s"; a dash if the value is not finite
 */
export function quantity(value, digits, unit = "") {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOT_KNOWN;
  const text = value.toFixed(digits);
  const number = /^-0(\.0*)?$/.test(text) ? text.slice(1) : text;
  return unit ? `${number} ${unit}` : number;
}

/**
 * @param {Record<string, number | null> | null | undefined} metrics of a drive, or their means
 * @returns {string} suffix of a score without the metrics that need a map
 */
export function withoutMap(metrics) {
  const isKnown = metrics && metrics.time_to_collision !== null; // known for every scene with a score
  return isKnown && metrics.drivable_area_compliance === null ? " without a map" : "";
}

/** @param {number} radians @returns {string} such as "-90.0°", within (-180, 180] */
export function angle(radians) {
  if (!Number.isFinite(radians)) return NOT_KNOWN;
  const degrees = Math.round((radians * 1800) / Math.PI) / 10; // rounded for display; -180 becomes 180
  const wrapped = degrees - 360 * Math.ceil((degrees - 180) / 360);
  return `${quantity(wrapped, 1)}\u00b0`;
}

/** @param {number} fraction within [0, 1] @returns {string} such as "98 %" or "0.4 %" */
export function percent(fraction) {
  if (!Number.isFinite(fraction)) return NOT_KNOWN;
  const value = 100 * fraction;
  const digits = value >= 10 || value === 0 ? 0 : value >= 0.1 ? 1 : 3;
  return `${value.toFixed(digits)} %`;
}

/** @param {string} label such as "PERCEPTION_LABEL_CAR" @returns {string} such as "car" */
export function className(label) {
  return label
    .replace(/^PERCEPTION_LABEL_/, "")
    .replaceAll("_", " ")
    .toLowerCase();
}

/** @param {string} nanoseconds since 1970, decimal @returns {string} in UTC; empty if invalid */
export function clockTime(nanoseconds) {
  if (!/^\d{1,19}$/.test(nanoseconds)) return "";
  const date = new Date(Number(BigInt(nanoseconds) / 1000000n));
  if (Number.isNaN(date.getTime()) || date.getTime() === 0) return "";
  return `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** @param {unknown} error a caught error @returns {string} its text */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}
