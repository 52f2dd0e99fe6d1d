import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { Camera, Gestures } from "l5kit/camera";
import { isClose } from "./scenes.js";

/** A view of 200 x 100 pixels, 2 pixels a metre, around (10, 20). */
function camera() {
  return Object.assign(new Camera(), { x: 10, y: 20, scale: 2, width: 200, height: 100 });
}

describe("a camera", () => {
  test("shows its place in the middle, east on the right, north at the top", () => {
    assert.deepEqual(camera().toPage(10, 20), { x: 100, y: 50 });
    assert.deepEqual(camera().toPage(15, 30), { x: 110, y: 30 });
  });
  test("finds the world below a pixel", () => {
    assert.deepEqual(camera().toWorld(110, 30), { x: 15, y: 30 });
  });
  test("moves what is drawn with the pointer", () => {
    const view = camera();
    const before = view.toPage(3, 4);
    view.pan(7, -5);
    assert.deepEqual(view.toPage(3, 4), { x: before.x + 7, y: before.y - 5 });
  });
  test("zooms around a point that stays", () => {
    const view = camera();
    const held = view.toWorld(30, 80);
    view.zoom(1.5, { x: 30, y: 80 });
    assert.equal(view.scale, 3);
    const { x, y } = view.toWorld(30, 80);
    assert.ok(isClose([x, y], [held.x, held.y]));
  });
  test("has a nearest and a farthest view", () => {
    const view = camera();
    view.set({ scale: 401 });
    assert.equal(view.scale, 400);
    view.set({ scale: 0.019 });
    assert.equal(view.scale, 0.02);
  });
  test("stays where a place is not finite", () => {
    const view = camera();
    view.set({ x: Number.NaN, y: Infinity, scale: 0 });
    view.set({ scale: Number.NaN });
    assert.deepEqual([view.x, view.y, view.scale], [10, 20, 2]);
  });
});

describe("gestures", () => {
  let element;
  let done;
  let gestures;

  beforeEach(() => {
    globalThis.WheelEvent = { DOM_DELTA_LINE: 1, DOM_DELTA_PAGE: 2 };
    done = [];
    element = Object.assign(new EventTarget(), {
      clientLeft: 1,
      clientTop: 2,
      clientHeight: 500,
      getBoundingClientRect: () => ({ left: 10, top: 20 }),
    });
    gestures = new Gestures(element, {
      onPan: (dx, dy) => done.push(["pan", dx, dy]),
      onZoom: (factor, point) => done.push(["zoom", factor, point.x, point.y]),
      onClick: (point) => done.push(["click", point.x, point.y]),
      onHover: (point) => done.push(["hover", point?.x, point?.y]),
    });
  });

  /** Send an event at a place within the element. */
  function send(type, x, y, facts = {}) {
    const event = new Event(type, { cancelable: true });
    const place = { clientX: x + 11, clientY: y + 22, pointerId: 1, pointerType: "mouse", button: 0 };
    element.dispatchEvent(Object.assign(event, place, facts));
    return event;
  }

  test("a press that moves up to four pixels is a click", () => {
    send("pointerdown", 5, 6);
    send("pointermove", 9, 6);
    send("pointerup", 9, 6);
    assert.deepEqual(done, [["click", 9, 6]]);
  });
  test("one that moves more is a drag, from where it began", () => {
    send("pointerdown", 5, 6);
    send("pointermove", 10, 6);
    send("pointermove", 10, 8);
    send("pointerup", 10, 8);
    assert.deepEqual(done, [
      ["pan", 5, 0],
      ["pan", 0, 2],
    ]);
  });
  test("other buttons of a mouse do nothing", () => {
    send("pointerdown", 5, 6, { button: 2 });
    send("pointerup", 5, 6, { button: 2 });
    assert.deepEqual(done, []);
  });
  test("a pointer that is not down hovers, until it leaves", () => {
    send("pointermove", 3, 4);
    send("pointerleave", 3, 4);
    assert.deepEqual(done, [
      ["hover", 3, 4],
      ["hover", undefined, undefined],
    ]);
  });
  test("two fingers move the view with their middle, and zoom with their distance; that is no click", () => {
    send("pointerdown", 0, 0, { pointerType: "touch", pointerId: 1 });
    send("pointerdown", 10, 0, { pointerType: "touch", pointerId: 2 });
    send("pointermove", 20, 0, { pointerType: "touch", pointerId: 2 });
    send("pointerup", 20, 0, { pointerType: "touch", pointerId: 2 });
    send("pointerup", 0, 0, { pointerType: "touch", pointerId: 1 });
    assert.deepEqual(done, [
      ["pan", 5, 0],
      ["zoom", 2, 10, 0],
    ]);
  });
  test("a press that the system takes away is no click", () => {
    send("pointerdown", 5, 6);
    send("pointercancel", 5, 6);
    send("pointerup", 5, 6);
    assert.deepEqual(done, []);
  });
  for (const [name, facts, pixels] of [
    ["pixels", { deltaMode: 0 }, 100],
    ["lines", { deltaMode: 1 }, 1600],
    ["pages", { deltaMode: 2 }, 50000],
    ["a pinch on a touch pad", { deltaMode: 0, ctrlKey: true }, 600],
  ]) {
    test(`a wheel turned away by ${name} zooms in around the pointer, and the page does not scroll`, () => {
      const event = send("wheel", 7, 8, { deltaY: -100, ...facts });
      assert.ok(event.defaultPrevented);
      assert.equal(done.length, 1);
      const [, factor, x, y] = done[0];
      assert.ok(isClose([Math.log(factor), x, y], [0.0015 * pixels, 7, 8]));
    });
  }
  test("nothing is heard after the end", () => {
    gestures.destroy();
    send("pointermove", 3, 4);
    assert.deepEqual(done, []);
  });
});
