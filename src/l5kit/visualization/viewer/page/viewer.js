// @ts-check
/** The open scene with its frame and track: connects source, list, clock, view, panels and address. */

import { AV, createAddress, parseAddress } from "l5kit/address";
import { AerialView } from "l5kit/aerial_view";
import { createBirdseye } from "l5kit/birdseye";
import { byId, onPress } from "l5kit/dom";
import { messageOf } from "l5kit/format";
import { FramePanels } from "l5kit/frame_panels";
import { showDataset, showScene } from "l5kit/headings";
import { keyBindings } from "l5kit/key_bindings";
import { createKeys } from "l5kit/keys";
import { LaneView } from "l5kit/lane_view";
import { showLegend } from "l5kit/legend";
import { notice } from "l5kit/notices";
import { firstScene, placeInScene, sceneProblems } from "l5kit/places";
import { Playback } from "l5kit/playback";
import { RulerView } from "l5kit/ruler_view";
import { SceneModel } from "l5kit/scene_model";
import { followTags, nextStart, SceneTags } from "l5kit/scene_tags";
import { Scenes } from "l5kit/scenes";
import { copyLink } from "l5kit/share_link";
import { openSource } from "l5kit/source";
import { Stage } from "l5kit/stage";
import { showTags } from "l5kit/tag_chips";
import { createTheme } from "l5kit/theme";
import { EGO_TRACK } from "l5kit/tracks";
import { joinTwin } from "l5kit/twin";
import { ViewControl } from "l5kit/view_control";

/** @typedef {import("l5kit/address").Place} Place */
/** @typedef {import("l5kit/source").Dataset} Dataset */

const LIST_PATIENCE_MS = 400; // the list knows the damaged scenes; a slow list is not waited for

/** The state of the page. */
export class Viewer {
  constructor() {
    this.source = openSource();
    /** @type {{dataset: Dataset, only: number | null, numScenes: number} | null} */
    this.opened = null;
    /** @type {number | null} */
    this.scene = null;
    /** @type {SceneModel | null} */
    this.model = null;
    /** @type {number | null} */
    this.track = null;
    /** @type {AerialView | null} */
    this.aerial = null; // null if the dataset has none
    /** @type {LaneView | null} */
    this.lanes = null;
    /** @type {RulerView | null} */
    this.ruler = null;
    this.opening = 0; // number of requested scenes; answers to older requests are dropped
    this.stage = new Stage();
    this.theme = createTheme((theme) => this.themeChanged(theme));
    this.playback = new Playback({ onFrame: () => this.frameChanged(), onState: () => this.stateChanged() });
    this.view = new ViewControl({
      isOpen: () => this.model !== null,
      onFollowing: (ofTrack) => this.panels.showFollowing(ofTrack),
      onChange: () => this.viewChanged(),
      onPick: (track, point) => this.pick(track, point),
    });
    this.panels = new FramePanels(this.playback, {
      onSelect: (track) => this.select(track),
      onFollow: () => this.view.toggleFollowTrack(),
      onDrive: (drive) => this.view.birdseye?.setDrive(drive),
      onPredictions: (predictions) => this.view.birdseye?.setPredictions(predictions),
      theme: this.theme,
    });
    this.scenes = new Scenes(
      (scene) => this.openOther(scene),
      (scene, tag) => this.goToTag(scene, tag),
    );
    this.tags = new SceneTags();
    this.address = createAddress({ current: () => this.place(), onChange: (read) => this.addressChanged(read) });
    this.twin = joinTwin(this);
    byId("layout").dataset.beside = String(this.twin !== null);
  }

