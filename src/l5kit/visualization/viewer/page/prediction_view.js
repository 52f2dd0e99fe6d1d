// @ts-check
/** Predictions outside of the view: a stripe of the frames that have some, and errors for the selected agent. */

import { byId, make, setText } from "l5kit/dom";
import { count, counted, percent, quantity } from "l5kit/format";
import { PredictionModel } from "l5kit/predictions";

/** @typedef {import("l5kit/playback").Playback} Playback */
/** @typedef {import("l5kit/scene_model").SceneModel} SceneModel */

/** Shows the predictions of the current scene, if any. */
export class PredictionView {
  /**
   * @param {Playback} playback
   * @param {(predictions: PredictionModel | null) => void} onPredictions called when the predictions have changed
   */
  constructor(playback, onPredictions) {
    this.playback = playback;
    this.onPredictions = onPredictions;
    /** @type {PredictionModel | null} */
    this.model = null;
    /** @type {number | null} */
    this.track = null;
    this.shown = ""; // contents of the panel
    this.head = make("strong", { "data-testid": "prediction-head" });
    this.rows = make("tbody", {});
    const names = ["Confidence", "ADE", "FDE"].map((name) => make("th", { scope: "col" }, name));
    this.table = make("table", {}, make("thead", {}, make("tr", {}, make("td", {}), ...names)), this.rows);
    this.rule = make("small", {});
    this.element = make("div", { class: "prediction", "data-testid": "prediction" }, this.head, this.table, this.rule);
    this.element.hidden = true;
    this.stripe = byId("prediction-stripe");
    this.stripe.addEventListener("click", (event) => this.seekNear(event));
  }

  /**
   * @param {import("l5kit/unpack").PackedPredictions | null} packed of the scene of the clock
   * @param {SceneModel | null} scene
   */
  setPredictions(packed, scene) {
    this.model = packed && scene ? new PredictionModel(packed, scene) : null;
    this.track = null;
    this.onPredictions(this.model);
    this.showStripe();
    this.showFrame(this.playback.frame);
  }

  /** @param {number | null} track index, EGO_TRACK or null */
  select(track) {
    this.track = track;
    this.showFrame(this.playback.frame);
  }

  /** @returns {number | null} the first frame with predictions, unless it is the first of the scene */
  firstFrame() {
    const [run] = this.model?.runs() ?? [];
    return run && run[0] > 0 ? run[0] : null;
  }

  /** @returns {string | null} entry of the legend; null without predictions */
  legend() {
    return this.model && `predicted (${counted(this.model.numPredictedFrames(), "frame")})`;
  }

  /** Mark the frames that have predictions. */
  showStripe() {
    const { model } = this;
    const runs = model?.runs() ?? [];
    this.stripe.hidden = !model;
    if (!model) return;
    const frames = model.scene.numFrames;
    const span = Math.max(frames - 1, 1);
    const marks = runs.map(([first, last]) => {
      const mark = make("span", { class: "prediction-run", "data-testid": "prediction-run" });
      mark.style.left = `${(100 * first) / span}%`;
      mark.style.width = `${(100 * (last - first)) / span}%`;
      return mark;
    });
    const lost = model.facts.num_lost ? `; ${count(model.facts.num_lost)} more have no agent in their frame` : "";
    const text = `Predictions in ${count(model.numPredictedFrames())} of ${counted(frames, "frame")}${lost}`;
    this.stripe.title = text;
    this.stripe.setAttribute("aria-label", text);
    this.stripe.replaceChildren(...marks);
  }

  /** Seek to the frame with predictions nearest to a click. @param {MouseEvent} event */
  seekNear(event) {
    const { left, width } = this.stripe.getBoundingClientRect();
    const wanted = ((event.clientX - left) / Math.max(width, 1)) * ((this.model?.scene.numFrames ?? 1) - 1);
    const frames = (this.model?.runs() ?? []).map(([first, last]) =>
      Math.min(Math.max(Math.round(wanted), first), last),
    );
    if (!frames.length) return;
    this.playback.seek(frames.reduce((a, b) => (Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a)));
  }

  /** @param {number} frame */
  showFrame(frame) {
    const { model, track } = this;
    this.element.hidden = !model || track === null;
    if (!model || track === null) {
      this.shown = "";
      return;
    }
    const shown = `${track} ${frame}`;
    if (shown === this.shown) return;
    this.shown = shown;
    const prediction = model.of(track, frame);
    this.table.hidden = this.rule.hidden = prediction === null;
    if (prediction === null) setText(this.head, "Not predicted in this frame");
    else this.showErrors(model.errors(prediction, frame));
  }

  /** @param {import("l5kit/predictions").Errors} errors */
  showErrors({ modes, best, numKnown, numSteps }) {
    setText(this.head, `Predicted: ${counted(modes.length, "mode")} of ${counted(numSteps, "step")}`);
    const rows = modes.map(({ confidence, ade, fde }, place) =>
      row(place ? `mode ${place + 1}` : "most probable", percent(confidence), ade, fde),
    );
    this.rows.replaceChildren(row("best", "", best.ade, best.fde), ...rows);
    setText(this.rule, numKnown < numSteps ? `ADE over the ${counted(numKnown, "step")} that the log has` : "");
  }
}

/** @param {string} name @param {string} confidence @param {number} ade metres @param {number} fde @returns {HTMLElement} */
function row(name, confidence, ade, fde) {
  const cells = [confidence, quantity(ade, 2, "m"), quantity(fde, 2, "m")].map((text) => make("td", {}, text));
  return make("tr", {}, make("th", { scope: "row" }, name), ...cells);
}
