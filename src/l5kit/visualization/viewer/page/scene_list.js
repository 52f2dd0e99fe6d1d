// @ts-check
/** The list of scenes; only the visible rows are elements, so that its length does not matter. */

import { make, setText } from "l5kit/dom";
import { count, counted } from "l5kit/format";
import { createSceneFilter } from "l5kit/scene_filter";
import { emptyFilter } from "l5kit/scene_table";
import { tagChip } from "l5kit/tag_chips";

/** @typedef {import("l5kit/scene_table").SceneTable} SceneTable */

const ROW_PX = 28; // as --row in page.css
const TAGGED_ROW_PX = 50; // as .tagged .list-row in page.css
const SPARE_ROWS = 6; // above and below the view

/** The scene list in its section of the page. */
export class SceneList {
  /**
   * @param {HTMLElement} section
   * @param {SceneTable} table
   * @param {(scene: number) => void} onOpen
   * @param {(scene: number, tag: import("l5kit/scene_tags").Tag) => void} onTag
   */
  constructor(section, table, onOpen, onTag) {
    this.table = table;
    this.onOpen = onOpen;
    this.onTag = onTag;
    this.rowPx = ROW_PX;
    this.order = table.order;
    this.filter = emptyFilter();
    this.listed = table.listed(this.filter, this.order);
    /** @type {number | null} */
    this.selected = null;
    this.active = 0; // position in `listed`, moved by the arrow keys
    this.pending = 0;
    this.countLine = make("p", { class: "list-count", role: "status", "data-testid": "scene-count" });
    this.heads = table.fields.map((field) => this.head(field));
    this.headRow = make("div", { class: "list-heads", role: "row" }, ...this.heads);
    this.sizer = make("div", { class: "list-sizer", role: "rowgroup" });
    this.view = make(
      "div",
      {
        class: "list-view",
        tabindex: "0",
        "data-testid": "scene-rows",
        "aria-label": "Scenes: arrows move, Enter opens",
        role: "presentation",
      },
      this.sizer,
    );
    this.none = make("p", { class: "list-none" }, "No scene passes the filter.");
    this.grid = make(
      "div",
      { class: "list-grid", role: "grid", "aria-label": "Scenes", "aria-colcount": table.fields.length },
      this.headRow,
      this.view,
    );
    this.filters = createSceneFilter(table, (value) => {
      this.filter = value;
      this.refresh();
    });
    section.append(this.filters.form, this.countLine, this.grid, this.none);
    this.view.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.view.addEventListener("keydown", (event) => this.onKey(event));
    this.view.addEventListener("focus", () => this.render());
    this.sizer.addEventListener("click", (event) => this.onClick(event));
    new ResizeObserver(() => this.resized()).observe(this.view);
    this.refresh();
  }

  /** @param {import("l5kit/scene_table").Field} field @returns {HTMLElement} */
  head(field) {
    const button = make(
      "button",
      {
        type: "button",
        class: "list-sort",
        title: `${field.title}: press to sort`,
        "data-testid": `sort-${field.key}`,
      },
      make("span", {}, field.head),
      make("small", {}, field.unit),
    );
    button.addEventListener("click", () => this.sortBy(field.key));
    const head = make("div", {
      role: "columnheader",
      class: `cell cell-${field.key}`,
      "aria-sort": "none",
      "aria-label": field.title,
      "data-key": field.key,
    });
    head.append(button);
    return head;
  }

  /** @param {string} key the current column again to reverse the order */
  sortBy(key) {
    this.order = { key, descending: this.order.key === key ? !this.order.descending : false };
    this.refresh();
  }

  /** Show the tags known so far, keeping the scroll position. */
  showTags() {
    const { tags } = this.table;
    this.filters.showTags();
    const isNarrowed = this.filter.tags.size > 0 || this.filter.text.trim() !== "";
    if (isNarrowed) this.listed = this.table.listed(this.filter, this.order);
    const first = this.view.scrollTop / this.rowPx;
    if (tags.events.size) {
      this.rowPx = TAGGED_ROW_PX;
      this.grid.classList.add("tagged");
    }
    this.fit();
    this.view.scrollTop = first * this.rowPx;
    for (const row of this.sizer.children) delete (/** @type {HTMLElement} */ (row).dataset.scene);
    this.tellCount();
    this.render();
  }

  /** Show the number of listed scenes, and the progress of the search for tags. */
  tellCount() {
    const { numScenes, tags } = this.table;
    const all = counted(numScenes, "scene");
    const listed = this.listed.length === numScenes ? all : `${count(this.listed.length)} of ${all}`;
    const isSearching = tags.kinds.length > 0 && tags.done < numScenes;
    const searched = isSearching ? ` \u00b7 tags of ${count(tags.done)} found` : "";
    setText(this.countLine, listed + (tags.error ? ` \u00b7 tags end: ${tags.error}` : searched));
  }

  /** Set the height for the listed scenes. */
  fit() {
    const { length } = this.listed;
    this.sizer.style.height = `${length * this.rowPx}px`;
    this.none.hidden = length > 0 || this.table.numScenes === 0;
    this.grid.setAttribute("aria-rowcount", String(length + 1));
  }

