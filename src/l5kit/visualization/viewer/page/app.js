// @ts-check
/** Entry point of the viewer page; exposes `l5kitViewer` for control from outside, as in tests. */

import { messageOf } from "l5kit/format";
import { Viewer } from "l5kit/viewer";

const viewer = new Viewer();
const ready = viewer.start().catch((error) => viewer.stage.showError("The viewer cannot start", messageOf(error)));
Object.assign(window, {
  l5kitViewer: {
    ready,
    get birdseye() {
      return viewer.view.birdseye;
    },
    player: viewer.playback,
    state: () => viewer.state(),
  },
});
