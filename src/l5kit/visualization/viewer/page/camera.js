// @ts-check
/** The camera of the view, and the gestures that move it: drag, wheel and pinch. */

const LEAST_SCALE = 0.02; // CSS pixels per metre
const LARGEST_SCALE = 400;
const CLICK_PX = 4; // presses that move less are clicks
const WHEEL_LINE_PX = 16;
const WHEEL_SPEED = 0.0015;

/** A view from above: a world position at the centre, and CSS pixels per metre; y points up. */
export class Camera {
  constructor() {
    this.x = 0;
    this.y = 0;
    this.scale = 8;
    this.width = 1;
    this.height = 1;
  }

  /** @param {{x?: number, y?: number, scale?: number}} place non-finite values are ignored */
  set({ x = this.x, y = this.y, scale = this.scale }) {
    if (Number.isFinite(x)) this.x = x;
    if (Number.isFinite(y)) this.y = y;
    if (scale > 0) this.scale = Math.min(Math.max(scale, LEAST_SCALE), LARGEST_SCALE);
  }

  /**
   * @param {number} x world, metres
   * @param {number} y
   * @returns {{x: number, y: number}} CSS pixels from the top left
   */
  toPage(x, y) {
    return { x: this.width / 2 + (x - this.x) * this.scale, y: this.height / 2 - (y - this.y) * this.scale };
  }

  /**
   * @param {number} x CSS pixels from the top left
   * @param {number} y
   * @returns {{x: number, y: number}} world, metres
   */
  toWorld(x, y) {
    return { x: this.x + (x - this.width / 2) / this.scale, y: this.y - (y - this.height / 2) / this.scale };
  }

  /** @param {number} dx CSS pixels by which the drawing moves @param {number} dy */
  pan(dx, dy) {
    this.set({ x: this.x - dx / this.scale, y: this.y + dy / this.scale });
  }

  /** @param {number} factor above 1 to zoom in @param {{x: number, y: number}} point of the page that stays fixed */
  zoom(factor, point) {
    const before = this.toWorld(point.x, point.y);
    this.set({ scale: this.scale * factor });
    const after = this.toWorld(point.x, point.y);
    this.set({ x: this.x + before.x - after.x, y: this.y + before.y - after.y });
  }
}

/**
 * @typedef {object} GestureHooks
 * @property {(dx: number, dy: number) => void} onPan CSS pixels
 * @property {(factor: number, point: {x: number, y: number}) => void} onZoom
 * @property {(point: {x: number, y: number}) => void} onClick
 * @property {(point: {x: number, y: number} | null) => void} onHover null when the pointer leaves
 */

/** Converts pointer events on an element into moves of the view. */
export class Gestures {
  /** @param {HTMLElement} element @param {GestureHooks} hooks */
  constructor(element, hooks) {
    this.element = element;
    this.hooks = hooks;
    /** @type {Map<number, {x: number, y: number}>} */
    this.pointers = new Map();
    this.moved_px = 0;
    this.ends = new AbortController();
    this.listen();
  }

  listen() {
    const { element } = this;
    const how = { signal: this.ends.signal, passive: false };
    element.addEventListener("pointerdown", (event) => this.press(event), how);
    element.addEventListener("pointermove", (event) => this.move(event), how);
    element.addEventListener("pointerup", (event) => this.release(event), how);
    element.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId), how);
    element.addEventListener("pointerleave", () => this.hooks.onHover(null), how);
    element.addEventListener("wheel", (event) => this.turn(event), how);
  }

  /** @param {MouseEvent} event @returns {{x: number, y: number}} CSS pixels from the top left of the element */
  pointOf(event) {
    const box = this.element.getBoundingClientRect();
    return {
      x: event.clientX - box.left - this.element.clientLeft,
      y: event.clientY - box.top - this.element.clientTop,
    };
  }

  /** @param {PointerEvent} event */
  press(event) {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    this.moved_px = this.pointers.size ? Infinity : 0;
    this.pointers.set(event.pointerId, this.pointOf(event));
    this.element.setPointerCapture?.(event.pointerId);
  }

  /** @param {PointerEvent} event */
  move(event) {
    const point = this.pointOf(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      this.hooks.onHover(point);
      return;
    }
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) this.pinch(before, point, other);
    else this.drag(before, point);
    if (other || this.moved_px > CLICK_PX) this.pointers.set(event.pointerId, point);
  }

  /** @param {{x: number, y: number}} before @param {{x: number, y: number}} point */
  drag(before, point) {
    const [dx, dy] = [point.x - before.x, point.y - before.y];
    this.moved_px = Math.max(this.moved_px, Math.hypot(dx, dy));
    if (this.moved_px > CLICK_PX) this.hooks.onPan(dx, dy);
  }

  /**
   * @param {{x: number, y: number}} before
   * @param {{x: number, y: number}} point
   * @param {{x: number, y: number}} other
   */
  pinch(before, point, other) {
    const apart = Math.hypot(before.x - other.x, before.y - other.y);
    const now = Math.hypot(point.x - other.x, point.y - other.y);
    this.hooks.onPan((point.x - before.x) / 2, (point.y - before.y) / 2);
    if (apart > 1 && now > 1)
      this.hooks.onZoom(now / apart, { x: (point.x + other.x) / 2, y: (point.y + other.y) / 2 });
  }

  /** @param {PointerEvent} event */
  release(event) {
    if (!this.pointers.delete(event.pointerId) || this.pointers.size) return;
    if (this.moved_px <= CLICK_PX) this.hooks.onClick(this.pointOf(event));
  }

  /** @param {WheelEvent} event */
  turn(event) {
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? WHEEL_LINE_PX : 1;
    const pages = event.deltaMode === WheelEvent.DOM_DELTA_PAGE ? this.element.clientHeight : 1;
    const speed = event.ctrlKey ? 6 * WHEEL_SPEED : WHEEL_SPEED; // touch pads report pinches as small wheel turns
    this.hooks.onZoom(Math.exp(-event.deltaY * lines * pages * speed), this.pointOf(event));
  }

  destroy() {
    this.ends.abort();
  }
}
