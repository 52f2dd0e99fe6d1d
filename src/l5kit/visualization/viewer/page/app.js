// @ts-check
/** The scene viewer's page: starts it and joins source, list, player, picture and panels. */

import { AV, createAddress, parseAddress } from "l5kit/address";
import { AgentList } from "l5kit/agent_list";
import { AgentPanel } from "l5kit/agent_panel";
import { createBirdseye } from "l5kit/birdseye";
import { byId, errorBox, make, setPressed, setText } from "l5kit/dom";
import { clockTime, counted, quantity } from "l5kit/format";
import { createKeys } from "l5kit/keys";
import { showLegend } from "l5kit/legend";
import { notice } from "l5kit/notices";
import { Playback } from "l5kit/playback";
import { createPlayer, onPress } from "l5kit/player";
import { SamplePanel } from "l5kit/sample_panel";
import { SceneList, createDrawer } from "l5kit/scene_list";
import { EGO_TRACK, SceneModel } from "l5kit/scene_model";
import { SceneTable } from "l5kit/scene_table";
import { openSource } from "l5kit/source";
import { showEmpty, showError, showLoading, showPlayer } from "l5kit/stage";
import { createTheme } from "l5kit/theme";

/** @typedef {import("l5kit/address").Place} Place */

const ZOOM_STEP = 1.25;
const TIME_EVERY_MS = 100; // while it plays, slider and time change at most so often
const PANEL_EVERY_MS = 200; // the panel of the agent
const LIST_PATIENCE_MS = 400; // the list knows which scenes are damaged; a slow one is not waited for
const LIST_EVERY_MS = 1000; // the list of agents

/** The state of the page and everything that shows it. */
class Viewer {
  constructor() {
    this.source = openSource();
    /** @type {SceneModel | null} */
    this.model = null;
    /** @type {number | null} */
    this.scene = null;
    /** @type {number | null} */
    this.track = null;
    /** @type {import("l5kit/address").Following} */
    this.following = "av";
    this.options = { labels: true, past: true, future: true, mask: false };
    this.opening = 0; // counts scenes asked for; an answer to an older question is dropped
    this.timers = { time: 0, panel: 0, list: 0 };
    /** @type {any} */
    this.birdseye = null;
    /** @type {SceneList | null} */
    this.list = null;
    /** @type {SceneTable | null} */
    this.table = null;
    /** @type {SamplePanel | null} */
    this.samplePanel = null;
    this.theme = createTheme((theme) => this.themeChanged(theme));
    this.playback = new Playback({ onFrame: (frame) => this.frameChanged(frame), onState: () => this.playingChanged() });
    this.player = createPlayer(() => this.playback);
    this.agentPanel = new AgentPanel({
      onSeek: (frame) => this.playback.seek(frame),
      onDeselect: () => this.select(null),
      onFollow: () => this.setFollowing(this.following === "track" ? "av" : "track"),
      theme: () => this.theme(),
    });
    this.agentList = new AgentList(byId("agent-panel"), (track) => this.select(track));
    this.address = createAddress({ current: () => this.place(), onChange: (read) => this.addressChanged(read) });
  }

  /** Load the dataset and show what the address asks for. */
  async start() {
    showLoading("Loading the dataset");
    this.wire();
    const drawing = createBirdseye(byId("birdseye"), { theme: this.theme() });
    const [dataset, only] = await Promise.all([this.source.dataset(), this.source.onlyScene()]);
    this.showDataset(dataset);
    this.samplePanel = new SamplePanel(this.source.samples, dataset.has_map);
    const list = only === null ? this.makeList(dataset.num_scenes) : this.hideList();
    this.birdseye = await drawing;
    this.wireBirdseye();
    const map = this.loadMap(dataset.notes ?? []);
    await Promise.race([list, new Promise((resolve) => setTimeout(resolve, LIST_PATIENCE_MS))]);
    const { place, problems } = parseAddress(location.hash);
    const scene = this.firstScene(place, problems, only, dataset.num_scenes);
    if (scene === null) showEmpty("This dataset has no scenes.");
    else await this.open(scene, { place, problems });
    await Promise.all([map, list]);
  }

