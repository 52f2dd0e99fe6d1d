import assert from "node:assert/strict";
import { test } from "node:test";
import { keyBindings } from "l5kit/key_bindings";

/** Which calls a key makes. */
function press(key, { shiftKey = false, only = false, driven = false, aerial = false, predicted = false } = {}) {
  const calls = [];
  const recorder = new Proxy(
    {},
    {
      get:
        (_, name) =>
        (...values) =>
          calls.push([name, ...values]),
    },
  );
  const bindings = keyBindings({
    playback: recorder,
    view: recorder,
    playFailure: driven ? recorder.playFailure : null,
    openNeighbour: only ? null : recorder.openNeighbour,
    measure: recorder.measure,
    toggleAerial: aerial ? recorder.toggleAerial : null,
    isPredicted: predicted,
    leave: recorder.leave,
  });
  const found = bindings.filter(({ keys }) => keys.includes(key));
  assert.ok(found.length <= 1, "a key does one thing");
  for (const { run } of found) run({ shiftKey });
  return calls;
}

const CASES = [
  [" ", {}, [["toggle"]]],
  ["ArrowLeft", {}, [["step", -1]]],
  ["ArrowRight", {}, [["step", 1]]],
  ["ArrowLeft", { shiftKey: true }, [["step", -10]]],
  ["ArrowRight", { shiftKey: true }, [["step", 10]]],
  ["Home", {}, [["seek", 0]]],
  ["End", {}, [["step", Infinity]]],
  ["+", {}, [["zoomIn"]]],
  ["=", {}, [["zoomIn"]]],
  ["-", {}, [["zoomOut"]]],
  ["_", {}, [["zoomOut"]]],
  ["0", {}, [["fit"]]],
  ["f", {}, [["toggleFollow"]]],
  ["l", {}, [["toggleDrawn", ["labels"]]]],
  ["t", {}, [["toggleDrawn", ["past", "future"]]]],
  ["m", {}, [["toggleDrawn", ["mask"]]]],
  ["r", {}, [["measure"]]],
  ["a", {}, []],
  ["a", { aerial: true }, [["toggleAerial"]]],
  ["w", { predicted: true }, [["toggleDrawn", ["predictions"]]]],
  ["w", {}, []],
  ["n", {}, [["openNeighbour", 1]]],
  ["p", {}, [["openNeighbour", -1]]],
  ["n", { only: true }, []],
  ["p", { only: true }, []],
  ["e", { driven: true }, [["playFailure", 1]]],
  ["e", { driven: true, shiftKey: true }, [["playFailure", -1]]],
  ["g", { driven: true }, [["toggleDrawn", ["ghosts"]]]],
  ["d", { driven: true }, [["toggleDrawn", ["plan"]]]],
  ["e", {}, []],
  ["g", {}, []],
  ["d", {}, []],
  ["Escape", {}, [["leave"]]],
  ["q", {}, []],
];
for (const [key, how, calls] of CASES) {
  test(`"${key}" ${JSON.stringify(how)}`, () => assert.deepEqual(press(key, how), calls));
}