  /** Load the dataset and show what the address requests. */
  async start() {
    this.stage.showLoading("Loading the dataset");
    this.wire();
    const drawing = createBirdseye(byId("birdseye"), { theme: this.theme() });
    const [dataset, only] = await Promise.all([this.source.dataset(), this.source.onlyScene()]);
    this.opened = { dataset, only, numScenes: dataset.num_scenes };
    showDataset(dataset, this.source.exported);
    for (const note of dataset.notes ?? []) notice(note, { stays: true });
    this.panels.setSamples(this.source.samples, dataset.has_map);
    byId("layout").dataset.driven = String(Boolean(dataset.run));
    for (const name of ["ghosts", "plan"]) byId(`option-${name}`).hidden = !dataset.run;
    byId("option-predictions").hidden = !dataset.predictions;
    this.wireKeys(dataset);
    const list = only === null ? this.scenes.load(this.source, dataset.num_scenes) : this.scenes.hide();
    const birdseye = await drawing;
    this.view.attach(birdseye);
    this.ruler = new RulerView(birdseye, byId("ruler"));
    if (dataset.has_aerial) {
      const button = byId("option-aerial");
      button.hidden = false;
      const [load, onChange] = [this.source.aerial, () => this.address.update()];
      this.aerial = new AerialView(birdseye, { button, load, onChange });
    }
    this.lanes = new LaneView(birdseye, {
      load: () => this.source.lanes(),
      onChange: () => this.address.update(),
      onLook: (x, y) => this.view.lookAt(x, y),
      onProblem: (problem) => sayIgnored([problem]),
    });
    const map = this.loadMap(birdseye, dataset);
    const patience = new Promise((resolve) => setTimeout(resolve, LIST_PATIENCE_MS));
    await (dataset.run ? list : Promise.race([list, patience])); // the list knows the worst drive
    await this.openFirst(this.opened);
    await Promise.all([map, list]);
    void this.loadTags(dataset.num_scenes);
  }

