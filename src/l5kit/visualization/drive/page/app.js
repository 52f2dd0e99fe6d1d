// @ts-check
/** The page of `l5kit drive`: the loop of steps and frames, its buttons, and the file of a drive. */

import { createBirdseye } from "l5kit/birdseye";
import { byId, elementById, make, onPress, setText } from "l5kit/dom";
import { readArrays, readFolder, readMap } from "l5kit/drive/files";
import { HeldKeys } from "l5kit/drive/held_keys";
import { DriveJudge } from "l5kit/drive/judge";
import { LiveScene } from "l5kit/drive/live_scene";
import { PolicyPlanner } from "l5kit/drive/policy_planner";
import { Road } from "l5kit/drive/road";
import { ScoreBoard } from "l5kit/drive/score_board";
import { DriveSimulation } from "l5kit/drive/simulation";
import { messageOf, quantity } from "l5kit/format";
import { createKeys } from "l5kit/keys";
import { createTheme } from "l5kit/theme";

const MOST_STEPS = 3; // per animation frame; slower machines drive in slow motion
const VIEW_M = 75; // across the shorter side
const STILL_PART = 0.3; // of the view, measured from its edge: the view follows once the AV gets there
const ZOOM_STEP = 1.25;
const FORMAT = "l5kit drive";

/** @typedef {"policy" | "idm" | "none"} PlanKind driver whose plan is shown, the values of the picker */

/** A displayed drive. */
class DriveApp {
  constructor() {
    this.isRunning = false;
    /** @type {PlanKind} */
    this.planKind = "policy";
    /** @type {PlanKind} */
    this.lastPlanKind = "policy"; // shown again by G
    this.last_ms = 0;
    this.due_s = 0;
    this.times = { frames: 0, longest_ms: 0, stepped_ms: 0, planned_ms: 0, steps: 0 };
    this.movesLittle = matchMedia("(prefers-reduced-motion: reduce)");
    this.held = new HeldKeys(() => this.run());
  }

  async start() {
    const theme = createTheme((name) => this.birdseye?.setTheme(name));
    this.folder = await readFolder();
    const { name, map, road, policy, scenes } = this.folder;
    setText(byId("drive-name"), name);
    const [packedMap, packedRoad, packedPolicy] = await Promise.all([
      readMap(map),
      readArrays(road),
      policy ? readArrays(policy.file) : null,
    ]);
    this.road = new Road(packedRoad);
    this.packedPolicy = packedPolicy;
    this.birdseye = await createBirdseye(byId("birdseye"), { theme: theme() });
    this.birdseye.setMap(packedMap);
    const shown = { past: false, future: false, labels: false, mask: false, ghosts: false, plan: true };
    this.birdseye.setOptions({ ...shown, follow: !this.movesLittle.matches });
    const picker = elementById("scene-picker", HTMLSelectElement);
    for (const { scene, duration_s, agents_per_frame } of scenes) {
      const text = `Scene ${scene}: ${quantity(duration_s, 0, "s")}, ${quantity(agents_per_frame, 0)} road users`;
      picker.append(make("option", { value: scene }, text));
    }
    picker.addEventListener("change", () =>
      this.open(Number(picker.value)).catch((error) => showError("The scene cannot be opened", error)),
    );
    this.offerPlans(policy?.name);
    this.wire();
    await this.open(Number(new URLSearchParams(location.search).get("scene") ?? scenes[0].scene));
    picker.value = String(this.scene);
    requestAnimationFrame((now_ms) => this.tick(now_ms));
  }

  /** Let a person choose the displayed plan. @param {string} [name] of the policy, if there is one */
  offerPlans(name) {
    const picker = elementById("plan-picker", HTMLSelectElement);
    const option = /** @type {HTMLOptionElement} */ (picker.options.namedItem("plan-of-policy"));
    if (name) option.title = `What the network ${name} would do from here`;
    else option.remove();
    this.showPlan(name ? "policy" : "idm");
    picker.addEventListener("change", () => {
      picker.blur(); // so that keys drive
      this.showPlan(/** @type {PlanKind} */ (picker.value));
    });
  }

