import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { MeshArrays, WORDS } from "l5kit/mesh_arrays";
import { isClose } from "./scenes.js";

const SQUARE = [0, 0, 1, 0, 1, 1, 0, 1];

/** The vertices of a mesh, as rows of x, y, offset, offset, width and least width. */
function vertices(mesh) {
  return Array.from({ length: mesh.numVertices }, (_, at) =>
    Array.from(mesh.floats.subarray(WORDS * at, WORDS * at + 6)),
  );
}

/** The colours of the vertices, as bytes. */
function colors(mesh) {
  return Array.from({ length: mesh.numVertices }, (_, at) => [
    ...new Uint8Array(mesh.words.slice(WORDS * at + 6, WORDS * at + 7).buffer),
  ]);
}

const used = (mesh) => Array.from(mesh.indices.subarray(0, mesh.numIndices));

test("a convex polygon is a fan of triangles", () => {
  const mesh = new MeshArrays();
  mesh.fillConvex(SQUARE, 0x123456, 0.5);
  assert.deepEqual(used(mesh), [0, 1, 2, 0, 2, 3]);
  assert.deepEqual(vertices(mesh)[2], [1, 1, 0, 0, 0, 0]);
  assert.deepEqual(colors(mesh)[0], [0x12, 0x34, 0x56, 128]);
});

test("another shape counts its points from those before", () => {
  const mesh = new MeshArrays();
  mesh.fillConvex(SQUARE, 0);
  mesh.addFill([5, 5, 6, 5, 6, 6], 0xffffff, 1, [0, 1, 2]);
  assert.deepEqual(used(mesh).slice(6), [4, 5, 6]);
  mesh.clear();
  mesh.addFill([5, 5, 6, 5, 6, 6], 0xffffff, 1, [0, 1, 2]);
  assert.deepEqual(used(mesh), [0, 1, 2]);
  assert.deepEqual(colors(mesh)[0], [255, 255, 255, 255]);
});

describe("a line", () => {
  test("has two vertices at each point, and two triangles between points", () => {
    const mesh = new MeshArrays();
    mesh.line([0, 0, 10, 0], { color: 0xff0000, width_m: 0.5, leastWidth_px: 2 });
    const sides = [
      [0, 0, 0, 1, 0.5, 2],
      [0, 0, 0, 1, -0.5, 2],
      [10, 0, 0, 1, 0.5, 2],
      [10, 0, 0, 1, -0.5, 2],
    ];
    vertices(mesh).forEach((vertex, at) => {
      assert.ok(isClose(vertex, sides[at]), `${vertex}`);
    });
    assert.deepEqual(used(mesh), [0, 1, 2, 2, 1, 3]);
  });
  test("fades from its start to its end", () => {
    const mesh = new MeshArrays();
    mesh.line([0, 0, 1, 0, 2, 0], { color: 0, alpha: 1, endAlpha: 0, width_m: 1 });
    assert.deepEqual(
      colors(mesh).map((color) => color[3]),
      [255, 255, 128, 128, 0, 0],
    );
  });
  test("is as wide in its corners as elsewhere", () => {
    const mesh = new MeshArrays();
    mesh.line([0, 0, 1, 0, 1, 1], { color: 0, width_m: 1 });
    assert.ok(isClose(vertices(mesh)[2].slice(2, 4), [-1, 1]));
  });
  test("does not grow beyond twice its width where it turns back", () => {
    const mesh = new MeshArrays();
    mesh.line([0, 0, 1, 0, 0, 0.01], { color: 0, width_m: 1 });
    assert.ok(Math.hypot(...vertices(mesh)[2].slice(2, 4)) <= 1 + 1e-6);
  });
  test("goes straight on where points are the same", () => {
    const mesh = new MeshArrays();
    mesh.line([0, -5, 0, 0, 0, 0, 0, 5], { color: 0, width_m: 1 });
    for (const vertex of vertices(mesh)) assert.ok(isClose(vertex.slice(2, 4), [-1, 0]));
  });
  test("that is closed ends where it began", () => {
    const mesh = new MeshArrays();
    mesh.line(SQUARE, { color: 0, width_m: 1 }, true);
    const all = vertices(mesh);
    assert.equal(all.length, 10);
    assert.deepEqual(all[8], all[0]);
    assert.ok(isClose(all[0].slice(2, 4), [1, 1]), "its corner is like the others");
  });
  test("of one point is nothing", () => {
    const mesh = new MeshArrays();
    mesh.line([1, 1], { color: 0, width_m: 1 });
    assert.equal(mesh.numVertices + mesh.numIndices, 0);
  });
  test("without width has two sides nevertheless", () => {
    const mesh = new MeshArrays();
    mesh.line([0, 0, 1, 0], { color: 0, width_m: 0 });
    assert.ok(vertices(mesh)[0][4] > 0 && vertices(mesh)[1][4] < 0);
    assert.equal(vertices(mesh)[0][5], 1, "a pixel is the least");
  });
});

test("the arrays grow, keep what they hold, and are trimmed to it", () => {
  const mesh = new MeshArrays();
  for (let number = 0; number < 300; number += 1)
    mesh.fillConvex(
      SQUARE.map((value) => value + number),
      number,
    );
  assert.equal(mesh.numVertices, 1200);
  assert.deepEqual(vertices(mesh)[4 * 7].slice(0, 2), [7, 7]);
  assert.deepEqual(colors(mesh)[4 * 299], [0, 1, 43, 255]);
  const before = [vertices(mesh), colors(mesh), used(mesh)];
  mesh.trim();
  assert.equal(mesh.floats.length, WORDS * 1200);
  assert.equal(mesh.indices.length, 1800);
  assert.equal(mesh.words.buffer, mesh.floats.buffer, "no second copy is held");
  assert.deepEqual([vertices(mesh), colors(mesh), used(mesh)], before);
});
