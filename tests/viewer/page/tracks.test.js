import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Path, spread, Tracks } from "l5kit/tracks";
import { packedScene } from "./scenes.js";

/** A scene of 20 frames; track 1 stands in the frames named, at x = frame. */
function seenIn(...frames) {
  const all = Array.from({ length: 20 }, (_, frame) => [
    { track: 0, y: 50 },
    ...(frames.includes(frame) ? [{ track: 1, x: frame }] : []),
  ]);
  return new Tracks(packedScene(all));
}

test("the row of a track in a frame", () => {
  const tracks = seenIn(0, 2, 19);
  assert.equal(tracks.rowAt(1, 0), 1);
  assert.equal(tracks.rowAt(1, 1), -1);
  assert.equal(tracks.rowAt(1, 2), 4);
  assert.equal(tracks.rowAt(1, 19), 22);
  assert.equal(tracks.rowAt(0, 19), 21);
  assert.equal(tracks.rowAt(2, 0), -1, "a track without rows");
});

test("the first place at a frame or later", () => {
  const tracks = seenIn(3, 5);
  const [start, end] = [tracks.starts[1], tracks.starts[2]];
  assert.deepEqual(
    [0, 3, 4, 5, 6].map((frame) => tracks.placeOf(1, frame) - start),
    [0, 0, 1, 1, 2],
  );
  assert.equal(end - start, 2);
});

describe("a path", () => {
  test("goes from the first to the last frame, both included", () => {
    assert.deepEqual(seenIn(1, 2, 3, 4, 5).paths(1, 2, 4, 0), [[2, 0, 3, 0, 4, 0]]);
  });
  test("goes on over a gap of five frames and is broken by one of six", () => {
    assert.deepEqual(seenIn(0, 5).paths(1, 0, 19, 0), [[0, 0, 5, 0]]);
    assert.deepEqual(seenIn(0, 6).paths(1, 0, 19, 0), [
      [0, 0],
      [6, 0],
    ]);
  });
  test("leaves out points that are too close, and keeps the last", () => {
    assert.deepEqual(seenIn(0, 1, 2, 3, 4, 5).paths(1, 0, 19, 2), [[0, 0, 2, 0, 4, 0, 5, 0]]);
    assert.deepEqual(seenIn(0, 1, 2).paths(1, 0, 19, 2), [[0, 0, 2, 0]], "once");
  });
  test("is none where the track is not seen", () => {
    assert.deepEqual(seenIn(9).paths(1, 0, 8, 0), []);
  });
});

test("points that are not finite are left out", () => {
  const path = new Path(1);
  for (const [x, y] of [
    [0, 0],
    [Number.NaN, 1],
    [2, Infinity],
    [0.5, 0],
  ])
    path.add(x, y);
  assert.deepEqual(path.close(), [0, 0, 0.5, 0]);
});

test("the spread is the diagonal of the bounds", () => {
  assert.equal(spread([1, 1, 4, 1, 2, 5]), 5);
  assert.equal(spread([1, 1]), 0);
  assert.equal(spread([]), 0);
});
