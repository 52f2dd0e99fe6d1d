// @ts-check
/** The ruler above the view: its line, its length and two draggable ends, with any renderer. */

import { onPress, setPressed } from "l5kit/dom";
import { lengthText, Ruler } from "l5kit/ruler";

const SVG = "http://www.w3.org/2000/svg";
const END_PX = 6;
const TOUCH_PX = 15; // distance from which an end can be grabbed
const TEXT_PX = 15; // distance of the text from the line
const HALF_TEXT_PX = 26;

/** @typedef {import("l5kit/birdseye").Birdseye} Birdseye */

/** Measures distances in the view. */
export class RulerView {
  /** @param {Birdseye} birdseye @param {HTMLElement} button that turns it on and off */
  constructor(birdseye, button) {
    this.birdseye = birdseye;
    this.button = button;
    this.ruler = new Ruler();
    this.svg = element("svg", { class: "ruler", "data-testid": "ruler" });
    this.halo = element("line", { class: "ruler-halo" });
    this.line = element("line", { class: "ruler-line" });
    this.text = element("text", { class: "ruler-text", "data-testid": "ruler-length" });
    this.ends = [0, 1].map((end) => this.end(end));
    this.svg.append(this.halo, this.line, ...this.ends, this.text);
    birdseye.container.append(this.svg);
    birdseye.container.addEventListener("pointermove", (event) => this.hover(event));
    birdseye.takeClicks((point) => this.clicked(point));
    birdseye.on("drawn", () => this.draw());
    onPress(button, () => this.toggle());
    this.draw();
  }

  /** @param {number} number @returns {SVGElement} */
  end(number) {
    const handle = element("g", { class: "ruler-end", "data-testid": `ruler-end-${number}` });
    handle.append(element("circle", { r: TOUCH_PX, class: "ruler-touch" }), element("circle", { r: END_PX }));
    handle.addEventListener("pointerdown", (event) => {
      event.stopPropagation(); // the view does not move
      handle.setPointerCapture(event.pointerId);
    });
    handle.addEventListener("pointermove", (event) => {
      if (!handle.hasPointerCapture(event.pointerId)) return;
      event.stopPropagation();
      this.ruler.move(number, this.placeOf(event));
      this.draw();
    });
    handle.addEventListener("pointerup", (event) => event.stopPropagation());
    return handle;
  }

  toggle() {
    if (!this.stop()) this.start();
  }

  start() {
    this.ruler.start();
    this.show();
  }

  /** Stop measuring. @returns {boolean} whether it was on */
  stop() {
    const was = this.ruler.stop();
    this.show();
    return was;
  }

  show() {
    setPressed(this.button, this.ruler.on);
    this.birdseye.container.classList.toggle("measuring", this.ruler.on);
    this.draw();
  }

  /** @param {{x: number, y: number}} point CSS pixels @returns {boolean} whether the ruler handles this click */
  clicked(point) {
    if (!this.ruler.on) return false;
    this.ruler.click(this.birdseye.pageToWorld(point.x, point.y));
    this.draw();
    return true;
  }

  /** @param {PointerEvent} event */
  hover(event) {
    if (!this.ruler.on || this.ruler.ends.length !== 1) return;
    this.ruler.pointer = this.placeOf(event);
    this.draw();
  }

  /** @param {MouseEvent} event @returns {import("l5kit/ruler").Point} */
  placeOf(event) {
    const { x, y } = this.birdseye.gestures.pointOf(event);
    return this.birdseye.pageToWorld(x, y);
  }

  /** Redraw the ruler for the current view. */
  draw() {
    const line = this.ruler.line().map(({ x, y }) => this.birdseye.worldToPage(x, y));
    this.ends.forEach((end, number) => {
      const isSet = number < this.ruler.ends.length;
      end.setAttribute("visibility", isSet ? "visible" : "hidden");
      if (isSet) end.setAttribute("transform", `translate(${line[number].x} ${line[number].y})`);
    });
    const [from, to] = line;
    for (const part of [this.halo, this.line, this.text]) part.setAttribute("visibility", to ? "visible" : "hidden");
    if (!to) return;
    for (const part of [this.halo, this.line])
      for (const [name, value] of Object.entries({ x1: from.x, y1: from.y, x2: to.x, y2: to.y }))
        part.setAttribute(name, String(value));
    this.write(from, to);
  }

  /** Write the length next to the middle of the line. @param {{x: number, y: number}} from @param {{x: number, y: number}} to */
  write(from, to) {
    const length_m = this.ruler.length_m() ?? 0;
    const length_px = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    const side = to.x >= from.x ? 1 : -1; // above the line
    const [right, up] = [(side * (to.y - from.y)) / length_px, (side * (to.x - from.x)) / length_px];
    this.text.setAttribute("x", String((from.x + to.x) / 2 + right * (TEXT_PX + HALF_TEXT_PX)));
    this.text.setAttribute("y", String((from.y + to.y) / 2 - up * TEXT_PX));
    this.text.textContent = lengthText(length_m);
  }
}

/** @param {string} tag @param {Record<string, string | number>} attributes @returns {SVGElement} */
function element(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  return made;
}
