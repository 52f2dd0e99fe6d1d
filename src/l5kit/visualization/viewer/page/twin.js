// @ts-check
/** Two viewer pages side by side: the page with the last user action leads, the other one follows. */

/** @typedef {import("l5kit/viewer").Viewer} Viewer */
/**
 * @typedef {object} Shown state of a page, from which another one can show the same for its own dataset
 * @property {number | string} source the scene, by its index in the log
 * @property {number} time_s since the first frame of the scene
 * @property {string} start_time_ns of that frame, since 1970, decimal
 * @property {boolean} playing
 * @property {number} speed
 * @property {boolean} loop
 * @property {boolean} follow whether the view follows the AV
 * @property {number} zoom CSS pixels per metre
 * @property {number} x centre of the view, metres, world
 * @property {number} y
 */
/** @typedef {{shown: Shown, turn?: number} | {asks: true}} Message turn: number of changes of the lead */
/** @typedef {import("l5kit/joined_curves").ToldDrive} ToldDrive */
/** @typedef {{drive: ToldDrive | null}} DriveMessage to the parent page, which has the curves of both */
/** @typedef {{seek: number}} SeekMessage from the parent page: seconds since the first frame */
/**
 * @typedef {object} Sight interface of a page
 * @property {() => Shown | null} shown null while nothing is shown
 * @property {(shown: Shown) => void} show
 * @property {() => void} lead run its own clock again
 * @property {() => ToldDrive | null} drive of the open scene
 * @property {(time_s: number) => void} seek
 */

/** One of the two pages. */
export class Twin {
  /**
   * @param {boolean} leads whether it leads until the first action in the other page
   * @param {(message: Message | DriveMessage) => void} send to the parent page, and through it to the other page
   * @param {Sight} sight
   */
  constructor(leads, send, sight) {
    this.leads = leads;
    this.send = send;
    this.sight = sight;
    this.told = "";
    this.turn = 0; // older messages are ignored
    /** @type {Shown | null} */
    this.heard = null; // the latest state, to be shown once a scene is open
  }

  /** A user action in this page. */
  act() {
    if (this.leads) return;
    this.leads = true;
    this.turn += 1;
    this.heard = null;
    this.sight.lead();
  }

  /** Send the state, which may have changed. */
  tell() {
    const shown = this.leads ? this.sight.shown() : null;
    const text = JSON.stringify(shown);
    if (!shown || text === this.told) return;
    this.told = text;
    this.send({ shown, turn: this.turn });
  }

  /** A scene has been opened. */
  opened() {
    this.send({ drive: this.sight.drive() });
    if (this.leads) this.tell();
    else if (this.heard) this.sight.show(this.heard);
    else this.send({ asks: true });
  }

  /** @param {Message | SeekMessage} message from the other page, or from the parent page */
  hear(message) {
    if ("seek" in message) {
      this.act();
      this.sight.seek(message.seek);
    } else if ("asks" in message) {
      this.told = "";
      this.tell();
    } else if ("shown" in message && (message.turn ?? this.turn) >= this.turn) {
      this.turn = message.turn ?? this.turn;
      this.leads = false;
      this.heard = message.shown;
      this.sight.show(message.shown);
    }
  }
}

/**
 * Return the scene of this dataset that another page shows.
 * @param {number | string} source index in the log
 * @param {number} numScenes
 * @param {(scene: number) => number | string} sourceOf
 * @returns {number | null} null if it is missing
 */
export function sceneOfSource(source, numScenes, sourceOf) {
  for (let scene = 0; scene < numScenes; scene += 1) if (sourceOf(scene) === source) return scene;
  return null;
}

/**
 * Return the time in a scene of the moment that another page shows. The scene of a simulation may start later than that of
 * its log; scenes of different days are aligned at their first frames.
 * @param {{time_s: number, start_time_ns: string}} shown
 * @param {string} start_time_ns of this scene
 * @param {number} duration_s of this scene
 * @returns {number} seconds since the first frame of this scene, negative before it
 */
export function timeInScene(shown, start_time_ns, duration_s) {
  const later_s = Number(BigInt(shown.start_time_ns) - BigInt(start_time_ns)) / 1e9;
  return Math.abs(later_s) <= duration_s ? shown.time_s + later_s : shown.time_s;
}

/**
 * Synchronise a page with the one next to it.
 * @param {Viewer} viewer
 * @returns {Twin | null} null for a single page
 */