  /** @param {import("l5kit/source").Dataset} dataset */
  showDataset(dataset) {
    this.numScenes = dataset.num_scenes;
    this.name = dataset.name;
    const name = byId("dataset-name");
    setText(name, dataset.name);
    name.title = dataset.path ?? dataset.name;
    document.title = `${dataset.name} \u00b7 l5kit view`;
    const scenes = counted(dataset.num_scenes, "scene");
    const facts = `${scenes}, ${counted(dataset.num_frames, "frame")}, ${counted(dataset.num_agents, "agent")}`;
    setText(byId("dataset-facts"), this.source.exported ? `one of ${scenes}, exported` : facts);
    for (const note of dataset.notes ?? []) notice(note, { stays: true });
  }

  /** @param {string[]} notes of the dataset, which may say already why there is no map */
  async loadMap(notes) {
    try {
      const map = await this.source.map();
      this.birdseye.setMap(map);
      if (!map && this.numScenes && !notes.some((note) => /\bmap\b/i.test(note))) notice("This dataset has no map: lanes and crosswalks are not drawn.", { stays: true });
    } catch (error) {
      notice(`The map cannot be shown: ${message(error)}`, { stays: true });
    }
  }

  /** Show the list once it is there; without it the player works. @param {number} numScenes */
  async makeList(numScenes) {
    const section = byId("scenes");
    const drawer = createDrawer({
      layout: byId("layout"),
      button: byId("scenes-toggle"),
      veil: byId("drawer-veil"),
      section,
    });
    this.closeDrawer = drawer.closeDrawer;
    const waiting = section.appendChild(make("p", { class: "list-waiting" }, "Loading the list of scenes"));
    try {
      this.table = new SceneTable(await this.source.scenes(), numScenes);
    } catch (error) {
      waiting.replaceWith(errorBox("The scenes cannot be listed", message(error)));
      return;
    }
    waiting.remove();
    this.list = new SceneList(section, this.table, (scene) => {
      drawer.closeDrawer();
      if (scene !== this.scene) void this.open(scene, { history: true });
    });
    this.list.select(this.scene);
  }

  /** Leave out the list, as in a file with one scene. */
  async hideList() {
    byId("layout").dataset.list = "none";
    byId("scenes-toggle").hidden = true;
  }

  /**
   * The scene to start with: that of the address, else the first that can be read.
   * @param {Place} place
   * @param {string[]} problems what the address names and does not exist is added
   * @param {number | null} only the scene of an exported file
   * @param {number} numScenes
   * @returns {number | null} null where there is none
   */
  firstScene(place, problems, only, numScenes) {
    if (only !== null) {
      if (place.scene !== undefined && place.scene !== only) problems.push(`scene=${place.scene} (this file holds scene ${only} only)`);
      return only;
    }
    if (numScenes === 0) return null;
    if (place.scene !== undefined && place.scene < numScenes) return place.scene;
    if (place.scene !== undefined) problems.push(sceneProblem(place.scene, numScenes));
    const { table } = this;
    for (let scene = 0; table && scene < numScenes; scene += 1) if (table.error(scene) === null) return scene;
    return 0;
  }

  /**
   * Show another scene.
   * @param {number} scene
   * @param {{place?: Place, problems?: string[], history?: boolean}} [how] history: the step can be gone back
   */
  async open(scene, { place = {}, problems = [], history = false } = {}) {
    const turn = ++this.opening;
    this.playback.pause();
    this.model = null;
    this.scene = scene;
    this.list?.select(scene);
    this.samplePanel?.show(null, false);
    if (history) this.address.push();
    showLoading(`Loading scene ${scene}`);
    try {
      const known = this.table?.error(scene);
      if (known) throw new Error(known);
      const packed = await this.source.scene(scene);
      if (turn !== this.opening) return;
      this.setModel(new SceneModel(packed));
      problems.push(...this.apply(place, { fresh: true }));
      showPlayer();
      const doubt = this.table?.doubt(scene);
      if (doubt) notice(`Scene ${scene} is damaged: ${doubt}.`);
    } catch (error) {
      if (turn !== this.opening) return;
      this.clearScene();
      showError(`Scene ${scene} cannot be shown`, message(error));
    }
    sayIgnored(problems);
    this.address.update();
  }

