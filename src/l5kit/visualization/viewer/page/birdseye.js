// @ts-check
/** Bird's-eye view of a scene: the map, the agents and the AV of one frame, drawn on changes. */

import { AgentLayer } from "l5kit/birdseye_agents";
import { GhostLayer } from "l5kit/birdseye_ghosts";
import { LabelLayer } from "l5kit/birdseye_labels";
import { MapLayer } from "l5kit/birdseye_map";
import { PredictionLayer } from "l5kit/birdseye_predictions";
import { Camera, Gestures } from "l5kit/camera";
import { CanvasPainter } from "l5kit/paint_canvas";
import { WebglPainter } from "l5kit/paint_webgl";
import { THEMES } from "l5kit/palette";
import { ScaleBar } from "l5kit/scale_bar";
import { EGO_TRACK } from "l5kit/tracks";
import { Container, isWebGLSupported } from "pixi.js";

const FIRST_VIEW_M = 100; // across the shorter side

/** @typedef {import("l5kit/unpack").PackedMap} PackedMap */
/** @typedef {import("l5kit/unpack").PackedScene} PackedScene */
/**
 * @typedef {object} Listeners
 * @property {((track: number | null, point: {x: number, y: number}) => void)[]} pick a track, or none, was clicked
 * @property {(() => void)[]} camera the view was moved
 * @property {(() => void)[]} follow the view no longer follows
 * @property {(() => void)[]} drawn a frame has been drawn
 */

/**
 * @param {HTMLElement} container with a size; the canvas fills it and follows its size
 * @param {object} [options]
 * @param {string} [options.theme] "light" or "dark"
 * @param {"webgl" | "canvas"} [options.renderer] WebGL by default, if available
 * @returns {Promise<Birdseye>}
 */
export async function createBirdseye(container, { theme = "light", renderer } = {}) {
  const withWebgl = renderer ? renderer === "webgl" : isWebGLSupported();
  const resolution = window.devicePixelRatio || 1;
  const size = { width: Math.max(container.clientWidth, 1), height: Math.max(container.clientHeight, 1) };
  const options = {
    ...size,
    resolution,
    autoDensity: true,
    background: tonesOf(theme).ground,
    backgroundAlpha: 0, // the canvas is transparent, to show what is below it
    preserveDrawingBuffer: false,
  };
  const painter = await (withWebgl ? WebglPainter.create(options) : CanvasPainter.create(options));
  return new Birdseye(container, painter, theme);
}