  /** Connect buttons, pads and keys. */
  wire() {
    for (const pad of document.querySelectorAll("[data-key]")) this.held.listenTo(/** @type {HTMLElement} */ (pad));
    onPress(byId("pause"), () => (this.isRunning ? this.pause() : this.run()));
    onPress(byId("restart"), () => this.restart());
    onPress(byId("save"), () => this.save());
    onPress(byId("zoom-in"), () => this.zoom(ZOOM_STEP));
    onPress(byId("zoom-out"), () => this.zoom(1 / ZOOM_STEP));
    onPress(byId("again"), () => this.restart());
    onPress(byId("save-end"), () => this.save());
    const nothing = () => {};
    const bindings = [
      { keys: ["ArrowUp", "w"], shown: "\u2191 or W", does: "accelerate", run: nothing },
      { keys: ["ArrowDown", "s"], shown: "\u2193 or S", does: "brake", run: nothing },
      { keys: ["ArrowLeft", "a"], shown: "\u2190 or A", does: "steer left", run: nothing },
      { keys: ["ArrowRight", "d"], shown: "\u2192 or D", does: "steer right", run: nothing },
      { keys: [" "], shown: "Space", does: "brake hard", run: nothing },
      { keys: ["p", "Escape"], shown: "P or Esc", does: "pause", run: () => this.pause() },
      { keys: ["r"], shown: "R", does: "drive the scene again", run: () => this.restart() },
      { keys: ["g"], shown: "G", does: "show or hide the plan", run: () => this.togglePlan() },
      { keys: ["+", "="], shown: "+", does: "zoom in", run: () => this.zoom(ZOOM_STEP) },
      { keys: ["-", "_"], shown: "-", does: "zoom out", run: () => this.zoom(1 / ZOOM_STEP) },
    ];
    createKeys(bindings, () => this.pause());
    document.addEventListener("visibilitychange", () => document.hidden && this.pause());
    addEventListener("blur", () => this.pause());
    this.movesLittle.addEventListener("change", () => this.birdseye?.setOptions({ follow: !this.movesLittle.matches }));
  }

  /** @param {number} scene of the folder */
  async open(scene) {
    const known = this.folder?.scenes.find((each) => each.scene === scene) ?? this.folder?.scenes[0];
    if (!known || !this.road || !this.birdseye) throw new Error("the folder has no scene");
    this.pause();
    this.scene = known.scene;
    const packed = await readArrays(known.file);
    if (this.scene !== known.scene) return; // another scene was picked in the meantime
    this.simulation = new DriveSimulation(packed);
    this.judge = new DriveJudge(this.simulation, this.road);
    this.policy = this.packedPolicy && new PolicyPlanner(this.packedPolicy, this.simulation);
    this.live = new LiveScene(this.simulation);
    this.birdseye.setScene(this.live.packed);
    this.birdseye.setDrive(this.live.drive);
    this.restart();
  }

  /** Restart the scene, paused until a driving key is pressed. */
  restart() {
    const { simulation, judge, live, birdseye } = this;
    if (!simulation || !judge || !live || !birdseye) return;
    elementById("ended", HTMLDialogElement).close();
    this.pause();
    simulation.restart();
    judge.restart();
    this.policy?.restart();
    this.due_s = 0;
    this.letSave(false);
    this.board = new ScoreBoard(simulation.facts.metrics, simulation.facts.step_s);
    this.showFrame();
    live.show(1);
    const side_px = Math.min(byId("birdseye").clientWidth, byId("birdseye").clientHeight);
    const { x, y } = simulation.vehicle;
    birdseye.camera = { x, y, scale: Math.max(side_px, 1) / VIEW_M };
    byId("start-hint").hidden = false;
    byId("drive-error").hidden = true;
  }

  run() {
    if (!this.simulation || this.simulation.isDone || this.isRunning) return;
    this.isRunning = true;
    this.last_ms = 0;
    byId("start-hint").hidden = true;
    byId("pause").setAttribute("aria-label", "Pause");
    byId("pause").dataset.state = "running";
  }

  pause() {
    this.isRunning = false;
    byId("pause").setAttribute("aria-label", "Drive");
    byId("pause").dataset.state = "paused";
  }

  /** Show the plan of another driver, or none. @param {PlanKind} kind */
  showPlan(kind) {
    this.planKind = kind;
    if (kind !== "none") this.lastPlanKind = kind;
    elementById("plan-picker", HTMLSelectElement).value = kind;
    this.birdseye?.setOptions({ plan: kind !== "none", ghosts: kind !== "none" });
    if (!this.live) return;
    this.live.plan = this.planNow();
    this.birdseye?.redraw();
  }

  togglePlan() {
    this.showPlan(this.planKind === "none" ? this.lastPlanKind : "none");
  }

  /** @returns {[number, number, number][]} planned poses from here */
  planNow() {
    const begin_ms = performance.now();
    const { policy, simulation } = this;
    /** @type {[number, number, number][]} */
    let plan = [];
    if (this.planKind === "policy" && policy) plan = policy.plan();
    if (this.planKind === "idm" && simulation) plan = simulation.plan();
    this.times.planned_ms += performance.now() - begin_ms;
    return plan;
  }

