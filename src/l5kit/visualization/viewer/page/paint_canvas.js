// @ts-check
/** Batches of filled polygons and lines without WebGL: the same shapes on the 2D canvas of PixiJS. */

import { CanvasRenderer, Container, Graphics } from "pixi.js";

const WIDTHS_HOLD_FOR = 1.25; // lines are rebuilt when the scale has changed by this factor

/** A renderer on a 2D canvas with the look of its batches. */
export class CanvasPainter {
  /** @param {import("l5kit/paint_webgl").RendererOptions} options @returns {Promise<CanvasPainter>} */
  static async create(options) {
    const renderer = new CanvasRenderer();
    await renderer.init({ ...options, antialias: true, skipExtensionImports: true });
    return new CanvasPainter(renderer);
  }

  /** @param {CanvasRenderer<HTMLCanvasElement>} renderer ready to draw */
  constructor(renderer) {
    this.renderer = renderer;
  }

  /** @returns {CanvasFrame} shared by batches with one origin */
  frame() {
    return new CanvasFrame();
  }
}

/** The view onto coordinates relative to one origin. */
export class CanvasFrame {
  constructor() {
    this.view = { x: 0, y: 0, scale: 1, width: 1, height: 1, resolution: 1 };
    /** @type {Set<CanvasBatch>} */
    this.batches = new Set();
  }

  /** @returns {CanvasBatch} */
  batch() {
    const batch = new CanvasBatch(this);
    this.batches.add(batch);
    return batch;
  }

  /** @param {import("l5kit/paint_webgl").View} view */
  look(view) {
    this.view = view;
    for (const batch of this.batches) batch.place();
  }
}

/** Shapes that are drawn together; `node` is in the scene graph. */
export class CanvasBatch {
  /** @param {CanvasFrame} frame */
  constructor(frame) {
    this.frame = frame;
    this.node = new Container();
    this.graphics = new Graphics();
    this.node.addChild(this.graphics);
    /** @type {((graphics: Graphics, scale: number) => void)[]} */
    this.shapes = [];
    this.scale = 0; // of the built lines, 0 for none
  }

  clear() {
    this.shapes = [];
    this.scale = 0;
  }

  /** @param {ArrayLike<number>} points @param {number} color @param {number} [alpha] */
  fill(points, color, alpha = 1) {
    this.shapes.push((graphics) => graphics.poly(Array.from(points)).fill({ color, alpha }));
  }

  /** @param {ArrayLike<number>} points @param {number} color @param {number} [alpha] */
  fillConvex(points, color, alpha = 1) {
    this.fill(points, color, alpha);
  }

  /** @param {ArrayLike<number>} points @param {import("l5kit/paint_webgl").Stroke} stroke @param {boolean} [closed] */
  line(points, { color, alpha = 1, endAlpha = alpha, width_m, leastWidth_px = 1 }, closed = false) {
    if (points.length < 4) return;
    this.shapes.push((graphics, scale) =>
      graphics.poly(Array.from(points), closed).stroke({
        color,
        alpha: (alpha + endAlpha) / 2,
        width: Math.max(width_m, leastWidth_px / scale),
        join: "round",
      }),
    );
  }

  commit() {
    this.scale = 0;
    this.place();
  }

  seal() {
    this.commit();
  }

  /** Follow the view. */
  place() {
    if (!this.node.visible) return;
    const { x, y, scale, width, height } = this.frame.view;
    this.node.scale.set(scale, -scale);
    this.node.position.set(width / 2 - x * scale, height / 2 + y * scale);
    if (Math.max(scale, this.scale) < WIDTHS_HOLD_FOR * Math.min(scale, this.scale)) return;
    this.scale = scale;
    this.graphics.clear();
    for (const shape of this.shapes) shape(this.graphics, scale);
  }

  destroy() {
    this.frame.batches.delete(this);
    this.node.destroy({ children: true });
  }
}
