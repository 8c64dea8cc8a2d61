// Two pictures in one frame, with a line between them that is moved by mouse, finger or keys.

import { copyOf } from "./elements.js";

const STEP = 2; // percent that an arrow key moves the line
const LARGE_STEP = 10;

/** Return the frame, of some width at most, and a function that puts another picture on its left side. */
export function compare(before, after, width) {
  const figure = copyOf("template-compare");
  const stage = figure.querySelector(".stage");
  const range = figure.querySelector(".split");

  const move = (value) => {
    range.value = value;
    stage.style.setProperty("--split", `${range.value}%`);
    range.setAttribute("aria-valuetext", `${Math.round(range.value)} % ${stage.dataset.before}, the rest ${after.label}`);
  };
  const show = (picture) => {
    stage.dataset.before = picture.label;
    figure.querySelector(".before").src = picture.address;
    figure.querySelector(".before").alt = picture.label;
    figure.querySelector(".tag-before").textContent = picture.label;
    range.setAttribute("aria-label", `Compare ${picture.label} with ${after.label}`);
    move(range.value);
  };

  figure.querySelector(".after").src = after.address;
  figure.querySelector(".after").alt = after.label;
  figure.querySelector(".tag-after").textContent = after.label;
  stage.style.maxWidth = width;
  range.addEventListener("input", () => move(range.value));
  range.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const step = event.shiftKey ? LARGE_STEP : STEP;
    const by = { ArrowLeft: -step, ArrowDown: -step, ArrowRight: step, ArrowUp: step, PageUp: LARGE_STEP,
      PageDown: -LARGE_STEP }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    move(Number(range.value) + by);
  });
  show(before);
  return { figure, show };
}
