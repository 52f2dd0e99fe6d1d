// @ts-check
/** The scenes of the dataset beside the player: their table and their list, once these are there. */

import { byId, errorBox, make } from "l5kit/dom";
import { createDrawer } from "l5kit/drawer";
import { messageOf } from "l5kit/format";
import { SceneList } from "l5kit/scene_list";
import { SceneTable } from "l5kit/scene_table";

/** Table and list; without them the player works. */
export class Scenes {
  /**
   * @param {(scene: number) => void} onOpen a scene of the list was chosen
   * @param {(scene: number, tag: import("l5kit/scene_tags").Tag) => void} onTag a tag of it was
   */
  constructor(onOpen, onTag) {
    this.onOpen = onOpen;
    this.onTag = onTag;
    /** @type {SceneTable | null} */
    this.table = null;
    /** @type {SceneList | null} */
    this.list = null;
    /** @type {number | null} */
    this.selected = null;
    this.closeDrawer = () => false; // true where one was open
  }

  /** Show the list once it is there. @param {import("l5kit/source").Source} source @param {number} numScenes */
  async load(source, numScenes) {
    const section = byId("scenes");
    const { closeDrawer } = createDrawer({
      layout: byId("layout"),
      button: byId("scenes-toggle"),
      veil: byId("drawer-veil"),
      section,
    });
    this.closeDrawer = closeDrawer;
    const waiting = section.appendChild(make("p", { class: "list-waiting" }, "Loading the list of scenes"));
    try {
      this.table = new SceneTable(await source.scenes(), numScenes);
    } catch (error) {
      waiting.replaceWith(errorBox("The scenes cannot be listed", messageOf(error)));
      return;
    }
    waiting.remove();
    const open = (/** @type {number} */ scene) => {
      closeDrawer();
      this.onOpen(scene);
    };
    this.list = new SceneList(section, this.table, open, (scene, tag) => {
      closeDrawer();
      this.onTag(scene, tag);
    });
    this.list.select(this.selected);
  }

  /** @param {import("l5kit/scene_tags").SceneTags} tags those that are known by now */
  setTags(tags) {
    if (!this.table) return;
    this.table.tags = tags;
    this.list?.showTags();
  }

  /** @returns {number[] | null} the scenes in the order of the list; null before it is there */
  listed() {
    return this.list && [...this.list.listed];
  }

  /** Leave out the list, as in a file with one scene. */
  hide() {
    byId("layout").dataset.list = "none";
    byId("scenes-toggle").hidden = true;
  }

  /** @param {number} scene that is open now */
  select(scene) {
    this.selected = scene;
    this.list?.select(scene);
  }

  /** @param {number} by 1: open the next scene of the list, -1: the one before */
  openNeighbour(by) {
    const scene = this.list?.neighbour(by) ?? null;
    if (scene !== null) this.onOpen(scene);
  }

  /**
   * @param {number} scene
   * @returns {string | null} why it cannot be read; null where it can, or nothing is known yet
   */
  error(scene) {
    return this.table?.error(scene) ?? null;
  }

  /** @param {number} scene @returns {string | null} what is wrong with a scene that can be read nevertheless */
  doubt(scene) {
    return this.table?.doubt(scene) ?? null;
  }
}
