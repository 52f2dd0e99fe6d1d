// @ts-check
/**
 * Batches of filled polygons and lines for WebGL: one draw call each, in the order of the shapes.
 * Widths of lines are in metres with a minimum in pixels, so that lines stay visible when zoomed out without rebuilding.
 * Edges of lines are antialiased in the shader, which without a GPU is far cheaper than multisampling.
 */

import { MeshArrays, WORDS } from "l5kit/mesh_arrays";
import { Buffer, BufferUsage, earcut, Geometry, GlProgram, Mesh, Shader, UniformGroup, WebGLRenderer } from "pixi.js";

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

/** @typedef {import("l5kit/mesh_arrays").Stroke} Stroke */

/**
 * @typedef {object} View
 * @property {number} x of the centre, metres from the origin
 * @property {number} y
 * @property {number} scale CSS pixels per metre
 * @property {number} width CSS pixels
 * @property {number} height
 * @property {number} resolution device pixels per CSS pixel
 */
/**
 * @typedef {object} RendererOptions
 * @property {number} width CSS pixels
 * @property {number} height
 * @property {number} resolution device pixels per CSS pixel
 * @property {boolean} autoDensity
 * @property {number} background 0xRRGGBB
 * @property {number} backgroundAlpha
 * @property {boolean} preserveDrawingBuffer
 */
/** @typedef {WebglPainter | import("l5kit/paint_canvas").CanvasPainter} Painter both kinds have the same methods */
/** @typedef {WebglFrame | import("l5kit/paint_canvas").CanvasFrame} Frame */
/** @typedef {WebglBatch | import("l5kit/paint_canvas").CanvasBatch} Batch */

/** A WebGL renderer with the look of its batches. */
export class WebglPainter {
  /** @param {RendererOptions} options @returns {Promise<WebglPainter>} */
  static async create(options) {
    const renderer = new WebGLRenderer();
    await renderer.init({ ...options, antialias: false, skipExtensionImports: true });
    return new WebglPainter(renderer);
  }

  /** @param {WebGLRenderer<HTMLCanvasElement>} renderer ready to draw */
  constructor(renderer) {
    this.renderer = renderer;
    this.renderer.limits.maxBatchableTextures = 1; // selecting textures per pixel is slow without a GPU
    this.program = GlProgram.from({ vertex: VERTEX, fragment: FRAGMENT, name: "birdseye" });
  }

  /** @returns {WebglFrame} shared by batches with one origin */
  frame() {
    return new WebglFrame(this.program);
  }
}

/** The view onto coordinates relative to one origin. */
export class WebglFrame {
  /** @param {GlProgram} program of the shaders above */
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

  /** @param {View} view */
  look({ x, y, scale, width, height, resolution }) {
    const { uCamera, uSize, uScale } = this.uniforms.uniforms;
    uCamera.set([x, y]);
    uSize.set([width * resolution, height * resolution]);
    uScale.set([scale * resolution, resolution]);
    this.uniforms.update();
  }
}

/** Shapes that are drawn together; `node` is in the scene graph. */
export class WebglBatch {
  /** @param {Shader} shader */
  constructor(shader) {
    this.mesh = new MeshArrays();
    const { floats, indices } = this.mesh;
    const usage = BufferUsage.COPY_DST;
    this.vertexBuffer = new Buffer({ data: floats, usage: usage | BufferUsage.VERTEX, shrinkToFit: false });
    this.indexBuffer = new Buffer({ data: indices, usage: usage | BufferUsage.INDEX, shrinkToFit: false });
    const attribute = (/** @type {number} */ offset, /** @type {"float32x2" | "unorm8x4"} */ format = "float32x2") => ({
      buffer: this.vertexBuffer,
      format,
      stride: 4 * WORDS,
      offset: 4 * offset,
    });
    this.geometry = new Geometry({
      attributes: {
        aPosition: attribute(0),
        aOffset: attribute(2),
        aWidth: attribute(4),
        aColor: attribute(6, "unorm8x4"),
      },
      indexBuffer: this.indexBuffer,
    });
    this.node = new Mesh({ geometry: this.geometry, shader });
  }

  clear() {
    this.mesh.clear();
  }

  /** @param {ArrayLike<number>} points x0, y0, x1, y1 ... of a polygon @param {number} color @param {number} [alpha] */
  fill(points, color, alpha = 1) {
    this.mesh.addFill(points, color, alpha, earcut(/** @type {number[]} */ (points)));
  }

  /** @param {ArrayLike<number>} points of a convex polygon @param {number} color @param {number} [alpha] */
  fillConvex(points, color, alpha = 1) {
    this.mesh.fillConvex(points, color, alpha);
  }

  /** @param {ArrayLike<number>} points @param {Stroke} stroke @param {boolean} [closed] */
  line(points, stroke, closed = false) {
    this.mesh.line(points, stroke, closed);
  }

  /** Upload the shapes to the GPU. */
  commit() {
    const { floats, indices, numVertices, numIndices } = this.mesh;
    this.vertexBuffer.setDataWithSize(floats, WORDS * numVertices, true);
    this.indexBuffer.setDataWithSize(indices, numIndices, true);
    this.geometry.indexCount = numIndices;
    this.node.visible = numIndices > 0;
  }

  /** Shrink the arrays to the shapes, for batches that never change. */
  seal() {
    this.mesh.trim();
    this.commit();
  }

  destroy() {
    this.node.destroy();
    this.geometry.destroy(true);
  }
}