  /** @param {SceneModel} model */
  setModel(model) {
    if (!model.numFrames) throw new Error("the scene has no frames");
    this.model = model;
    this.track = null;
    this.playback.setTimes(model.time_s, model.duration_s);
    this.birdseye.setScene(model.packed);
    this.birdseye.select(null);
    this.agentPanel.setScene(model);
    this.agentList.setScene(model);
    this.player.setScene();
    showLegend(model.classes());
    this.showSceneFacts(model);
    this.frameChanged(0);
  }

  /** Nothing to show in the panels, as for a damaged scene. */
  clearScene() {
    this.model = null;
    this.track = null;
    this.playback.setTimes(new Float64Array(0), 0);
    this.player.setScene();
    this.birdseye.setScene(null);
    this.agentPanel.setScene(null);
    this.agentList.setScene(null);
    this.agentList.fill();
    this.samplePanel?.show(null, false);
  }

  /** @param {SceneModel} model */
  showSceneFacts(model) {
    const { facts } = model;
    setText(byId("scene-title"), `Scene ${facts.scene_index}`);
    const parts = [facts.host, clockTime(String(facts.start_time_ns)), quantity(model.time_s[model.numFrames - 1], 1, "s"), counted(model.trackIds.length, "track")];
    setText(byId("scene-facts"), parts.filter(Boolean).join(" \u00b7 "));
    document.title = `Scene ${facts.scene_index} \u00b7 ${this.name} \u00b7 l5kit view`;
  }

  /**
   * Go to a place within the scene that is open.
   * @param {Place} place
   * @param {{fresh?: boolean}} [how] fresh: the scene has just been opened, the view is still that of another
   * @returns {string[]} what does not exist here
   */
  apply(place, { fresh = false } = {}) {
    const model = /** @type {SceneModel} */ (this.model);
    const problems = [];
    if (place.frame !== undefined && place.frame < model.numFrames) this.playback.seek(place.frame);
    else if (place.frame !== undefined) problems.push(`frame=${place.frame} (scene ${this.scene} has frames 0 to ${model.numFrames - 1})`);
    const track = place.track === undefined ? null : place.track === AV ? EGO_TRACK : model.trackOf(place.track);
    if (place.track !== undefined && track === null) problems.push(`track=${place.track} (scene ${this.scene} has no such track)`);
    this.select(track);
    if (place.follow !== undefined) this.setFollowing(place.follow);
    if (fresh && (this.following === "off" || !this.shownBefore)) this.birdseye.fit();
    this.shownBefore = true;
    this.applyView(place, problems);
    return problems;
  }

  /** @param {Place} place @param {string[]} problems */
  applyView({ follow, x, y, zoom }, problems) {
    const placed = x !== undefined && y !== undefined;
    if (!placed && (x !== undefined || y !== undefined)) problems.push("x without y, or y without x");
    if (placed && follow === undefined) this.setFollowing("off");
    const { camera } = this.birdseye;
    const moved = placed && this.following === "off" ? { x, y } : {};
    if (placed || zoom !== undefined) this.birdseye.camera = { ...camera, ...moved, scale: zoom ?? camera.scale };
  }

  /** @param {{place: Place, problems: string[]}} read */
  addressChanged({ place, problems }) {
    if (!this.birdseye || this.numScenes === undefined) return;
    const known = this.source.exported ? place.scene === this.scene : (place.scene ?? 0) < this.numScenes;
    if (place.scene !== undefined && !known) problems.push(sceneProblem(place.scene, this.numScenes));
    const scene = known ? (place.scene ?? this.scene) : this.scene;
    if (scene !== null && (scene !== this.scene || !this.model)) {
      void this.open(scene, { place, problems });
      return;
    }
    if (this.model) problems.push(...this.apply(place));
    sayIgnored(problems);
    this.address.update();
  }

  /** @returns {Place | null} what is shown */
  place() {
    if (this.scene === null) return null;
    if (!this.model) return { scene: this.scene };
    const { x, y, scale } = this.birdseye.camera;
    return {
      scene: this.scene,
      frame: this.playback.frame,
      track: this.trackName() ?? undefined,
      follow: this.following,
      ...(this.following === "off" ? { x, y } : {}),
      zoom: scale,
    };
  }

  /** @returns {string | null} id of the selected track, or "av" */
  trackName() {
    if (this.track === null || !this.model) return null;
    return this.track === EGO_TRACK ? AV : this.model.trackIds[this.track];
  }

