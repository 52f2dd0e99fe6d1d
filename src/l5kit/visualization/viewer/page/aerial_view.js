// @ts-check
/** The aerial picture below the scene: a canvas under that of the map, with the visible tiles. */

import { levelFor, pageFromPixel, tilesInView } from "l5kit/aerial";
import { onPress, setPressed } from "l5kit/dom";
import { messageOf } from "l5kit/format";
import { notice } from "l5kit/notices";

const MOST_KEPT = 160; // tiles
const DARK_VEIL = 0.35; // opacity of the ground over the picture, in the dark theme

/** @typedef {import("l5kit/aerial").AerialFacts} AerialFacts */
/** @typedef {import("l5kit/aerial").Tile} Tile */
/** @typedef {{facts: AerialFacts, tileUrl: (tile: Tile) => string}} Aerial */

/** Draws the aerial picture while it is on. */
export class AerialView {
  /**
   * @param {import("l5kit/birdseye").Birdseye} birdseye
   * @param {object} parts
   * @param {HTMLElement} parts.button
   * @param {(scene: number) => Promise<Aerial>} parts.load
   * @param {() => void} parts.onChange called when it is turned on or off
   */
  constructor(birdseye, { button, load, onChange }) {
    this.birdseye = birdseye;
    this.button = button;
    this.hooks = { load, onChange };
    this.on = false;
    /** @type {number | null} */
    this.scene = null;
    /** @type {Aerial | null} */
    this.aerial = null;
    this.asked = 0; // number of requested scenes; answers to older requests are dropped
    /** @type {Map<string, HTMLImageElement>} */
    this.tiles = new Map(); // by address, most recently drawn last
    /** @type {HTMLCanvasElement | null} */
    this.canvas = null; // created when first shown
    birdseye.on("drawn", () => this.draw());
    onPress(button, () => this.toggle());
  }

  toggle() {
    this.set(!this.on);
  }

  /** @param {boolean} on */
  set(on) {
    if (on === this.on) return;
    this.on = on;
    setPressed(this.button, on);
    this.hooks.onChange();
    void this.refresh();
  }

  /** @param {number | null} scene the open scene */
  setScene(scene) {
    this.scene = scene;
    this.aerial = null;
    void this.refresh();
  }

  /** Load and draw the current scene. */
  async refresh() {
    const turn = ++this.asked;
    if (this.on && !this.aerial && this.scene !== null) {
      this.button.setAttribute("aria-busy", "true");
      try {
        const aerial = await this.hooks.load(this.scene);
        if (turn !== this.asked) return;
        this.aerial = aerial;
      } catch (error) {
        if (turn !== this.asked) return;
        notice(`The aerial picture cannot be shown: ${messageOf(error)}`);
        this.set(false);
        return;
      }
    }
    this.button.removeAttribute("aria-busy");
    const isShown = this.on && this.aerial !== null;
    if (isShown) this.canvas ??= this.makeCanvas();
    if (this.canvas) this.canvas.hidden = !isShown;
    this.birdseye.setSeeThrough(isShown);
  }

  /** @returns {HTMLCanvasElement} below the canvas of the map */
  makeCanvas() {
    const canvas = document.createElement("canvas");
    canvas.className = "aerial";
    canvas.dataset.testid = "aerial";
    this.birdseye.container.append(canvas);
    return canvas;
  }

  /** Draw the loaded tiles in view of the camera, and load the others. */
  draw() {
    const { aerial, birdseye, canvas } = this;
    if (!canvas || canvas.hidden || !aerial) return;
    const { view, tones, theme } = birdseye;
    const context = this.ready(canvas, view);
    if (!context) return;
    const { resolution } = birdseye.painter.renderer;
    const fill = (/** @type {number} */ alpha) => {
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.globalAlpha = alpha;
      context.fillStyle = `#${tones.ground.toString(16).padStart(6, "0")}`;
      context.fillRect(0, 0, canvas.width, canvas.height);
      context.globalAlpha = 1;
    };
    fill(1);
    const [a, b, c, d, e, f] = pageFromPixel(aerial.facts, view).map((value) => value * resolution);
    context.setTransform(a, b, c, d, e, f);
    const level = levelFor(aerial.facts, view.scale * resolution);
    const wanted = this.imagesOf(aerial, level);
    const coarsest = aerial.facts.num_levels - 1;
    const isWhole = wanted.every(({ image }) => isLoaded(image));
    const under = isWhole || level === coarsest ? [] : this.imagesOf(aerial, coarsest);
    for (const { tile, image } of [...under, ...wanted])
      if (isLoaded(image)) drawTile(context, aerial.facts.tile_px, tile, image);
    if (theme === "dark") fill(DARK_VEIL); // over all tiles at once, to avoid seams
    this.forget();
  }

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {{width: number, height: number}} view view that sets its size
   * @returns {CanvasRenderingContext2D | null}
   */
  ready(canvas, { width, height }) {
    const { resolution } = this.birdseye.painter.renderer;
    const [columns, rows] = [Math.round(width * resolution), Math.round(height * resolution)];
    if (canvas.width !== columns || canvas.height !== rows) {
      canvas.width = columns;
      canvas.height = rows;
    }
    return canvas.getContext("2d");
  }

  /** @param {Aerial} aerial @param {number} level @returns {{tile: Tile, image: HTMLImageElement}[]} loaded or not */
  imagesOf(aerial, level) {
    return tilesInView(aerial.facts, level, this.birdseye.view).map((tile) => {
      const url = aerial.tileUrl(tile);
      const image = this.tiles.get(url) ?? this.load(url);
      this.tiles.delete(url);
      this.tiles.set(url, image);
      return { tile, image };
    });
  }

  /** @param {string} url @returns {HTMLImageElement} */
  load(url) {
    const image = new Image();
    image.addEventListener("load", () => this.birdseye.redraw());
    image.src = url;
    return image;
  }

  /** Evict the tiles that were drawn least recently. */
  forget() {
    for (const url of [...this.tiles.keys()].slice(0, Math.max(this.tiles.size - MOST_KEPT, 0))) this.tiles.delete(url);
  }
}

/** @param {HTMLImageElement} image @returns {boolean} */
function isLoaded(image) {
  return image.complete && image.naturalWidth > 0;
}

/** @param {CanvasRenderingContext2D} context @param {number} tile_px @param {Tile} tile @param {HTMLImageElement} image */
function drawTile(context, tile_px, { level, column, row }, image) {
  const size = 2 ** level;
  const { naturalWidth, naturalHeight } = image;
  context.drawImage(image, column * tile_px * size, row * tile_px * size, naturalWidth * size, naturalHeight * size);
}
