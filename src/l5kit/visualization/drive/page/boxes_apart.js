// @ts-check
/**
 * Angles, overlaps of boxes, and corners.
 * Mirrors `geometry/relative_pose.py` (wrap_angle, turn_between), `geometry/box_overlap.py` (boxes_overlap) and
 * `lanes/road_surface.py` (write_corners).
 */

/** @typedef {{x: number, y: number, yaw: number, length: number, width: number}} DrivenBox world, metres and radians */

/** Mirrors `wrap_angle`. @param {number} angle_rad @returns {number} in [-pi, pi) */
export function wrapAngle(angle_rad) {
  let part = (angle_rad + Math.PI) % (2 * Math.PI);
  if (part < 0) part += 2 * Math.PI;
  return part - Math.PI;
}

/** Mirrors `turn_between`. @param {number} heading_rad @param {number} other_rad @returns {number} 0 to pi */
export function turnBetween(heading_rad, other_rad) {
  return Math.abs(wrapAngle(heading_rad - other_rad));
}

/** Mirrors `boxes_overlap`. @param {DrivenBox} a @param {DrivenBox} b @returns {boolean} */
export function boxesOverlap(a, b) {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const reach = 0.5 * (Math.sqrt(a.length ** 2 + a.width ** 2) + Math.sqrt(b.length ** 2 + b.width ** 2));
  if (dx * dx + dy * dy > reach * reach) return false;
  const [cosA, sinA, cosB, sinB] = [Math.cos(a.yaw), Math.sin(a.yaw), Math.cos(b.yaw), Math.sin(b.yaw)];
  const cos = Math.abs(cosA * cosB + sinA * sinB);
  const sin = Math.abs(sinA * cosB - cosA * sinB);
  if (Math.abs(dx * cosA + dy * sinA) >= 0.5 * (a.length + b.length * cos + b.width * sin)) return false;
  if (Math.abs(dy * cosA - dx * sinA) >= 0.5 * (a.width + b.length * sin + b.width * cos)) return false;
  if (Math.abs(dx * cosB + dy * sinB) >= 0.5 * (b.length + a.length * cos + a.width * sin)) return false;
  return Math.abs(dy * cosB - dx * sinB) < 0.5 * (b.width + a.length * sin + a.width * cos);
}

/** Front left, front right, rear right and rear left. @param {DrivenBox} box @returns {[number, number][]} */
export function cornersOf({ x, y, yaw, length, width }) {
  const [cos, sin] = [Math.cos(yaw), Math.sin(yaw)];
  return [0, 1, 2, 3].map((corner) => {
    const along = corner < 2 ? 0.5 * length : -0.5 * length;
    const across = corner === 0 || corner === 3 ? 0.5 * width : -0.5 * width;
    return [x + along * cos - across * sin, y + along * sin + across * cos];
  });
}