  /** Filter and sort again, and scroll to the top. */
  refresh() {
    this.listed = this.table.listed(this.filter, this.order);
    const { key, descending } = this.order;
    for (const head of this.heads) {
      head.setAttribute("aria-sort", head.dataset.key !== key ? "none" : descending ? "descending" : "ascending");
    }
    this.tellCount();
    this.fit();
    this.active = 0;
    this.reveal();
    this.render();
  }

  /** @param {number | null} scene the open scene, to be marked and scrolled to */
  select(scene) {
    this.selected = scene;
    const at = scene === null ? -1 : this.listed.indexOf(scene);
    if (at >= 0) {
      this.active = at;
      this.reveal();
    }
    this.render();
  }

  /**
   * Return the scene listed before or after the open one.
   * @param {number} by 1 or -1
   * @returns {number | null} null at the ends
   */
  neighbour(by) {
    const at = this.selected === null ? -1 : this.listed.indexOf(this.selected);
    if (at < 0) return this.listed.length ? this.listed[0] : null;
    return this.listed[at + by] ?? null;
  }

  /** Align the heads with their columns, whatever the width of the scroll bar. */
  resized() {
    this.headRow.style.paddingRight = `${this.view.offsetWidth - this.view.clientWidth}px`;
    this.schedule();
  }

  schedule() {
    this.pending ||= requestAnimationFrame(() => {
      this.pending = 0;
      this.render();
    });
  }

  /** Scroll just enough to show the active row. */
  reveal() {
    const top = this.active * this.rowPx;
    const { scrollTop, clientHeight } = this.view;
    if (top < scrollTop) this.view.scrollTop = top;
    else if (top + this.rowPx > scrollTop + clientHeight) this.view.scrollTop = top + this.rowPx - clientHeight;
  }

  /** Fill the visible rows. A row element shows every n-th scene, so that scrolling writes only the new rows. */
  render() {
    const room = Math.ceil(this.view.clientHeight / this.rowPx) + 2 * SPARE_ROWS;
    const number = Math.min(room, this.listed.length);
    const highest = Math.max(this.listed.length - number, 0);
    const first = Math.min(Math.max(Math.floor(this.view.scrollTop / this.rowPx) - SPARE_ROWS, 0), highest);
    while (this.sizer.children.length > number) this.sizer.lastElementChild?.remove();
    while (this.sizer.children.length < number) this.sizer.append(emptyRow(this.table.fields));
    for (let at = first; at < first + number; at += 1) {
      this.fillRow(/** @type {HTMLElement} */ (this.sizer.children[at % number]), at);
    }
    const active = this.sizer.querySelector(".active");
    if (active) this.view.setAttribute("aria-activedescendant", active.id);
    else this.view.removeAttribute("aria-activedescendant");
  }

  /** @param {HTMLElement} row @param {number} at position in `listed` */
  fillRow(row, at) {
    const scene = this.listed[at];
    const error = this.table.error(scene);
    row.style.top = `${at * this.rowPx}px`;
    row.classList.toggle("active", at === this.active);
    row.setAttribute("aria-selected", String(scene === this.selected));
    row.setAttribute("aria-rowindex", String(at + 2));
    if (row.dataset.scene === String(scene)) return;
    row.id = `scene-row-${scene}`;
    row.dataset.scene = String(scene);
    row.title = this.table.summary(scene);
    row.classList.toggle("damaged", error !== null);
    row.classList.toggle("doubtful", this.table.doubt(scene) !== null);
    this.table.fields.forEach((field, column) => {
      const text =
        error === null ? this.table.cell(scene, field) : column === 0 ? String(scene) : column === 1 ? error : "";
      setText(row.children[column], text);
    });
    const chips = this.table.tags.of(scene).map((tag) => tagChip(tag, () => this.onTag(scene, tag)));
    row.children[this.table.fields.length].replaceChildren(...chips);
  }

  /** @param {MouseEvent} event */
  onClick(event) {
    const row = /** @type {HTMLElement} */ (event.target).closest("[data-scene]");
    if (row instanceof HTMLElement) this.onOpen(Number(row.dataset.scene));
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(Math.floor(this.view.clientHeight / this.rowPx) - 1, 1);
    const last = this.listed.length - 1;
    /** @type {Record<string, number>} */
    const targets = {
      ArrowDown: this.active + 1,
      ArrowUp: this.active - 1,
      PageDown: this.active + page,
      PageUp: this.active - page,
      Home: 0,
      End: last,
    };
    if (event.key === "Enter" && last >= 0) this.onOpen(this.listed[this.active]);
    else if (event.key in targets) this.active = Math.max(Math.min(targets[event.key], last), 0);
    else return;
    event.preventDefault();
    this.reveal();
    this.render();
  }
}

/** @param {import("l5kit/scene_table").Field[]} fields @returns {HTMLElement} */
function emptyRow(fields) {
  const cells = fields.map((field) => make("span", { role: "gridcell", class: `cell cell-${field.key}` }));
  const tags = make("span", { role: "gridcell", class: "row-tags" });
  return make("div", { class: "list-row", role: "row", "data-testid": "scene-row" }, ...cells, tags);
}
