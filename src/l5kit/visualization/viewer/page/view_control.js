// @ts-check
/** The view of the player: whom it follows, how near it is and what is drawn, with the buttons for these. */

import { byId, onPress, setPressed } from "l5kit/dom";
import { EGO_TRACK } from "l5kit/tracks";

/** @typedef {import("l5kit/address").Following} Following */
/** @typedef {import("l5kit/address").Place} Place */
/** @typedef {import("l5kit/birdseye").Birdseye} Birdseye */
/** @typedef {"labels" | "past" | "future" | "mask" | "ghosts" | "plan" | "predictions"} Drawn what can be left out of the picture */

const DRAWN = /** @type {const} */ (["labels", "past", "future", "mask", "ghosts", "plan", "predictions"]);
const ZOOM_STEP = 1.25;

/** Steers the picture, once there is one. */
export class ViewControl {
  /**
   * @param {object} hooks
   * @param {() => boolean} hooks.isOpen whether a scene is shown
   * @param {(ofTrack: boolean) => void} hooks.onFollowing ofTrack: the view follows the selected agent
   * @param {() => void} hooks.onChange the address has another view
   * @param {(track: number | null, point: {x: number, y: number}) => void} hooks.onPick an agent or the AV was clicked; null: neither
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

  /** Let the buttons act. */
  wire() {
    onPress(byId("follow"), () => this.toggleFollow());
    onPress(byId("fit"), () => this.fit());
    onPress(byId("zoom-in"), () => this.zoomIn());
    onPress(byId("zoom-out"), () => this.zoomOut());
    for (const name of DRAWN) onPress(byId(`option-${name}`), () => this.toggleDrawn([name]));
  }

  /** @param {Birdseye} birdseye the picture, ready to draw */
  attach(birdseye) {
    this.birdseye = birdseye;
    birdseye.setOptions({ follow: true, ...this.options });
    birdseye.on("pick", (track, point) => this.hooks.onPick(track, point));
    birdseye.on("camera", () => this.showFollowing());
    birdseye.on("follow", () => this.showFollowing());
  }

  /** @param {import("l5kit/unpack").PackedScene | null} scene nothing of it is selected */
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

  /** @param {Following} following "track" without a selected agent is "av" */
  setFollowing(following) {
    const ofAgent = this.track !== null && this.track !== EGO_TRACK;
    this.following = following === "track" && !ofAgent ? "av" : following;
    this.birdseye?.setOptions({ follow: this.following !== "off", followTrack: this.following === "track" });
    this.showFollowing();
  }

  /** Show on the buttons whom the view follows, and that it no longer does once it has been moved. */
  showFollowing() {
    if (!this.birdseye?.options.follow) this.following = "off";
    setPressed(byId("follow"), this.following === "av");
    this.hooks.onFollowing(this.following === "track");
    this.hooks.onChange();
  }

  /** Follow the AV, or stay where the view is. */
  toggleFollow() {
    if (this.hooks.isOpen()) this.setFollowing(this.following === "av" ? "off" : "av");
  }

  /** Follow the selected agent, or the AV again. */
  toggleFollowTrack() {
    this.setFollowing(this.following === "track" ? "av" : "track");
  }

  /** @param {Drawn[]} names shown or left out, all as the first */
  toggleDrawn(names) {
    const on = !this.options[names[0]];
    for (const name of names) {
      this.options[name] = on;
      setPressed(byId(`option-${name}`), on);
    }
    this.birdseye?.setOptions({ ...this.options });
  }

  /** Look at a place of the world, and stay there. @param {number} x metres @param {number} y */
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

  /** @param {number} factor above 1: nearer */
  zoom(factor) {
    if (!this.birdseye || !this.hooks.isOpen()) return;
    const { x, y, scale } = this.birdseye.camera;
    this.birdseye.camera = { x, y, scale: scale * factor };
    this.hooks.onChange();
  }

  /** Show the first view. */
  fit() {
    if (!this.birdseye || !this.hooks.isOpen()) return;
    this.birdseye.fit();
    this.hooks.onChange();
  }

  /**
   * Look where an address says.
   * @param {Place} place
   * @param {boolean} fresh the scene has just been opened, the view is still that of another
   * @returns {string[]} what cannot be
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

  /** @returns {Place} the view alone; its middle only where it follows nobody */
  place() {
    if (!this.birdseye) return {};
    const { x, y, scale } = this.birdseye.camera;
    return { follow: this.following, ...(this.following === "off" ? { x, y } : {}), zoom: scale };
  }
}
