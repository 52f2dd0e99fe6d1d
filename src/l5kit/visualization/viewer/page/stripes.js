// @ts-check
/** The stripes of a crosswalk, parallel to the road: across the longest side of its outline. */

const PERIOD_M = 1.0;
const STRIPE_M = 0.5;
const MOST_STRIPES = 200;

/**
 * @param {ArrayLike<number>} polygon x0, y0, x1, y1 ... in metres
 * @returns {number[][]} the stripes, clipped to the polygon; none for a degenerate outline
 */
export function stripesOf(polygon) {
  const [ux, uy] = longestSide(polygon);
  if (ux === 0 && uy === 0) return [];
  let [from, to] = [Infinity, -Infinity];
  for (let at = 0; at < polygon.length; at += 2) {
    const along = polygon[at] * ux + polygon[at + 1] * uy;
    from = Math.min(from, along);
    to = Math.max(to, along);
  }
  const count = Math.min(Math.floor((to - from) / PERIOD_M), MOST_STRIPES);
  const first = from + (to - from - count * PERIOD_M + STRIPE_M) / 2;
  const stripes = Array.from({ length: count }, (_, number) => {
    const start = first + number * PERIOD_M;
    const ahead = clip(Array.from(polygon), ux, uy, start);
    return clip(ahead, -ux, -uy, -(start + STRIPE_M));
  });
  return stripes.filter((stripe) => stripe.length >= 6);
}

/**
 * @param {ArrayLike<number>} polygon
 * @returns {number[]} its direction as a unit vector, zeros if all points coincide
 */
function longestSide(polygon) {
  let best = [0, 0, 0];
  for (let at = 0; at < polygon.length; at += 2) {
    const next = (at + 2) % polygon.length;
    const [dx, dy] = [polygon[next] - polygon[at], polygon[next + 1] - polygon[at + 1]];
    const length = Math.hypot(dx, dy);
    if (length > best[2]) best = [dx / length, dy / length, length];
  }
  return best;
}

/**
 * @param {number[]} polygon
 * @param {number} ux
 * @param {number} uy
 * @param {number} least
 * @returns {number[]} the part with u.p >= least
 */
function clip(polygon, ux, uy, least) {
  const kept = [];
  for (let at = 0; at < polygon.length; at += 2) {
    const next = (at + 2) % polygon.length;
    const [x, y, nextX, nextY] = [polygon[at], polygon[at + 1], polygon[next], polygon[next + 1]];
    const [here, there] = [x * ux + y * uy - least, nextX * ux + nextY * uy - least];
    if (here >= 0) kept.push(x, y);
    if (here >= 0 === there >= 0) continue;
    const share = here / (here - there);
    kept.push(x + share * (nextX - x), y + share * (nextY - y));
  }
  return kept;
}