  /** Show the tags of the scenes as they are found. @param {number} numScenes */
  async loadTags(numScenes) {
    const wait = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(() => resolve(undefined), ms));
    const onMore = (/** @type {SceneTags} */ tags) => {
      this.tags = tags;
      this.scenes.setTags(tags);
      this.showTags();
    };
    try {
      await followTags((first) => this.source.tags(first), numScenes, onMore, wait);
    } catch (error) {
      notice(`The tags of the scenes cannot be shown: ${messageOf(error)}`);
    }
  }

  /** Show the tags of the open scene. */
  showTags() {
    const { scene } = this;
    showTags(byId("scene-tags"), scene === null ? [] : this.tags.of(scene), (tag) => {
      if (scene !== null) this.goToTag(scene, tag);
    });
  }

  /** @param {number} scene @param {import("l5kit/scene_tags").Tag} tag tag whose next event to go to */
  goToTag(scene, { events }) {
    const frame = nextStart(events, scene === this.scene && this.model ? this.playback.frame : -1);
    if (scene !== this.scene) void this.open(scene, { place: { frame }, history: true });
    else if (this.model) {
      this.playback.pause();
      this.playback.seek(frame);
    }
  }

  /** Connect the buttons. */
  wire() {
    this.view.wire();
    onPress(byId("copy-link"), () => void copyLink(this.address.link()));
  }

  /** @param {Dataset} dataset */
  wireKeys({ run, has_aerial, predictions }) {
    const playFailure = run ? (/** @type {number} */ by) => this.panels.drive.playNext(by) : null;
    const openNeighbour = this.source.exported ? null : (/** @type {number} */ by) => this.scenes.openNeighbour(by);
    const leave = () => this.scenes.closeDrawer() || this.ruler?.stop() || this.lanes?.leave() || this.select(null);
    const measure = () => this.ruler?.toggle();
    const toggleAerial = has_aerial ? () => this.aerial?.toggle() : null;
    const { playback, view } = this;
    const isPredicted = Boolean(predictions);
    createKeys(keyBindings({ playback, view, playFailure, openNeighbour, isPredicted, measure, toggleAerial, leave }));
  }

  /** @param {import("l5kit/birdseye").Birdseye} birdseye @param {Dataset} dataset */
  async loadMap(birdseye, { num_scenes, notes }) {
    const isTold = (notes ?? []).some((note) => /\bmap\b/i.test(note)); // why there is no map
    try {
      const map = await this.source.map();
      birdseye.setMap(map);
      if (!map && num_scenes && !isTold) {
        notice("This dataset has no map: lanes and crosswalks are not drawn.", { stays: true });
      }
    } catch (error) {
      notice(`The map cannot be shown: ${messageOf(error)}`, { stays: true });
    }
    this.lanes?.setMap();
  }

  /** @param {import("l5kit/places").Holdings} holdings */
  async openFirst(holdings) {
    const { place, problems } = parseAddress(location.hash);
    const first = firstScene(place, holdings, (scene) => this.scenes.error(scene) === null, this.scenes.listed());
    if (first.scene === null) this.stage.showEmpty("This dataset has no scenes.");
    else await this.open(first.scene, { place, problems: [...problems, ...first.problems] });
  }

  /** @param {number} scene opened as a step of the history, unless it is open already */
  openOther(scene) {
    if (scene !== this.scene) void this.open(scene, { history: true });
  }

  /**
   * Show another scene.
   * @param {number} scene
   * @param {{place?: Place, problems?: string[], history?: boolean}} [how] history: whether to add a step to the history
   */
  async open(scene, { place = {}, problems = [], history = false } = {}) {
    const turn = ++this.opening;
    this.playback.pause();
    this.model = null;
    this.scene = scene;
    this.scenes.select(scene);
    this.panels.leaveScene();
    if (history) this.address.push();
    this.stage.showLoading(`Loading scene ${scene}`);
    const told = [...problems];
    try {
      const known = this.scenes.error(scene);
      if (known) throw new Error(known);
      const [packed, drive, predictions] = await Promise.all([
        this.source.scene(scene),
        this.loadDrive(scene),
        this.loadPredictions(scene),
      ]);
      if (turn !== this.opening) return;
      const model = new SceneModel(packed);
      this.setModel(model);
      this.panels.setDrive(drive);
      this.panels.setPredictions(predictions);
      showLegend(model.classes(), drive, this.panels.predictions.legend());
      const firstPredicted = this.panels.predictions.firstFrame();
      if (place.frame === undefined && firstPredicted !== null) this.playback.seek(firstPredicted);
      told.push(...this.goTo(place, model, { fresh: true }));
      this.stage.showPlayer();
      const doubt = this.scenes.doubt(scene);
      if (doubt) notice(`Scene ${scene} is damaged: ${doubt}.`);
    } catch (error) {
      if (turn !== this.opening) return;
      this.clearScene();
      this.stage.showError(`Scene ${scene} cannot be shown`, messageOf(error));
    }
    sayIgnored(told);
    this.viewChanged();
    this.twin?.opened();
  }

  /** @param {number} scene @returns {Promise<import("l5kit/unpack").PackedDrive | null>} null for none */
  async loadDrive(scene) {
    try {
      return await this.source.drive(scene);
    } catch (error) {
      notice(`Scene ${scene} is shown without its log and scores: ${messageOf(error)}`);
      return null;
    }
  }

  /** @param {number} scene @returns {Promise<import("l5kit/unpack").PackedPredictions | null>} */
  async loadPredictions(scene) {
    try {
      return await this.source.predictions(scene);
    } catch (error) {
      notice(`Scene ${scene} is shown without predictions: ${messageOf(error)}`);
      return null;
    }
  }

  /** @param {SceneModel} model */
  setModel(model) {
    if (!model.numFrames) throw new Error("the scene has no frames");
    this.model = model;
    this.track = null;
    this.playback.setTimes(model.time_s, model.duration_s);
    this.lanes?.leave();
    this.view.setScene(model.packed);
    this.aerial?.setScene(model.facts.scene_index);
    this.panels.setScene(model);
    showScene(model, this.opened?.dataset.name ?? "");
    this.showTags();
    this.frameChanged();
  }

  /** Clear the panels, as for a damaged scene. */
  clearScene() {
    this.model = null;
    this.track = null;
    this.playback.setTimes(new Float64Array(0), 0);
    this.view.setScene(null);
    this.aerial?.setScene(null);
    this.panels.clear();
  }

  /**
   * Go to a place in the open scene.
   * @param {Place} place
   * @param {SceneModel} model of this scene
   * @param {{fresh?: boolean}} [how] fresh: whether the scene has just been opened, with the view of another one
   * @returns {string[]} problems
   */
  goTo(place, model, { fresh = false } = {}) {
    const { frame, track, problems } = placeInScene(place, model);
    if (frame !== undefined) this.playback.seek(frame);
    this.select(track);
    const told = [...problems, ...this.view.apply(place, fresh)];
    if (place.lane === undefined) this.lanes?.leave();
    else void this.lanes?.open(place.lane, { look: place.x === undefined && place.follow === undefined });
    if (place.aerial !== undefined && this.aerial) this.aerial.set(place.aerial);
    else if (place.aerial) told.push("aerial=1 (there is no aerial picture here)");
    return told;
  }

  /** @param {{place: Place, problems: string[]}} read */
  addressChanged({ place, problems }) {
    if (!this.opened || !this.view.birdseye) return;
    const missing = sceneProblems(place, this.opened);
    const told = [...problems, ...missing];
    const scene = missing.length ? this.scene : (place.scene ?? this.scene);
    if (scene !== null && (scene !== this.scene || !this.model)) {
      void this.open(scene, { place, problems: told });
      return;
    }
    if (this.model) told.push(...this.goTo(place, this.model));
    sayIgnored(told);
    this.address.update();
  }

  /** @returns {Place | null} the displayed place */
  place() {
    if (this.scene === null) return null;
    if (!this.model) return { scene: this.scene };
    const track = this.trackName() ?? undefined;
    const lane = this.lanes?.id ?? undefined;
    const aerial = this.aerial?.on;
    return { scene: this.scene, frame: this.playback.frame, track, lane, aerial, ...this.view.place() };
  }

  /** @returns {string | null} id of the selected track, or "av" */
  trackName() {
    if (this.track === null || !this.model) return null;
    return this.track === EGO_TRACK ? AV : this.model.trackIds[this.track];
  }

  /**
   * Handle a click in the view: on an agent or the AV, else on a lane, else on nothing.
   * @param {number | null} track index, EGO_TRACK or null
   * @param {{x: number, y: number}} point CSS pixels
   */
  pick(track, point) {
    if (!this.model) return;
    this.select(track);
    if (track === null) this.lanes?.pick(point);
    else this.lanes?.leave();
  }

  /** @param {number | null} track index, EGO_TRACK or null */
  select(track) {
    if (!this.model) return;
    this.track = track;
    byId("layout").dataset.picked = String(track !== null);
    this.view.select(track);
    this.panels.select(track);
    this.address.update();
  }

  frameChanged() {
    this.view.birdseye?.showFrame(this.playback.frame);
    this.lanes?.showFrame();
    this.panels.showFrame();
    this.viewChanged();
  }

  stateChanged() {
    this.panels.showState();
    this.twin?.tell();
  }

  viewChanged() {
    this.address.update();
    this.twin?.tell();
  }

  /** @param {number | string} scene of the log, shown by the page next to it */
  sayMissing(scene) {
    notice(`Scene ${scene}, which is shown beside, is not in this dataset.`);
  }

  /** @param {import("l5kit/theme").Theme} theme */
  themeChanged(theme) {
    this.view.birdseye?.setTheme(theme);
    this.lanes?.show();
    this.panels.themeChanged();
  }

  /** @returns {{scene: number | null, frame: number, track: string | null, lane: string | null, playing: boolean, follow: boolean}} */
  state() {
    const { frame, playing } = this.playback;
    const lane = this.lanes?.id ?? null;
    return { scene: this.scene, frame, track: this.trackName(), lane, playing, follow: this.view.following !== "off" };
  }
}

/** @param {string[]} problems of an address */
function sayIgnored(problems) {
  if (problems.length) notice(`Left out of the address: ${problems.join("; ")}.`);
}