  /** @param {number | null} track index, EGO_TRACK or null */
  select(track) {
    if (!this.model) return;
    this.track = track;
    this.birdseye.select(track);
    this.agentPanel.select(track);
    this.agentList.select(track);
    if (this.following === "track") this.setFollowing("track");
    this.showSample();
    this.address.update();
  }

  /** @param {import("l5kit/address").Following} following "track" without a selected agent is "av" */
  setFollowing(following) {
    const ofAgent = this.track !== null && this.track !== EGO_TRACK;
    this.following = following === "track" && !ofAgent ? "av" : following;
    this.birdseye.setOptions({ follow: this.following !== "off", followTrack: this.following === "track" });
    this.showFollowing();
  }

  /** Show on the buttons whom the view follows, and that it no longer does once it has been moved. */
  showFollowing() {
    if (!this.birdseye.options.follow) this.following = "off";
    setPressed(byId("follow"), this.following === "av");
    this.agentPanel.showFollowing(this.following === "track");
    this.address.update();
  }

  /** Follow the AV, or stay where the view is. */
  toggleFollow() {
    if (this.model) this.setFollowing(this.following === "av" ? "off" : "av");
  }

  /** @param {("labels" | "past" | "future" | "mask")[]} names @param {boolean} on */
  setDrawn(names, on) {
    for (const name of names) {
      this.options[name] = on;
      setPressed(byId(`option-${name}`), on);
    }
    this.birdseye?.setOptions({ ...this.options });
  }

  /** @param {number} factor above 1: nearer */
  zoom(factor) {
    if (!this.model) return;
    const { x, y, scale } = this.birdseye.camera;
    this.birdseye.camera = { x, y, scale: scale * factor };
    this.address.update();
  }

  /** Show the first view. */
  fit() {
    if (!this.model) return;
    this.birdseye.fit();
    this.address.update();
  }

  /** @param {number} by 1: next scene of the list, -1: the one before */
  openNeighbour(by) {
    const scene = this.list?.neighbour(by) ?? null;
    if (scene !== null && scene !== this.scene) void this.open(scene, { history: true });
  }

  /** @param {number} frame */
  frameChanged(frame) {
    this.birdseye.showFrame(frame);
    if (this.playback.playing) this.showPanelsSoon();
    else this.showPanels();
    this.address.update();
  }

  playingChanged() {
    this.player.showState();
    if (this.playback.playing) this.showSample();
    else if (this.model) this.showPanels();
  }

  /** Slider, time and panels of the frame, now. */
  showPanels() {
    for (const timer of Object.values(this.timers)) clearTimeout(timer);
    this.timers = { time: 0, panel: 0, list: 0 };
    this.player.showFrame();
    this.agentPanel.showFrame(this.playback.frame);
    this.agentList.showFrame(this.playback.frame);
    this.showSample();
  }

  /** Slider, time and panels of the frame that is shown a little later; drawing comes first. */
  showPanelsSoon() {
    this.soon("time", TIME_EVERY_MS, () => this.player.showFrame());
    this.soon("panel", PANEL_EVERY_MS, () => this.agentPanel.showFrame(this.playback.frame));
    this.soon("list", LIST_EVERY_MS, () => this.agentList.showFrame(this.playback.frame));
  }

  /** Do something after a while, unless it is due already. @param {"time" | "panel" | "list"} name @param {number} after_ms @param {() => void} action */
  soon(name, after_ms, action) {
    this.timers[name] ||= window.setTimeout(() => {
      this.timers[name] = 0;
      action();
    }, after_ms);
  }

  showSample() {
    const { model, track, scene } = this;
    if (!model || scene === null) return;
    const { frame, playing } = this.playback;
    const ofAgent = track !== null && track !== EGO_TRACK;
    const trackId = ofAgent ? model.trackIds[track] : null;
    const inFrame = !ofAgent || model.rowOf(track, frame) >= 0;
    this.samplePanel?.show({ scene, frame, trackId, inFrame }, playing);
  }

  /** @param {import("l5kit/theme").Theme} theme */
  themeChanged(theme) {
    this.birdseye?.setTheme(theme);
    this.agentPanel?.themeChanged();
  }

