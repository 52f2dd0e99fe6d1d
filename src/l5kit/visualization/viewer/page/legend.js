// @ts-check
/** Which colour is which class, for the classes of the scene. */

import { CLASS_COLORS, EGO_COLOR } from "l5kit/birdseye";
import { byId, make } from "l5kit/dom";
import { className } from "l5kit/format";

/** @param {string[]} classes names such as "PERCEPTION_LABEL_CAR" */
export function showLegend(classes) {
  const entries = [legendEntry(EGO_COLOR, "AV"), ...classes.map((name) => legendEntry(classColor(name), className(name)))];
  byId("legend").replaceChildren(...entries);
}

/** @param {string} label @returns {string} CSS colour of the class */
export function classColor(label) {
  return cssColor(/** @type {Record<string, string | number>} */ (CLASS_COLORS)[label] ?? "#888888");
}

/** @returns {string} CSS colour of the AV */
export function egoColor() {
  return cssColor(EGO_COLOR);
}

/** @param {string | number} color a CSS colour, or 0xRRGGBB @returns {string} */
function cssColor(color) {
  return typeof color === "number" ? `#${color.toString(16).padStart(6, "0")}` : color;
}

/** @param {string | number} color @param {string} text @returns {HTMLElement} */
function legendEntry(color, text) {
  const swatch = make("span", { class: "swatch" });
  swatch.style.background = cssColor(color);
  return make("li", {}, swatch, text);
}
