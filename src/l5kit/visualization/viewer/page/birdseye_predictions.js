// @ts-check
/** Predicted paths of agents: all modes of the frame, with opacity by probability. */

import { Container } from "pixi.js";

const FAINTEST = 0.25; // opacity of modes with probability 0
const END_M = 0.35; // radius of the dot at the end
const END_PX = 2.5;
const END_CORNERS = 10;

/** The predictions of a scene. Coordinates are metres from its origin. */
export class PredictionLayer {
  /**
   * @param {import("l5kit/predictions").PredictionModel} predictions
   * @param {import("l5kit/paint_webgl").Frame} frame of a painter
   */
  constructor(predictions, frame) {
    this.predictions = predictions;
    this.batch = frame.batch();
    this.node = new Container();
    this.node.addChild(this.batch.node);
  }

  /**
   * @param {number} index of the frame
   * @param {number} scale CSS pixels per metre
   * @param {{predictions: boolean}} options
   * @param {import("l5kit/palette").Tones} tones
   * @param {number | null} selected track, drawn last
   */
  draw(index, scale, options, tones, selected) {
    this.batch.clear();
    const shown = options.predictions ? this.predictions.at(index) : [];
    const isSelected = (/** @type {number} */ number) => this.predictions.trackOf(number) === selected;
    for (const number of shown) if (!isSelected(number)) this.drawModes(number, index, scale, tones, 1);
    for (const number of shown) if (isSelected(number)) this.drawModes(number, index, scale, tones, 1.6);
    this.batch.commit();
  }

  /**
   * @param {number} number of the prediction
   * @param {number} index of its frame
   * @param {number} scale
   * @param {import("l5kit/palette").Tones} tones
   * @param {number} strength of its lines
   */
  drawModes(number, index, scale, tones, strength) {
    const modes = this.predictions.modes(number);
    const place = this.predictions.placeOf(number, index);
    for (const { confidence, points } of [...modes].reverse()) {
      const share = modes[0].confidence > 0 ? confidence / modes[0].confidence : 1;
      const alpha = FAINTEST + (1 - FAINTEST) * share;
      const path = finitePath([...place, ...points]);
      const width = { width_m: 0.3 * strength, leastWidth_px: 2 * strength };
      const casing = { width_m: 0.55 * strength, leastWidth_px: 2 * strength + 2 };
      this.batch.line(path, { color: tones.ground, alpha: 0.7 * alpha, ...casing });
      this.batch.line(path, { color: tones.predicted, alpha, ...width });
      if (path.length >= 4) this.batch.fillConvex(dot(path, scale, strength), tones.predicted, alpha);
    }
  }

  destroy() {
    this.batch.destroy();
    this.node.destroy({ children: true });
  }
}

/** @param {number[]} points @returns {number[]} the known ones */
function finitePath(points) {
  const path = [];
  for (let at = 0; at < points.length; at += 2) {
    if (Number.isFinite(points[at]) && Number.isFinite(points[at + 1])) path.push(points[at], points[at + 1]);
  }
  return path;
}

/** @param {number[]} path @param {number} scale @param {number} strength @returns {number[]} a dot at its end */
function dot(path, scale, strength) {
  const radius = strength * Math.max(END_M, END_PX / scale);
  const [x, y] = path.slice(-2);
  return Array.from({ length: END_CORNERS }, (_, corner) => (2 * Math.PI * corner) / END_CORNERS).flatMap((angle) => [
    x + radius * Math.cos(angle),
    y + radius * Math.sin(angle),
  ]);
}
