// @ts-check
/** The view of the player: followed track, scale and displayed layers, with their buttons. */

import { byId, onPress, setPressed } from "l5kit/dom";
import { EGO_TRACK } from "l5kit/tracks";

/** @typedef {import("l5kit/address").Following} Following */
/** @typedef {import("l5kit/address").Place} Place */
/** @typedef {import("l5kit/birdseye").Birdseye} Birdseye */
/** @typedef {"labels" | "past" | "future" | "mask" | "ghosts" | "plan" | "predictions"} Drawn optional layers of the view */

const DRAWN = /** @type {const} */ (["labels", "past", "future", "mask", "ghosts", "plan", "predictions"]);
const ZOOM_STEP = 1.25;

/** Controls the view, once it exists. */
export class ViewControl {
  /**
   * @param {object} hooks
   * @param {() => boolean} hooks.isOpen whether a scene is shown
   * @param {(ofTrack: boolean) => void} hooks.onFollowing called when following changes; ofTrack: the view follows the selected agent
   * @param {() => void} hooks.onChange called when the view of the address has changed
   * @param {(track: number | null, point: {x: number, y: number}) => void} hooks.onPick called on a click on an agent or the AV; null for neither
   */
  constructor({ isOpen, onFollowing, onChange, onPick }) {
    this.hooks = { isOpen, onFollowing, onChange, onPick };
    /** @type {Birdseye | null} */
    this.birdseye = null;
    /** @type {Following} */
    this.following = "av";
    /** @type {number | null} */
    this.track = null;
    this.options = {
      labels: true,
      past: true,
      future: true,
      mask: false,
      ghosts: true,
      plan: true,
      predictions: true,
    };
    this.wasShown = false; // whether a scene has been shown
  }

  /** Connect the buttons. */
  wire() {
    onPress(byId("follow"), () => this.toggleFollow());
    onPress(byId("fit"), () => this.fit());
    onPress(byId("zoom-in"), () => this.zoomIn());
    onPress(byId("zoom-out"), () => this.zoomOut());
    for (const name of DRAWN) onPress(byId(`option-${name}`), () => this.toggleDrawn([name]));
  }

  /** @param {Birdseye} birdseye the view, ready to draw */
  attach(birdseye) {
    this.birdseye = birdseye;
    birdseye.setOptions({ follow: true, ...this.options });
    birdseye.on("pick", (track, point) => this.hooks.onPick(track, point));
    birdseye.on("camera", () => this.showFollowing());
    birdseye.on("follow", () => this.showFollowing());
  }

  /** @param {import("l5kit/unpack").PackedScene | null} scene a scene without a selection */
  setScene(scene) {
    this.track = null;
    this.birdseye?.setScene(scene);
    this.birdseye?.select(null);
  }

  /** @param {number | null} track index, EGO_TRACK or null */
  select(track) {
    this.track = track;
    this.birdseye?.select(track);
    if (this.following === "track") this.setFollowing("track");
  }

  /** @param {Following} following "track" without a selected agent means "av" */
  setFollowing(following) {
    const ofAgent = this.track !== null && this.track !== EGO_TRACK;
    this.following = following === "track" && !ofAgent ? "av" : following;
    this.birdseye?.setOptions({ follow: this.following !== "off", followTrack: this.following === "track" });
    this.showFollowing();
  }

  /** Show on the buttons which track the view follows, or that it follows none after a move. */
  showFollowing() {
    if (!this.birdseye?.options.follow) this.following = "off";
    setPressed(byId("follow"), this.following === "av");
    this.hooks.onFollowing(this.following === "track");
    this.hooks.onChange();
  }

  /** Toggle following the AV. */
  toggleFollow() {
    if (this.hooks.isOpen()) this.setFollowing(this.following === "av" ? "off" : "av");
  }

  /** Toggle between following the selected agent and the AV. */
  toggleFollowTrack() {
    this.setFollowing(this.following === "track" ? "av" : "track");
  }

  /** @param {Drawn[]} names to show or hide, all like the first */
  toggleDrawn(names) {
    const on = !this.options[names[0]];
    for (const name of names) {
      this.options[name] = on;
      setPressed(byId(`option-${name}`), on);
    }
    this.birdseye?.setOptions({ ...this.options });
  }

  /** Look at a world position, without following. @param {number} x metres @param {number} y */
  lookAt(x, y) {
    if (!this.birdseye) return;
    this.setFollowing("off");
    this.birdseye.camera = { ...this.birdseye.camera, x, y };
    this.hooks.onChange();
  }

  zoomIn() {
    this.zoom(ZOOM_STEP);
  }

  zoomOut() {
    this.zoom(1 / ZOOM_STEP);
  }

  /** @param {number} factor above 1 to zoom in */
  zoom(factor) {
    if (!this.birdseye || !this.hooks.isOpen()) return;
    const { x, y, scale } = this.birdseye.camera;
    this.birdseye.camera = { x, y, scale: scale * factor };
    this.hooks.onChange();
  }

  /** Show the initial view. */
  fit() {
    if (!this.birdseye || !this.hooks.isOpen()) return;
    this.birdseye.fit();
    this.hooks.onChange();
  }

  /**
   * Apply the view of an address.
   * @param {Place} place
   * @param {boolean} fresh whether the scene has just been opened, with the view of another one
   * @returns {string[]} problems
   */
  apply({ follow, x, y, zoom }, fresh) {
    if (!this.birdseye) return [];
    if (follow !== undefined) this.setFollowing(follow);
    if (fresh && (this.following === "off" || !this.wasShown)) this.birdseye.fit();
    this.wasShown = true;
    const placed = x !== undefined && y !== undefined;
    if (placed && follow === undefined) this.setFollowing("off");
    const { camera } = this.birdseye;
    const moved = placed && this.following === "off" ? { x, y } : {};
    if (placed || zoom !== undefined) this.birdseye.camera = { ...camera, ...moved, scale: zoom ?? camera.scale };
    return placed || (x === undefined && y === undefined) ? [] : ["x without y, or y without x"];
  }

  /** @returns {Place} only the view; its centre only if it follows nothing */
  place() {
    if (!this.birdseye) return {};
    const { x, y, scale } = this.birdseye.camera;
    return { follow: this.following, ...(this.following === "off" ? { x, y } : {}), zoom: scale };
  }
}
