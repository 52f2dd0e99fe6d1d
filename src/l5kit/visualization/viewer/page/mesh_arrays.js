// @ts-check
/** Filled polygons and lines as vertices and triangles for WebGL, without a GPU. */

const LONGEST_MITER = 2;
const LEAST_WIDTH_M = 1e-6; // the sign of the width distinguishes the sides of a line

/** Words per vertex: x, y, offset x, offset y, width_m, least width_px, RGBA. */
export const WORDS = 7;

/** @typedef {{color: number, alpha?: number, endAlpha?: number, width_m: number, leastWidth_px?: number}} Stroke */

/** Shapes in the order of their addition; the arrays have spare capacity. */
export class MeshArrays {
  constructor() {
    this.floats = new Float32Array(WORDS * 256);
    this.words = new Uint32Array(this.floats.buffer); // the same memory, for colours
    this.indices = new Uint32Array(768);
    this.numVertices = 0;
    this.numIndices = 0;
  }

  clear() {
    this.numVertices = 0;
    this.numIndices = 0;
  }

  /** @param {ArrayLike<number>} points of a convex polygon @param {number} color @param {number} [alpha] */
  fillConvex(points, color, alpha = 1) {
    const triangles = [];
    for (let corner = 2; 2 * corner < points.length; corner++) triangles.push(0, corner - 1, corner);
    this.addFill(points, color, alpha, triangles);
  }

  /**
   * @param {ArrayLike<number>} points x0, y0, x1, y1 ... of a polygon
   * @param {number} color
   * @param {number} alpha
   * @param {number[]} triangles that fill it: point indices, three each
   */
  addFill(points, color, alpha, triangles) {
    const first = this.numVertices;
    this.reserve(points.length / 2, triangles.length);
    const packed = packColor(color, alpha);
    for (let at = 0; at < points.length; at += 2) this.addVertex(points[at], points[at + 1], 0, 0, 0, 0, packed);
    for (const corner of triangles) this.indices[this.numIndices++] = first + corner;
  }

  /** @param {ArrayLike<number>} points @param {Stroke} stroke @param {boolean} [closed] */
  line(points, { color, alpha = 1, endAlpha = alpha, width_m, leastWidth_px = 1 }, closed = false) {
    const count = points.length / 2;
    if (count < 2) return;
    const width = Math.max(width_m, LEAST_WIDTH_M);
    const numEnds = closed ? count + 1 : count;
    this.reserve(2 * numEnds, 6 * (numEnds - 1));
    for (let end = 0; end < numEnds; end++) {
      const [x, y] = miter(points, end, count, closed);
      const packed = packColor(color, alpha + ((endAlpha - alpha) * end) / (numEnds - 1));
      const at = 2 * (end % count);
      this.addVertex(points[at], points[at + 1], x, y, width, leastWidth_px, packed);
      this.addVertex(points[at], points[at + 1], x, y, -width, leastWidth_px, packed);
      if (end > 0) this.addQuad(this.numVertices - 4);
    }
  }

  /** @param {number} first */
  addQuad(first) {
    for (const corner of [0, 1, 2, 2, 1, 3]) this.indices[this.numIndices++] = first + corner;
  }

  /**
   * @param {number} x
   * @param {number} y
   * @param {number} dx
   * @param {number} dy
   * @param {number} width
   * @param {number} least
   * @param {number} packed
   */
  addVertex(x, y, dx, dy, width, least, packed) {
    const at = WORDS * this.numVertices++;
    const { floats } = this;
    floats[at] = x;
    floats[at + 1] = y;
    floats[at + 2] = dx;
    floats[at + 3] = dy;
    floats[at + 4] = width;
    floats[at + 5] = least;
    this.words[at + 6] = packed;
  }

  /** @param {number} vertices @param {number} indices that will be added */
  reserve(vertices, indices) {
    if (WORDS * (this.numVertices + vertices) > this.floats.length) {
      const grown = new Float32Array(Math.max(2 * this.floats.length, WORDS * (this.numVertices + vertices)));
      grown.set(this.floats);
      this.floats = grown;
      this.words = new Uint32Array(grown.buffer);
    }
    if (this.numIndices + indices > this.indices.length) {
      const grown = new Uint32Array(Math.max(2 * this.indices.length, this.numIndices + indices));
      grown.set(this.indices);
      this.indices = grown;
    }
  }

  /** Shrink the arrays to the shapes. */
  trim() {
    this.floats = this.floats.slice(0, WORDS * this.numVertices);
    this.words = new Uint32Array(this.floats.buffer);
    this.indices = this.indices.slice(0, this.numIndices);
  }
}

/** @param {number} color @param {number} alpha @returns {number} bytes R, G, B, A in memory */
function packColor(color, alpha) {
  const opacity = Math.round(255 * alpha);
  return ((opacity << 24) | ((color & 255) << 16) | (color & 0xff00) | (color >> 16)) >>> 0;
}

/**
 * @param {ArrayLike<number>} points
 * @param {number} end
 * @param {number} count
 * @param {boolean} closed
 * @returns {number[]} offset
 */
function miter(points, end, count, closed) {
  const before = direction(points, closed ? (end + count - 1) % count : end - 1, end % count);
  const after = direction(points, end % count, closed ? (end + 1) % count : end + 1);
  const [ax, ay] = before ?? after ?? [1, 0];
  const [bx, by] = after ?? before ?? [1, 0];
  const [sx, sy] = [ax + bx, ay + by];
  const length2 = sx * sx + sy * sy;
  if (length2 < 4 / LONGEST_MITER ** 2) return [-by, bx];
  return [(-2 * sy) / length2, (2 * sx) / length2];
}

/** @param {ArrayLike<number>} points @param {number} from @param {number} to @returns {number[] | null} unit vector */
function direction(points, from, to) {
  if (from < 0 || 2 * to >= points.length) return null;
  const [dx, dy] = [points[2 * to] - points[2 * from], points[2 * to + 1] - points[2 * from + 1]];
  const length = Math.hypot(dx, dy);
  return length > 1e-6 ? [dx / length, dy / length] : null;
}
