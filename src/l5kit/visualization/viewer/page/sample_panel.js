// @ts-check
/** "What a model sees": raster and vector sample of the frame, for the AV or the selected agent. */

import { byId, errorBox, make, setText } from "l5kit/dom";
import { requestData } from "l5kit/source";

/** @typedef {import("l5kit/source").Samples} Samples */
/** @typedef {{scene: number, frame: number, trackId: string | null, inFrame: boolean}} Subject */

const REST_MS = 180; // how long a frame has to stand before its sample is asked for

/** One picture with its caption, loading and error. */
class SamplePicture {
  /** @param {"raster" | "vector"} name @param {string} caption */
  constructor(name, caption) {
    this.image = /** @type {HTMLImageElement} */ (make("img", { "data-testid": name, alt: "" }));
    this.image.hidden = true;
    this.place = make("div", { class: "sample-place" }, this.image);
    this.element = make("figure", { class: "sample-picture", "data-name": name }, this.place, make("figcaption", {}, caption));
    this.name = name;
    this.url = "";
    this.wanted = "";
  }

  /**
   * Ask for another picture; the last one asked for is shown.
   * @param {string} url
   * @param {string} alt
   */
  async load(url, alt) {
    if (url === this.wanted) return;
    this.wanted = url;
    this.element.setAttribute("aria-busy", "true");
    try {
      const blob = await (await requestData(url)).blob();
      if (this.wanted === url) await this.show(blob, alt);
    } catch (error) {
      if (this.wanted === url) this.fail(error instanceof Error ? error.message : String(error));
    }
    if (this.wanted === url) this.element.setAttribute("aria-busy", "false");
  }

  /** @param {Blob} blob @param {string} alt */
  async show(blob, alt) {
    const old = this.url;
    this.url = URL.createObjectURL(blob);
    this.image.src = this.url;
    this.image.alt = alt;
    await this.image.decode().catch(() => {
      throw new Error(`the ${this.name} sample is not a picture that the browser can show`);
    });
    this.image.hidden = false;
    this.place.replaceChildren(this.image);
    if (old) URL.revokeObjectURL(old);
  }

  /** @param {string} message */
  fail(message) {
    this.place.replaceChildren(errorBox("No sample", message));
  }

  /** Show an error without asking. @param {string} message */
  refuse(message) {
    this.wanted = "";
    this.element.setAttribute("aria-busy", "false");
    this.fail(message);
  }

  /** Show nothing. */
  clear() {
    this.wanted = "";
    this.element.setAttribute("aria-busy", "false");
    this.image.hidden = true;
    this.place.replaceChildren(this.image);
  }
}

/** The panel of samples. */
export class SamplePanel {
  /** @param {Samples | null} samples null in an exported file @param {boolean} hasMap vector samples need one */
  constructor(samples, hasMap) {
    this.samples = samples;
    this.hasMap = hasMap;
    this.raster = new SamplePicture("raster", "Raster");
    this.vector = new SamplePicture("vector", "Vector");
    this.timer = 0;
    /** @type {Subject | null} */
    this.subject = null;
    this.caption = make("p", { class: "sample-caption", "data-testid": "sample-caption" });
    this.kind = /** @type {HTMLSelectElement} */ (
      make("select", { class: "select", title: "Kind of raster", "aria-label": "Kind of raster", "data-testid": "sample-kind" })
    );
    this.build();
  }

  build() {
    const head = make("div", { class: "panel-head" }, make("h2", {}, "What a model sees"), this.kind);
    const panel = byId("sample-panel");
    if (!this.samples) {
      this.kind.hidden = true;
      panel.append(head, make("p", { class: "hint" }, "An exported file holds no samples. Open the dataset with l5kit view to see them."));
      return;
    }
    for (const kind of this.samples.kinds) this.kind.append(make("option", { value: kind }, kind));
    this.kind.hidden = this.samples.kinds.length < 2;
    this.kind.addEventListener("change", () => this.load());
    const pictures = make("div", { class: "sample-pictures" }, this.raster.element, this.vector.element);
    for (const picture of [this.raster, this.vector]) enlarge(picture);
    panel.append(head, this.caption, pictures);
  }

  /**
   * Show the sample of this frame once it has stood for a moment.
   * @param {Subject | null} subject null: none
   * @param {boolean} playing while it plays nothing is asked for
   */
  show(subject, playing) {
    if (!this.samples) return;
    clearTimeout(this.timer);
    this.subject = subject;
    if (!subject) {
      setText(this.caption, "");
      this.raster.clear();
      this.vector.clear();
    } else if (playing) setText(this.caption, "Shown when playback pauses.");
    else this.timer = window.setTimeout(() => this.load(), REST_MS);
    byId("sample-panel").dataset.stale = String(Boolean(subject && playing));
  }

  load() {
    const { subject, samples } = this;
    if (!subject || !samples) return;
    const { scene, frame, trackId, inFrame } = subject;
    const name = trackId === null ? "the AV" : `track ${trackId}`;
    setText(this.caption, `Frame ${frame}, centred on ${name}`);
    if (!inFrame) {
      for (const picture of [this.raster, this.vector]) picture.refuse(`${name} is not in frame ${frame}`);
      return;
    }
    const alt = `sample of frame ${frame}, centred on ${name}`;
    void this.raster.load(samples.rasterUrl(scene, frame, trackId, this.kind.value), `Raster ${alt}`);
    if (!this.hasMap) this.vector.refuse("a vector sample needs a semantic map, and this dataset has none");
    else void this.vector.load(samples.vectorUrl(scene, frame, trackId), `Vector ${alt}`);
  }
}

/** Let a click show a picture large. @param {SamplePicture} picture */
function enlarge(picture) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("pictures"));
  const open = make("button", { type: "button", class: "sample-open", title: "Show large", "aria-label": `Show the ${picture.name} sample large` });
  picture.place.replaceWith(open);
  open.append(picture.place);
  open.addEventListener("click", () => {
    if (picture.image.hidden || !picture.image.isConnected) return;
    setText(byId("pictures-title"), picture.image.alt);
    byId("pictures-body").replaceChildren(make("img", { class: picture.name, src: picture.image.src, alt: picture.image.alt }));
    dialog.showModal();
  });
}