export function joinTwin(viewer) {
  if (window.parent === window || !["l5kit-left", "l5kit-right"].includes(window.name)) return null;
  const send = (/** @type {Message | DriveMessage} */ message) => window.parent.postMessage(message, location.origin);
  const twin = new Twin(window.name === "l5kit-left", send, new ViewerSight(viewer));
  addEventListener("message", ({ source, origin, data }) => {
    if (source === window.parent && origin === location.origin) twin.hear(data);
  });
  for (const kind of ["pointerdown", "keydown", "wheel"]) {
    addEventListener(kind, () => twin.act(), { capture: true, passive: true });
  }
  return twin;
}

const SAME_PLACE_M = 2000; // views farther from the AV of the other scene are not adopted

/** Interface of a viewer page. @implements {Sight} */
class ViewerSight {
  /** @param {Viewer} viewer */
  constructor(viewer) {
    this.viewer = viewer;
    this.missing = /** @type {number | string | null} */ (null);
  }

  /** Return whether the scenes of the log are known; for a simulation they are in the list. */
  isListed() {
    return !this.viewer.opened?.dataset.run || this.viewer.scenes.table !== null;
  }

  /** @param {number} scene @returns {number | string} its index in the log */
  sourceOf(scene) {
    return this.viewer.scenes.table?.value(scene, "log_scene") ?? scene;
  }

  /** @returns {Shown | null} */
  shown() {
    const { scene, model, playback, view } = this.viewer;
    if (scene === null || !model || !view.birdseye || !this.isListed()) return null;
    const { x, y, scale } = view.birdseye.camera;
    const { playing, speed, loop, frame, time_s } = playback;
    const follow = view.following !== "off";
    const { start_time_ns } = model.facts;
    const clock = { time_s: time_s[frame], start_time_ns, playing, speed, loop };
    return { source: this.sourceOf(scene), ...clock, follow, zoom: scale, x, y };
  }

  /** @param {Shown} shown */
  show(shown) {
    const { viewer } = this;
    if (!viewer.opened || !viewer.view.birdseye || !this.isListed()) return; // shown once a scene is open
    const scene = sceneOfSource(shown.source, viewer.opened.numScenes, (each) => this.sourceOf(each));
    if (scene === null) {
      if (this.missing !== shown.source) viewer.sayMissing(shown.source);
      this.missing = shown.source;
      return;
    }
    this.missing = null;
    if (scene !== viewer.scene) {
      void viewer.open(scene); // and then apply the latest state
      return;
    }
    if (!viewer.model) return;
    const { facts, duration_s } = viewer.model;
    viewer.playback.mirror({ ...shown, time_s: timeInScene(shown, facts.start_time_ns, duration_s) });
    this.look(shown);
  }

  /** @param {Shown} shown adopt the view of the other page */
  look({ follow, zoom, x, y }) {
    const { view } = this.viewer;
    if (!view.birdseye) return;
    if (follow !== (view.following !== "off")) view.setFollowing(follow ? "av" : "off");
    const { camera } = view.birdseye;
    const isNear = Math.hypot(x - camera.x, y - camera.y) < SAME_PLACE_M;
    const place = follow || !isNear ? camera : { x, y };
    if (zoom !== camera.scale || place !== camera) view.birdseye.camera = { x: place.x, y: place.y, scale: zoom };
  }

  lead() {
    this.viewer.playback.lead();
  }

  /** @returns {ToldDrive | null} */
  drive() {
    const { scene, model, opened, playback, panels } = this.viewer;
    const drive = panels.drive.model;
    if (scene === null || !model || !drive) return null;
    const { curves } = drive.facts;
    const keys = [...curves.map(({ key }) => key), "log_speed"];
    return {
      name: opened?.dataset.name ?? "",
      source: this.sourceOf(scene),
      start_time_ns: model.facts.start_time_ns,
      time_s: Array.from(playback.time_s),
      curves: curves.map(({ key, name, chip, unit, digits, axis }) => ({
        key,
        name,
        chip,
        unit,
        digits,
        axis,
        kinds: [],
      })),
      values: Object.fromEntries(keys.map((key) => [key, drive.curve(key)])),
    };
  }

  /** @param {number} time_s */
  seek(time_s) {
    const { playback } = this.viewer;
    const frame = playback.time_s.findLastIndex((/** @type {number} */ each) => each <= time_s + 1e-3);
    playback.seek(Math.max(frame, 0));
  }
}
