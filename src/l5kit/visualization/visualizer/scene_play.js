// Advance the slider while the button is pressed, wrapping from the last frame to the first.
clearInterval(button.playing)
if (button.active) {
  button.playing = setInterval(() => {
    slider.value = slider.value + slider.step > slider.end ? slider.start : slider.value + slider.step
  }, interval_ms)
}
button.label = button.active ? "❚❚ Pause" : "► Play"
