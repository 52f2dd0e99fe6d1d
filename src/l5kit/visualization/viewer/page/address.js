// @ts-check
/** The fragment of the address (after #): scene, frame, track and view. */

/** @typedef {"off" | "av" | "track"} Following target that the view is centred on; "track": the selected agent */
/**
 * @typedef {object} Place
 * @property {number} [scene] index of the scene
 * @property {number} [frame] within the scene, from 0
 * @property {string} [track] track id, decimal; "av" is the AV
 * @property {string} [lane] id of a lane of the map
 * @property {boolean} [aerial] whether the aerial picture is the ground
 * @property {Following} [follow]
 * @property {number} [x] metres, world: centre of the view
 * @property {number} [y]
 * @property {number} [zoom] CSS pixels per metre
 */

/** The AV as the value of `track`. */
export const AV = "av";

/** @type {Map<string, Following>} */
const FOLLOWING = new Map([
  ["0", "off"],
  ["1", "av"],
  ["track", "track"],
]);
const WRITTEN_FOLLOWING = { off: "0", av: "1", track: "track" };
const WRITE_EVERY_MS = 400;
const WHOLE = /^\d{1,15}$/;
const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const MOST_WORLD_M = 1e8;
const LONGEST_ID = 200;

/** @param {string} text @returns {number | undefined} */
const whole = (text) => (WHOLE.test(text) ? Number(text) : undefined);
/** @param {string} text @param {number} least @param {number} most @returns {number | undefined} */
const decimal = (text, least, most) => {
  const value = DECIMAL.test(text) ? Number(text) : NaN;
  return value >= least && value <= most ? value : undefined;
};

/** @type {Record<string, {allowed: string, read: (text: string) => Place[keyof Place]}>} */
const FIELDS = {
  scene: { allowed: "a whole number", read: whole },
  frame: { allowed: "a whole number", read: whole },
  track: {
    allowed: `a track id or ${AV}`,
    read: (text) => (text === AV || /^\d{1,20}$/.test(text) ? text : undefined),
  },
  lane: { allowed: "the id of a lane", read: (text) => (text && text.length <= LONGEST_ID ? text : undefined) },
  aerial: { allowed: "0 or 1", read: (text) => (/^[01]$/.test(text) ? text === "1" : undefined) },
  follow: { allowed: "0, 1 or track", read: (text) => FOLLOWING.get(text) },
  x: { allowed: "metres", read: (text) => decimal(text, -MOST_WORLD_M, MOST_WORLD_M) },
  y: { allowed: "metres", read: (text) => decimal(text, -MOST_WORLD_M, MOST_WORLD_M) },
  zoom: { allowed: "pixels a metre, 0.01 to 1000", read: (text) => decimal(text, 0.01, 1000) },
};

/**
 * Parse an address; unreadable parts are skipped and reported.
 * @param {string} hash such as "#scene=3&frame=120"
 * @returns {{place: Place, problems: string[]}}
 */
export function parseAddress(hash) {
  /** @type {Record<string, Place[keyof Place]>} */
  const place = {};
  const problems = [];
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    const field = Object.hasOwn(FIELDS, name) ? FIELDS[name] : null;
    const value = field?.read(text);
    if (!field) problems.push(`${shorten(name)} (known: ${Object.keys(FIELDS).join(", ")})`);
    else if (value === undefined) problems.push(`${name}=${shorten(text)} (allowed: ${field.allowed})`);
    else place[name] = value;
  }
  return { place, problems };
}

/** @param {Place} place @returns {string} such as "#scene=3&frame=120&follow=1" */
export function formatAddress(place) {
  const parts = [];
  const { scene, frame, track, lane, aerial, follow, x, y, zoom } = place;
  if (scene !== undefined) parts.push(`scene=${scene}`);
  if (frame !== undefined) parts.push(`frame=${frame}`);
  if (track !== undefined) parts.push(`track=${track}`);
  if (lane !== undefined) parts.push(`lane=${encodeURIComponent(lane)}`);
  if (aerial) parts.push("aerial=1");
  if (follow !== undefined) parts.push(`follow=${WRITTEN_FOLLOWING[follow]}`);
  if (x !== undefined && y !== undefined) parts.push(`x=${x.toFixed(2)}`, `y=${y.toFixed(2)}`);
  if (zoom !== undefined) parts.push(`zoom=${Number(zoom.toPrecision(5))}`);
  return `#${parts.join("&")}`;
}

/** @param {string} text @returns {string} at most 40 characters */
function shorten(text) {
  return text.length > 40 ? `${text.slice(0, 39)}\u2026` : text;
}

/**
 * Keep the address up to date with the page.
 * @param {object} hooks
 * @param {() => Place | null} hooks.current the displayed place; null for none
 * @param {(read: {place: Place, problems: string[]}) => void} hooks.onChange called when the address was changed
 * @returns {{update: () => void, push: () => void, link: () => string}}
 */
export function createAddress({ current, onChange }) {
  let timer = 0;
  let written = location.hash;
  /** @param {"pushState" | "replaceState"} how */
  const write = (how) => {
    clearTimeout(timer);
    timer = 0;
    const place = current();
    if (!place) return;
    const hash = formatAddress(place);
    if (hash === written) return;
    written = hash;
    try {
      history[how](null, "", hash);
    } catch {
      // Browsers may forbid this for files; the page works without it.
    }
  };
  const changed = () => {
    if (location.hash === written) return;
    clearTimeout(timer);
    timer = 0;
    written = location.hash;
    onChange(parseAddress(location.hash));
  };
  const flush = () => {
    if (timer) write("replaceState");
  };
  // An address copied after a drag gives the displayed view.
  addEventListener("pointerup", flush, { capture: true });
  addEventListener("hashchange", changed);
  addEventListener("popstate", changed);
  return {
    update: () => {
      timer ||= window.setTimeout(() => write("replaceState"), WRITE_EVERY_MS);
    },
    push: () => write("pushState"),
    link: () => {
      write("replaceState");
      const place = current();
      return location.href.replace(/#.*$/, "") + (place ? formatAddress(place) : "");
    },
  };
}