/** The bird's-eye view. Tracks are indices; EGO_TRACK is the AV. */
export class Birdseye {
  /** @param {HTMLElement} container @param {import("l5kit/paint_webgl").Painter} painter @param {string} theme */
  constructor(container, painter, theme) {
    this.container = container;
    this.painter = painter;
    this.theme = theme;
    this.tones = tonesOf(theme);
    this.view = new Camera();
    this.options = {
      follow: true,
      followTrack: false,
      labels: true,
      past: true,
      future: true,
      mask: false,
      ghosts: true,
      plan: true,
      predictions: true,
    };
    this.frame = 0;
    /** @type {number | null} */
    this.selected = null;
    /** @type {number | null} */
    this.hovered = null;
    this.seeThrough = false;
    /** @type {Listeners} */
    this.listeners = { pick: [], camera: [], follow: [], drawn: [] };
    /** @type {((point: {x: number, y: number}) => boolean)[]} */
    this.takers = []; // handlers with priority for clicks
    this.stats = { renderer: painter.renderer.name, drawn: 0, lastMs: 0 };
    this.stage = new Container();
    this.mapSpace = new Container();
    this.markSpace = new Container(); // marks in the frame of the map
    this.agentSpace = new Container();
    this.ghostSpace = new Container();
    this.labelSpace = new Container();
    /** @type {PackedMap | null} */
    this.map = null;
    /** @type {MapLayer | null} */
    this.mapLayer = null;
    /** @type {PackedScene | null} */
    this.scene = null;
    /** @type {AgentLayer | null} */
    this.agents = null;
    /** @type {GhostLayer | null} */
    this.ghosts = null;
    /** @type {PredictionLayer | null} */
    this.predictions = null;
    /** @type {LabelLayer | null} */
    this.labels = null;
    /** @type {{x: number, y: number} | null} */
    this.pointer = null; // CSS pixels, while it is over the view
    this.placed = false;
    this.request = 0;
    const { canvas } = painter.renderer;
    Object.assign(canvas.style, { display: "block", position: "absolute", inset: "0" });
    this.container.append(canvas);
    this.stage.addChild(this.mapSpace, this.markSpace, this.agentSpace, this.ghostSpace, this.labelSpace);
    this.mapFrame = painter.frame();
    this.agentFrame = painter.frame();
    this.scaleBar = new ScaleBar(this.container);
    this.gestures = new Gestures(this.container, {
      onPan: (dx, dy) => this.panned(dx, dy),
      onZoom: (factor, point) => this.zoomed(factor, point),
      onClick: (point) => this.clicked(point),
      onHover: (point) => this.hover(point),
    });
    /** Whether the view has to be fitted again, once the container has a size. */
    this.fitsLater = false;
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.container);
    canvas.addEventListener("webglcontextrestored", () => this.setTheme(this.theme));
    this.setTheme(this.theme);
    this.resize();
  }

  /** @param {PackedMap | null} map */
  setMap(map) {
    this.map = map;
    this.mapLayer?.destroy();
    const alpha = this.seeThrough ? this.tones.laneOverAerial : 1;
    this.mapLayer = map ? new MapLayer(map, this.mapFrame, { ...this.tones, laneAlpha: alpha }) : null;
    if (this.mapLayer) this.mapSpace.addChild(this.mapLayer.node);
    this.redraw();
  }

  /** @param {PackedScene | null} scene starts at its first frame; the first scene moves the view to the AV */
  setScene(scene) {
    this.scene = scene;
    this.hovered = null;
    this.setPredictions(null);
    this.agents?.destroy();
    this.setDrive(null);
    this.labels?.clear();
    this.agents = scene ? new AgentLayer(scene, this.agentFrame, this.tones) : null;
    this.frame = 0;
    if (this.agents) this.agentSpace.addChild(this.agents.node);
    if (scene && !this.placed) this.fit();
    this.redraw();
  }

  /** @param {import("l5kit/drive_model").DriveModel | null} drive of the current scene */
  setDrive(drive) {
    this.ghosts?.destroy();
    this.ghosts = drive && this.scene ? new GhostLayer(drive, this.scene.facts.ego_size_m, this.agentFrame) : null;
    if (this.ghosts) this.ghostSpace.addChild(this.ghosts.node);
    this.redraw();
  }

  /** @param {import("l5kit/predictions").PredictionModel | null} predictions of the current scene */
  setPredictions(predictions) {
    this.predictions?.destroy();
    this.predictions = predictions && this.agents && new PredictionLayer(predictions, this.agentFrame);
    if (this.predictions) this.agents?.node.addChildAt(this.predictions.node, 1); // above the trajectories, below the boxes
    this.redraw();
  }

  /** @param {number} index of the frame to show in the next animation frame */
  showFrame(index) {
    this.frame = index;
    this.redraw();
  }

  /** @param {Partial<Birdseye["options"]>} options */
  setOptions(options) {
    Object.assign(this.options, options);
    this.redraw();
  }

  /** @param {number | null} track */
  select(track) {
    this.selected = track;
    this.redraw();
  }

  /** @param {string} theme "light" or "dark" */
  setTheme(theme) {
    this.theme = theme;
    this.tones = tonesOf(theme);
    const { renderer } = this.painter;
    this.clearGround();
    this.labels?.destroy();
    this.labels = new LabelLayer(theme, this.tones, renderer.resolution);
    this.labelSpace.addChild(this.labels.node);
    this.scaleBar.setTones(this.tones);
    if (this.agents) this.agents.tones = this.tones;
    if (this.map) this.setMap(this.map);
    this.redraw();
  }

  /** Make the canvas transparent or opaque. @param {boolean} seeThrough whether something is below it */
  setSeeThrough(seeThrough) {
    if (seeThrough === this.seeThrough) return;
    this.seeThrough = seeThrough;
    this.clearGround();
    this.setMap(this.map);
  }

  clearGround() {
    const { background } = this.painter.renderer;
    background.color = this.seeThrough ? 0 : this.tones.ground; // a colour would be added to what is below
    background.alpha = this.seeThrough ? 0 : 1;
  }

  /** @returns {{x: number, y: number, scale: number}} world position in metres, CSS pixels per metre */
  get camera() {
    this.followNow();
    const { x, y, scale } = this.view;
    return { x, y, scale };
  }

  set camera(place) {
    this.placed = true;
    this.view.set(place);
    this.redraw();
  }

  /** Centre the AV, 100 m across. */
  fit() {
    const { scene, agents } = this;
    const ego = agents?.egoBox(this.frame);
    if (!scene || !ego) return;
    const [x, y] = scene.facts.origin_m;
    const side = Math.min(this.view.width, this.view.height);
    this.fitsLater = side <= 1;
    this.camera = { x: x + ego.x, y: y + ego.y, scale: side / FIRST_VIEW_M };
  }

  /**
   * @template {keyof Listeners} Name
   * @param {Name} name
   * @param {Listeners[Name][number]} listener
   */
  on(name, listener) {
    /** @type {Listeners[Name][number][]} */ (this.listeners[name]).push(listener);
  }

  /** @param {(point: {x: number, y: number}) => boolean} take called before other handlers; true if it has handled the click */
  takeClicks(take) {
    this.takers.push(take);
  }

  /** @param {{x: number, y: number}} point CSS pixels, clicked */
  clicked(point) {
    if (this.takers.some((take) => take(point))) return;
    const track = this.trackAt(point);
    for (const listener of this.listeners.pick) listener(track, point);
  }

  /**
   * @param {number} x world, metres
   * @param {number} y
   * @returns {{x: number, y: number}} CSS pixels within the container
   */
  worldToPage(x, y) {
    this.followNow();
    return this.view.toPage(x, y);
  }

  /**
   * @param {number} x CSS pixels within the container
   * @param {number} y
   * @returns {{x: number, y: number}} world, metres
   */
  pageToWorld(x, y) {
    this.followNow();
    return this.view.toWorld(x, y);
  }

  /** @param {number} dx CSS pixels @param {number} dy */
  panned(dx, dy) {
    this.followNow();
    this.view.pan(dx, dy);
    if (this.options.follow) {
      this.options.follow = false;
      for (const listener of this.listeners.follow) listener();
    }
    this.moved();
  }

  /** @param {number} factor @param {{x: number, y: number}} point CSS pixels; the centre while the view follows */
  zoomed(factor, point) {
    this.followNow();
    const { width, height } = this.view;
    this.view.zoom(factor, this.options.follow ? { x: width / 2, y: height / 2 } : point);
    this.moved();
  }

  moved() {
    this.placed = true;
    for (const listener of this.listeners.camera) listener();
    this.redraw();
  }

  /** @param {{x: number, y: number}} point CSS pixels @returns {number | null} track drawn there */
  trackAt(point) {
    if (!this.scene || !this.agents) return null;
    const { x, y } = this.view.toWorld(point.x, point.y);
    const [originX, originY] = this.scene.facts.origin_m;
    return this.agents.pick(x - originX, y - originY, this.view.scale);
  }

  /** @param {{x: number, y: number} | null} point */
  hover(point) {
    this.pointer = point;
    const track = point && this.trackAt(point);
    if (track === this.hovered) return;
    this.hovered = track;
    this.container.style.cursor = track === null ? "" : "pointer";
    this.redraw();
  }

  /** Move the view to the followed track. */
  followNow() {
    const { follow, followTrack } = this.options;
    if (!follow || !this.scene || !this.agents) return;
    const track = followTrack && this.selected !== null ? this.selected : EGO_TRACK;
    const box = this.agents.boxOf(track, this.frame);
    const [x, y] = this.scene.facts.origin_m;
    if (box) this.view.set({ x: x + box.x, y: y + box.y });
  }

  resize() {
    const [width, height] = [Math.max(this.container.clientWidth, 1), Math.max(this.container.clientHeight, 1)];
    const { renderer } = this.painter;
    const resolution = window.devicePixelRatio || 1;
    const sharper = resolution !== renderer.resolution;
    if (width === this.view.width && height === this.view.height && !sharper) return;
    Object.assign(this.view, { width, height });
    renderer.resize(width, height, resolution);
    if (sharper) this.setTheme(this.theme);
    if (this.fitsLater) this.fit();
    cancelAnimationFrame(this.request);
    this.draw(); // immediately: a resized canvas is empty
  }

  /** Draw in the next animation frame. */
  redraw() {
    if (!this.request) this.request = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.request = 0;
    const start = performance.now();
    this.followNow();
    const complete = this.drawMap();
    this.drawAgents();
    this.scaleBar.show(this.view.scale);
    this.painter.renderer.render({ container: this.stage });
    for (const listener of this.listeners.drawn) listener();
    this.stats.drawn += 1;
    this.stats.lastMs = performance.now() - start;
    if (!complete) this.redraw();
  }

  /**
   * @param {number[]} origin world, metres
   * @returns {import("l5kit/paint_webgl").View} the view in metres from this origin
   */
  viewFrom([x, y]) {
    const { scale, width, height } = this.view;
    return {
      x: this.view.x - x,
      y: this.view.y - y,
      scale,
      width,
      height,
      resolution: this.painter.renderer.resolution,
    };
  }

  /** @returns {boolean} whether all visible tiles are built */
  drawMap() {
    if (!this.mapLayer) return true;
    const { light_starts: starts, light_lanes, light_colors } = this.scene?.arrays ?? {};
    const [from, to] = starts ? [starts[this.frame], starts[this.frame + 1]] : [0, 0];
    this.mapLayer.light(light_lanes?.subarray(from, to) ?? [], light_colors?.subarray(from, to) ?? []);
    const view = this.viewFrom(this.mapLayer.origin);
    const complete = this.mapLayer.look(view);
    this.mapFrame.look(view);
    return complete;
  }

  drawAgents() {
    if (!this.agents || !this.scene) return;
    const { facts } = this.scene;
    this.agentFrame.look(this.viewFrom(facts.origin_m));
    this.agents.draw(this.frame, this.view.scale, this.options, this.selected);
    this.predictions?.draw(this.frame, this.view.scale, this.options, this.tones, this.selected);
    this.ghosts?.draw(this.frame, this.view.scale, this.options, this.tones);
    if (this.pointer) this.hovered = this.trackAt(this.pointer);
    this.container.style.cursor = this.hovered === null ? "" : "pointer";
    const toPage = (/** @type {number} */ x, /** @type {number} */ y) =>
      this.view.toPage(x + facts.origin_m[0], y + facts.origin_m[1]);
    const chosen = [this.hovered, this.selected];
    this.labels?.draw(this.agents.shown, {
      toPage,
      view: this.view,
      trackIds: facts.track_ids,
      chosen,
      all: this.options.labels,
    });
  }

  destroy() {
    cancelAnimationFrame(this.request);
    this.observer.disconnect();
    this.gestures.destroy();
    this.mapLayer?.destroy();
    this.predictions?.destroy();
    this.agents?.destroy();
    this.ghosts?.destroy();
    this.labels?.destroy();
    this.scaleBar.destroy();
    this.painter.renderer.destroy({ removeView: true });
  }
}

/** @param {string} theme @returns {import("l5kit/palette").Tones} */
function tonesOf(theme) {
  const tones = THEMES[theme];
  if (!tones) throw new Error(`theme is "${theme}"; allowed are ${Object.keys(THEMES).join(", ")}`);
  return tones;
}
