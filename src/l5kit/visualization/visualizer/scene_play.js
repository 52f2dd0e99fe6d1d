// Move the slider on while the button is pressed, from the last frame to the first one.
clearInterval(button.playing)
if (button.active) {
  button.playing = setInterval(() => {
    slider.value = slider.value + slider.step > slider.end ? slider.start : slider.value + slider.step
  }, interval_ms)
}
button.label = button.active ? "❚❚ Pause" : "► Play"