  /** @param {number} factor */
  zoom(factor) {
    if (!this.birdseye) return;
    const { x, y, scale } = this.birdseye.camera;
    this.birdseye.camera = { x, y, scale: scale * factor };
  }

  /** @param {number} now_ms time of this animation frame */
  tick(now_ms) {
    requestAnimationFrame((next_ms) => this.tick(next_ms));
    const { simulation, live, birdseye } = this;
    if (!this.isRunning || !simulation || !live || !birdseye) return;
    const passed_ms = this.last_ms ? now_ms - this.last_ms : 0;
    this.last_ms = now_ms;
    this.times.frames += 1;
    this.times.longest_ms = Math.max(this.times.longest_ms, passed_ms);
    const { step_s } = simulation.facts;
    this.due_s = Math.min(this.due_s + passed_ms / 1000, MOST_STEPS * step_s);
    for (; this.due_s >= step_s && !simulation.isDone; this.due_s -= step_s) this.step(this.held.keys);
    live.show(simulation.isDone ? 1 : this.due_s / step_s);
    if (this.movesLittle.matches) this.keepInView();
    birdseye.redraw();
    if (simulation.isDone) this.end();
  }

  /** @param {number} keys sum of held KEYS */
  step(keys) {
    const begin_ms = performance.now();
    this.simulation?.step(keys);
    this.judge?.look();
    this.showFrame();
    this.times.steps += 1;
    this.times.stepped_ms += performance.now() - begin_ms;
  }

  /** Show the judgement of the newest frame, and its plan. */
  showFrame() {
    const { simulation, judge, live } = this;
    if (!simulation || !judge || !live) return;
    live.plan = this.planNow();
    this.board?.show(judge);
    const left_s = (simulation.numFrames - 1 - simulation.frame) * simulation.facts.step_s;
    setText(byId("time-left"), `${quantity(left_s, 1, "s")} left`);
    const bar = byId("time-bar");
    bar.style.setProperty("--part", String(simulation.frame / (simulation.numFrames - 1)));
  }

  /** Move the view only if the AV comes near its edge. */
  keepInView() {
    const { birdseye, live } = this;
    if (!birdseye || !live) return;
    const { ego_xy } = live.packed.arrays;
    const [x, y] = [ego_xy[0] + live.origin[0], ego_xy[1] + live.origin[1]];
    const point = birdseye.worldToPage(x, y);
    const { width, height } = birdseye.view;
    const isOut = (/** @type {number} */ at, /** @type {number} */ size) =>
      Math.abs(at / size - 0.5) > 0.5 - STILL_PART;
    if (isOut(point.x, width) || isOut(point.y, height)) birdseye.camera = { ...birdseye.camera, x, y };
  }

  /** The scene has ended. */
  end() {
    this.pause();
    const report = this.judge?.report();
    setText(byId("end-score"), quantity(report?.score, 2));
    this.letSave(true);
    elementById("ended", HTMLDialogElement).showModal();
  }

  /** @returns {object | null} the drive in the format of `l5kit drive --score` */
  driveFile() {
    const { simulation, judge, folder } = this;
    if (!simulation || !judge || !folder) return null;
    const { score, metrics } = judge.report();
    const known = (/** @type {number} */ value) => (Number.isFinite(value) ? value : null);
    return {
      format: FORMAT,
      version: 1,
      city: folder.name,
      log: folder.log,
      digest: folder.digest,
      scene: this.scene,
      keys: simulation.keys,
      states: simulation.frames.map(({ vehicle: { x, y, yaw, speed } }) => [x, y, yaw, speed]),
      score: known(score),
      metrics: Object.fromEntries(Object.entries(metrics).map(([name, value]) => [name, known(value)])),
    };
  }

  /** @param {boolean} isWhole whether the scene has ended, so that the simulation would score the same frames */
  letSave(isWhole) {
    elementById("save", HTMLButtonElement).disabled = !isWhole;
  }

  /** Save the drive as a file. */
  save() {
    const content = new Blob([JSON.stringify(this.driveFile())], { type: "application/json" });
    const link = make("a", { href: URL.createObjectURL(content), download: `drive-${this.scene}.json` });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  /** Replay recorded keys from the start of the scene, at once. @param {number[]} keys */
  replay(keys) {
    this.restart();
    for (const held of keys) this.step(held);
    this.live?.show(1);
    this.birdseye?.redraw();
  }
}

/** @param {string} what operation that failed @param {unknown} error */
function showError(what, error) {
  byId("start-hint").hidden = true;
  byId("drive-error").hidden = false;
  setText(byId("drive-error"), `${what}: ${messageOf(error)}`);
}

const app = new DriveApp();
const ready = app.start().catch((error) => showError("The page cannot start", error));
Object.assign(window, { l5kitDrive: { ready, app } });
