// @ts-check
/** "What a model sees": raster and vector sample of the frame, for the AV or the selected agent. */

import { byId, elementById, errorBox, make, setText } from "l5kit/dom";
import { messageOf } from "l5kit/format";
import { requestData } from "l5kit/source";

/** @typedef {import("l5kit/source").Samples} Samples */
/** @typedef {{scene: number, frame: number, trackId: string | null, inFrame: boolean}} Subject */

const REST_MS = 180; // time for which a frame must be shown before its sample is requested
const PATIENCE_MS = 500; // faster samples show no waiting message
const ASK_AGAIN_MS = 700; // interval between status requests meanwhile
const COMPILING = "Compiling, once, about 15 seconds";
const DRAWING = "Drawing";

/** One picture with its caption, loading and error. */
class SamplePicture {
  /** @param {"raster" | "vector"} name @param {string} caption */
  constructor(name, caption) {
    this.image = make("img", { "data-testid": name, alt: "" });
    this.image.hidden = true;
    this.place = make("div", { class: "sample-place" }, this.image);
    this.waiting = make("p", { class: "sample-waiting", role: "status", "data-testid": `${name}-waiting` });
    this.frame = make("div", { class: "sample-frame" }, this.place, this.waiting);
    this.element = make(
      "figure",
      { class: "sample-picture", "data-name": name },
      this.frame,
      make("figcaption", {}, caption),
    );
    this.name = name;
    this.url = "";
    this.wanted = "";
    this.asking = new AbortController();
    this.settle();
  }

  /** @returns {boolean} whether a requested picture is still missing */
  get busy() {
    return this.element.getAttribute("aria-busy") === "true";
  }

  /**
   * Request another picture by `load`, aborting earlier requests.
   * @param {string} url
   * @returns {AbortSignal | null} aborted as soon as something else is requested; null if this is requested already
   */
  want(url) {
    if (url === this.wanted) return null;
    this.drop();
    this.wanted = url;
    this.element.setAttribute("aria-busy", "true");
    return this.asking.signal;
  }

  /** Load the requested picture and show it. @param {string} alt @param {AbortSignal} signal */
  async load(alt, signal) {
    if (signal.aborted) return;
    const url = this.wanted;
    try {
      const blob = await (await requestData(url, signal)).blob();
      if (this.wanted === url) await this.show(blob, alt);
    } catch (error) {
      if (this.wanted === url) this.fail(messageOf(error));
    }
    if (this.wanted === url) this.settle();
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

  /** Show what a missing picture is waiting for. @param {boolean} compiling */
  sayWaiting(compiling) {
    if (!this.busy) return;
    const empty = this.image.hidden || !this.image.isConnected;
    setText(this.waiting, compiling ? COMPILING : empty ? DRAWING : "");
    this.waiting.hidden = !this.waiting.textContent;
  }

  /** End waiting. */
  settle() {
    this.element.setAttribute("aria-busy", "false");
    this.waiting.hidden = true;
    setText(this.waiting, "");
  }

  /** Abort the request; the server skips it if it has not started. */
  drop() {
    this.wanted = "";
    this.asking.abort();
    this.asking = new AbortController();
  }

  /** @param {string} message */
  fail(message) {
    this.place.replaceChildren(errorBox("No sample", message));
  }

  /** Show an error without a request. @param {string} message */
  refuse(message) {
    this.drop();
    this.settle();
    this.fail(message);
  }

  /** Show nothing. */
  clear() {
    this.drop();
    this.settle();
    this.image.hidden = true;
    this.place.replaceChildren(this.image);
  }
}

/** The panel of samples. */
export class SamplePanel {
  /** @param {Samples | null} samples null in an exported file @param {boolean} hasMap needed by vector samples */
  constructor(samples, hasMap) {
    this.samples = samples;
    this.hasMap = hasMap;
    this.raster = new SamplePicture("raster", "Raster");
    this.vector = new SamplePicture("vector", "Vector");
    this.pictures = [this.raster, this.vector];
    this.timer = 0;
    this.patience = 0;
    this.compiling = false; // whether a missing picture is known to wait for kernels
    /** @type {Subject | null} */
    this.subject = null;
    this.caption = make("p", { class: "sample-caption", "data-testid": "sample-caption" });
    this.kind = make("select", {
      class: "select",
      title: "Kind of raster",
      "aria-label": "Kind of raster",
      "data-testid": "sample-kind",
    });
    this.build();
  }

