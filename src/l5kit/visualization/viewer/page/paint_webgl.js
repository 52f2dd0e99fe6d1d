// @ts-check
/**
 * Batches of filled polygons and lines for WebGL: one draw call each, in the order in which the shapes were added.
 * Widths of lines are in metres with a least width in pixels, so lines stay visible when zoomed out without being built
 * anew. Edges of lines are smoothed in the shader, which costs far less than multisampling does without a GPU.
 */

import { Buffer, BufferUsage, Geometry, GlProgram, Mesh, Shader, UniformGroup, WebGLRenderer, earcut } from "pixi.js";

const WORDS = 7; // of a vertex: x, y, offset x, offset y, width_m, least width_px, RGBA
const LONGEST_MITER = 2;
const LEAST_WIDTH_M = 1e-6; // the sign of the width tells the sides of a line apart

const VERTEX = `
in vec2 aPosition;
in vec2 aOffset;
in vec2 aWidth;
in vec4 aColor;
out vec4 vColor;
out vec2 vEdge;
uniform vec2 uCamera;
uniform vec2 uSize;
uniform vec2 uScale;
void main() {
  bool isLine = aWidth.y > 0.0;
  float side = aWidth.x < 0.0 ? -1.0 : 1.0;
  float halfWidth = isLine ? 0.5 * max(abs(aWidth.x) * uScale.x, aWidth.y * uScale.y) + 0.5 : 0.0;
  vec2 position = (aPosition - uCamera) * uScale.x + aOffset * side * halfWidth;
  gl_Position = vec4(position * 2.0 / uSize, 0.0, 1.0);
  vColor = vec4(aColor.rgb * aColor.a, aColor.a);
  vEdge = isLine ? vec2(side * halfWidth, halfWidth) : vec2(0.0, 2.0);
}`;

const FRAGMENT = `
in vec4 vColor;
in vec2 vEdge;
out vec4 finalColor;
void main() {
  finalColor = vColor * clamp(vEdge.y - abs(vEdge.x), 0.0, 1.0);
}`;

/** @typedef {{color: number, alpha?: number, endAlpha?: number, width_m: number, leastWidth_px?: number}} Stroke */

/** A WebGL renderer with the look of its batches. */
export class WebglPainter {
  /** @param {object} options of the renderer of PixiJS */
  async init(options) {
    this.renderer = new WebGLRenderer();
    await this.renderer.init({ ...options, antialias: false, skipExtensionImports: true });
    this.renderer.limits.maxBatchableTextures = 1; // a choice among textures for each pixel is slow without a GPU
    this.program = GlProgram.from({ vertex: VERTEX, fragment: FRAGMENT, name: "birdseye" });
    return this;
  }

  /** @returns {WebglFrame} what batches around one origin share */
  frame() {
    return new WebglFrame(this.program);
  }
}

/** The view onto coordinates relative to one origin. */
class WebglFrame {
  /** @param {any} program of the shaders above */
  constructor(program) {
    this.uniforms = new UniformGroup({
      uCamera: { value: new Float32Array(2), type: "vec2<f32>" },
      uSize: { value: new Float32Array(2), type: "vec2<f32>" },
      uScale: { value: new Float32Array(2), type: "vec2<f32>" },
    });
    this.shader = new Shader({ glProgram: program, resources: { view: this.uniforms } });
  }

  /** @returns {WebglBatch} */
  batch() {
    return new WebglBatch(this.shader);
  }

  /**
   * @param {object} view
   * @param {number} view.x of the middle, metres from the origin
   * @param {number} view.y
   * @param {number} view.scale CSS pixels per metre
   * @param {number} view.width CSS pixels
   * @param {number} view.height
   * @param {number} view.resolution device pixels per CSS pixel
   */
  look({ x, y, scale, width, height, resolution }) {
    const { uCamera, uSize, uScale } = this.uniforms.uniforms;
    uCamera.set([x, y]);
    uSize.set([width * resolution, height * resolution]);
    uScale.set([scale * resolution, resolution]);
    this.uniforms.update();
  }
}

/** Shapes that are drawn together; `node` stands in the tree of what is drawn. */
class WebglBatch {
  /** @param {Shader} shader */
  constructor(shader) {
    this.floats = new Float32Array(WORDS * 256);
    this.words = new Uint32Array(this.floats.buffer);
    this.indices = new Uint32Array(768);
    const usage = BufferUsage.COPY_DST;
    this.vertexBuffer = new Buffer({ data: this.floats, usage: usage | BufferUsage.VERTEX, shrinkToFit: false });
    this.indexBuffer = new Buffer({ data: this.indices, usage: usage | BufferUsage.INDEX, shrinkToFit: false });
    const attribute = (/** @type {number} */ offset, /** @type {"float32x2" | "unorm8x4"} */ format = "float32x2") => ({ buffer: this.vertexBuffer, format, stride: 4 * WORDS, offset: 4 * offset });
    this.geometry = new Geometry({
      attributes: { aPosition: attribute(0), aOffset: attribute(2), aWidth: attribute(4), aColor: attribute(6, "unorm8x4") },
      indexBuffer: this.indexBuffer,
    });
    this.node = new Mesh({ geometry: this.geometry, shader });
    this.numVertices = 0;
    this.numIndices = 0;
  }

  clear() {
    this.numVertices = 0;
    this.numIndices = 0;
  }

  /** @param {ArrayLike<number>} points x0, y0, x1, y1 ... of a polygon @param {number} color @param {number} [alpha] */
  fill(points, color, alpha = 1) {
    this.addFill(points, color, alpha, earcut(/** @type {number[]} */ (points)));
  }

  /** @param {ArrayLike<number>} points of a convex polygon @param {number} color @param {number} [alpha] */
  fillConvex(points, color, alpha = 1) {
    const triangles = [];
    for (let corner = 2; 2 * corner < points.length; corner++) triangles.push(0, corner - 1, corner);
    this.addFill(points, color, alpha, triangles);
  }

  /** @param {ArrayLike<number>} points @param {number} color @param {number} alpha @param {number[]} triangles */
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

  /** @param {number} x @param {number} y @param {number} dx @param {number} dy @param {number} width @param {number} least @param {number} packed */
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

  /** Hand the shapes over to the GPU. */
  commit() {
    this.vertexBuffer.setDataWithSize(this.floats, WORDS * this.numVertices, true);
    this.indexBuffer.setDataWithSize(this.indices, this.numIndices, true);
    this.geometry.indexCount = this.numIndices;
    this.node.visible = this.numIndices > 0;
  }

  /** Keep no more memory than the shapes need, for what is never changed. */
  seal() {
    this.floats = this.floats.slice(0, WORDS * this.numVertices);
    this.indices = this.indices.slice(0, this.numIndices);
    this.commit();
  }

  destroy() {
    this.node.destroy();
    this.geometry.destroy(true);
  }
}

/** @param {number} color @param {number} alpha @returns {number} bytes R, G, B, A in memory */
function packColor(color, alpha) {
  const opacity = Math.round(255 * alpha);
  return ((opacity << 24) | ((color & 255) << 16) | (color & 0xff00) | (color >> 16)) >>> 0;
}

/** @param {ArrayLike<number>} points @param {number} end @param {number} count @param {boolean} closed @returns {number[]} offset */
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