  wireBirdseye() {
    this.birdseye.setOptions({ follow: true, ...this.options });
    this.birdseye.on("pick", (/** @type {number | null} */ track) => this.select(track));
    this.birdseye.on("camera", () => this.showFollowing());
    this.birdseye.on("follow", () => this.showFollowing());
  }

  wire() {
    onPress(byId("follow"), () => this.toggleFollow());
    onPress(byId("fit"), () => this.fit());
    onPress(byId("zoom-in"), () => this.zoom(ZOOM_STEP));
    onPress(byId("zoom-out"), () => this.zoom(1 / ZOOM_STEP));
    for (const name of /** @type {const} */ (["labels", "past", "future", "mask"])) {
      onPress(byId(`option-${name}`), () => this.setDrawn([name], !this.options[name]));
    }
    onPress(byId("copy-link"), () => void copyLink(this.address.link()));
    createKeys(this.bindings());
  }

  /** @returns {import("l5kit/keys").Binding[]} */
  bindings() {
    const { playback } = this;
    const step = (/** @type {KeyboardEvent} */ event, /** @type {number} */ sign) => playback.step(sign * (event.shiftKey ? 10 : 1));
    const toggle = (/** @type {("labels" | "past" | "future" | "mask")[]} */ names) => this.setDrawn(names, !this.options[names[0]]);
    const scenes = this.source.exported
      ? []
      : [
          { keys: ["n"], shown: "N", does: "next scene of the list", run: () => this.openNeighbour(1) },
          { keys: ["p"], shown: "P", does: "previous scene of the list", run: () => this.openNeighbour(-1) },
        ];
    return [
      { keys: [" "], shown: "Space", does: "play or pause", run: () => playback.toggle() },
      { keys: ["ArrowLeft"], shown: "\u2190", does: "one frame back (with Shift: 10)", run: (event) => step(event, -1) },
      { keys: ["ArrowRight"], shown: "\u2192", does: "one frame forward (with Shift: 10)", run: (event) => step(event, 1) },
      { keys: ["Home"], shown: "Home", does: "first frame", run: () => playback.seek(0) },
      { keys: ["End"], shown: "End", does: "last frame", run: () => playback.step(Infinity) },
      { keys: ["+", "="], shown: "+", does: "zoom in", run: () => this.zoom(ZOOM_STEP) },
      { keys: ["-", "_"], shown: "-", does: "zoom out", run: () => this.zoom(1 / ZOOM_STEP) },
      { keys: ["0"], shown: "0", does: "first view", run: () => this.fit() },
      { keys: ["f"], shown: "F", does: "follow the AV, or stay", run: () => this.toggleFollow() },
      { keys: ["l"], shown: "L", does: "track ids", run: () => toggle(["labels"]) },
      { keys: ["t"], shown: "T", does: "trajectories", run: () => toggle(["past", "future"]) },
      { keys: ["m"], shown: "M", does: "agents outside the mask faint", run: () => toggle(["mask"]) },
      ...scenes,
      { keys: ["Escape"], shown: "Esc", does: "deselect", run: () => this.closeDrawer?.() || this.select(null) },
    ];
  }

  /** @returns {{scene: number | null, frame: number, track: string | null, playing: boolean, follow: boolean}} */
  state() {
    const { frame, playing } = this.playback;
    return { scene: this.scene, frame, track: this.trackName(), playing, follow: this.following !== "off" };
  }
}

/** @param {unknown} error @returns {string} */
function message(error) {
  return error instanceof Error ? error.message : String(error);
}

/** @param {number} scene @param {number} numScenes @returns {string} */
function sceneProblem(scene, numScenes) {
  return `scene=${scene} (this dataset has scenes 0 to ${numScenes - 1})`;
}

/** @param {string[]} problems */
function sayIgnored(problems) {
  if (problems.length) notice(`Left out of the address: ${problems.join("; ")}.`);
}

/** @param {string} link */
async function copyLink(link) {
  try {
    await navigator.clipboard.writeText(link);
    notice("The link is copied.");
  } catch {
    notice(`The browser does not let this page copy. The link: ${link}`);
  }
}

const viewer = new Viewer();
const ready = viewer.start().catch((error) => showError("The viewer cannot start", message(error)));
Object.assign(window, {
  l5kitViewer: {
    ready,
    get birdseye() {
      return viewer.birdseye;
    },
    player: viewer.playback,
    state: () => viewer.state(),
  },
});
