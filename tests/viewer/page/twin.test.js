import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { sceneOfSource, Twin, timeInScene } from "l5kit/twin";

const shown = (time_s) => ({
  source: 3,
  time_s,
  start_time_ns: "0",
  playing: false,
  speed: 1,
  loop: false,
  follow: true,
  zoom: 5,
  x: 0,
  y: 0,
});

/** A page that shows one thing, and what it sent and did. */
function page(leads) {
  const sent = [];
  const did = [];
  const sight = {
    now: /** @type {object | null} */ (null),
    shown: () => sight.now,
    show: (what) => did.push(what),
    lead: () => did.push("lead"),
    drive: () => null,
    seek: (time_s) => did.push(`seek ${time_s}`),
  };
  return { sight, sent, did, twin: new Twin(leads, ({ turn: _, ...message }) => sent.push(message), sight) };
}

test("who leads tells what has changed, once", () => {
  const { twin, sight, sent } = page(true);
  twin.tell();
  sight.now = shown(1);
  twin.tell();
  twin.tell();
  sight.now = shown(2);
  twin.tell();
  assert.deepEqual(sent, [{ shown: shown(1) }, { shown: shown(2) }]);
});

test("who is asked for another time leads from then on", () => {
  const { twin, sight, sent, did } = page(false);
  twin.hear({ seek: 2.5 });
  sight.now = shown(2.5);
  twin.tell();
  assert.deepEqual([sent, did], [[{ shown: shown(2.5) }], ["lead", "seek 2.5"]]);
});

test("who does not lead tells nothing and shows what it hears", () => {
  const { twin, sight, sent, did } = page(false);
  sight.now = shown(1);
  twin.tell();
  twin.hear({ shown: shown(2) });
  assert.deepEqual([sent, did], [[], [shown(2)]]);
});

test("whoever acts leads from then on, until the other one acts", () => {
  const { twin, sight, sent, did } = page(false);
  twin.act();
  twin.act();
  sight.now = shown(1);
  twin.tell();
  twin.hear({ shown: shown(4) });
  sight.now = shown(4);
  twin.tell();
  assert.deepEqual([sent, did], [[{ shown: shown(1) }], ["lead", shown(4)]]);
});

describe("once a scene is open", () => {
  test("what was heard last is shown", () => {
    const { twin, did } = page(false);
    twin.hear({ shown: shown(1) });
    twin.hear({ shown: shown(2) });
    twin.opened();
    assert.deepEqual(did, [shown(1), shown(2), shown(2)]);
  });
  test("who has heard nothing asks, and is told though it was told before", () => {
    const { twin, sent } = page(false);
    twin.opened();
    assert.deepEqual(sent, [{ drive: null }, { asks: true }]);
    const leader = page(true);
    leader.sight.now = shown(1);
    leader.twin.tell();
    leader.twin.hear({ asks: true });
    assert.deepEqual(leader.sent, [{ shown: shown(1) }, { shown: shown(1) }]);
  });
});

test("what was sent before the lead changed is not heard", () => {
  const { twin, did } = page(false);
  twin.act();
  twin.hear({ shown: shown(4), turn: 0 });
  assert.deepEqual([did, twin.leads], [["lead"], true]);
  twin.hear({ shown: shown(5), turn: 2 });
  assert.deepEqual([did, twin.leads], [["lead", shown(5)], false]);
});

test("scenes are matched by their number in the log", () => {
  const sources = [4, 2, "b 7"];
  const find = (source) => sceneOfSource(source, 3, (scene) => sources[scene]);
  assert.deepEqual([find(2), find("b 7"), find(7), find(0)], [1, 2, null, null]);
});

test("a scene that begins later shows the same moment", () => {
  const shownAt = (time_s) => ({ time_s, start_time_ns: "1700000000000000000" });
  const inScene = (time_s, start_time_ns) => timeInScene(shownAt(time_s), start_time_ns, 10);
  assert.deepEqual(
    [inScene(2, "1700000000500000000"), inScene(0, "1700000000500000000"), inScene(2, "1699999999500000000")],
    [1.5, -0.5, 2.5],
  );
  assert.equal(inScene(2, "1600000000500000000"), 2, "another day");
});
