// @ts-check
/** Legend of the colours, for the classes of the scene. */

import { byId, make } from "l5kit/dom";
import { className } from "l5kit/format";
import { classColor, EGO_COLOR } from "l5kit/palette";

/**
 * @param {string[]} classes names such as "PERCEPTION_LABEL_CAR"
 * @param {import("l5kit/unpack").PackedDrive | null} drive null if the scene is not simulated
 * @param {string | null} [predicted] entry for predictions; null for none
 */
export function showLegend(classes, drive, predicted = null) {
  const entries = [
    legendEntry(EGO_COLOR, "AV"),
    ...classes.map((name) => legendEntry(classColor(name), className(name))),
  ];
  if (drive) entries.push(signEntry("ghost-sign", "in the log"));
  if (drive?.facts.plan_times_s.length) entries.push(signEntry("plan-sign", "planned")); // not all drivers plan
  if (predicted !== null) entries.push(signEntry("prediction-sign", predicted));
  byId("legend").replaceChildren(...entries);
}

/** @param {string} sign class of its swatch @param {string} text @returns {HTMLElement} */
function signEntry(sign, text) {
  return make("li", {}, make("span", { class: `swatch ${sign}` }), text);
}

/** @param {string} color of CSS @param {string} text @returns {HTMLElement} */
function legendEntry(color, text) {
  const swatch = make("span", { class: "swatch" });
  swatch.style.background = color;
  return make("li", {}, swatch, text);
}