  build() {
    const head = make("div", { class: "panel-head" }, make("h2", {}, "What a model sees"), this.kind);
    const panel = byId("sample-panel");
    if (!this.samples) {
      this.kind.hidden = true;
      panel.append(
        head,
        make(
          "p",
          { class: "hint" },
          "An exported file holds no samples. Open the dataset with l5kit view to see them.",
        ),
      );
      return;
    }
    for (const kind of this.samples.kinds) this.kind.append(make("option", { value: kind }, kind));
    this.kind.hidden = this.samples.kinds.length < 2;
    this.kind.addEventListener("change", () => void this.load());
    const pictures = make("div", { class: "sample-pictures" }, this.raster.element, this.vector.element);
    for (const picture of this.pictures) enlarge(picture);
    panel.append(head, this.caption, pictures);
  }

  /**
   * Show the sample of this frame after a short delay.
   * @param {Subject | null} subject null: none
   * @param {boolean} playing nothing is requested while playing
   */
  show(subject, playing) {
    if (!this.samples) return;
    clearTimeout(this.timer);
    this.subject = subject;
    if (!subject) {
      setText(this.caption, "");
      for (const picture of this.pictures) picture.clear();
    } else if (playing) {
      setText(this.caption, "Shown when playback pauses.");
      for (const picture of this.pictures.filter(({ busy }) => busy)) {
        picture.drop();
        picture.settle();
      }
    } else this.timer = window.setTimeout(() => void this.load(), REST_MS);
    byId("sample-panel").dataset.stale = String(Boolean(subject && playing));
  }

  /** Load the pictures one after the other, as they are drawn, over one connection. */
  async load() {
    const { subject, samples } = this;
    if (!subject || !samples) return;
    const { scene, frame, trackId, inFrame } = subject;
    const name = trackId === null ? "the AV" : `track ${trackId}`;
    setText(this.caption, `Frame ${frame}, centred on ${name}`);
    if (!inFrame) {
      for (const picture of this.pictures) picture.refuse(`${name} is not in frame ${frame}`);
      return;
    }
    if (!this.pictures.some(({ busy }) => busy)) this.compiling = false;
    const raster = this.raster.want(samples.rasterUrl(scene, frame, trackId, this.kind.value));
    const vector = this.hasMap ? this.vector.want(samples.vectorUrl(scene, frame, trackId)) : null;
    if (!this.hasMap) this.vector.refuse("a vector sample needs a semantic map, and this dataset has none");
    this.watch(PATIENCE_MS);
    const alt = `sample of frame ${frame}, centred on ${name}`;
    if (raster) await this.raster.load(`Raster ${alt}`, raster);
    if (vector) await this.vector.load(`Vector ${alt}`, vector);
  }

  /** After a while, show what missing pictures are waiting for. @param {number} after_ms */
  watch(after_ms) {
    clearTimeout(this.patience);
    this.patience = window.setTimeout(() => void this.sayWaiting(), after_ms);
  }

  async sayWaiting() {
    if (!this.samples || !this.pictures.some(({ busy }) => busy)) return;
    const compiling = await this.samples.isCompiling().catch(() => false);
    this.compiling ||= compiling; // compilation pauses between two kernels
    for (const picture of this.pictures) picture.sayWaiting(this.compiling);
    this.watch(ASK_AGAIN_MS);
  }
}

/** Enlarge a picture on a click. @param {SamplePicture} picture */
function enlarge(picture) {
  const dialog = elementById("pictures", HTMLDialogElement);
  const open = make("button", {
    type: "button",
    class: "sample-open",
    title: "Show large",
    "aria-label": `Show the ${picture.name} sample large`,
  });
  picture.place.replaceWith(open);
  open.append(picture.place);
  open.addEventListener("click", () => {
    if (picture.image.hidden || !picture.image.isConnected) return;
    setText(byId("pictures-title"), picture.image.alt);
    byId("pictures-body").replaceChildren(
      make("img", { class: picture.name, src: picture.image.src, alt: picture.image.alt }),
    );
    dialog.showModal();
  });
}
