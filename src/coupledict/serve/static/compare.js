// Two pictures in one frame, with a line between them that is moved by mouse, finger or keys; shown whole, or pixel by
// pixel and scrolled.

import { copyOf } from "./elements.js";
import { Tiles } from "./tiles.js";

const STEP = 2; // percent that an arrow key moves the line
const LARGE_STEP = 10;
const HINTS = {
  fit: "Double-click to see the pixels there.",
  whole: "Drag or scroll to move around; drag the handle to compare.",
};

/** A picture is {label, view, width, height, tiles}: addresses of it as a whole, and of its tiles. */
class Comparison {
  constructor(before, after, width, caption) {
    this.figure = copyOf("template-compare");
    for (const part of ["stage", "pan", "sheet", "split", "line", "zoom", "hint"]) {
      this[part] = this.figure.querySelector(`.${part}`);
    }
    this.after = after;
    this.width = width;
    this.whole = false;
    this.sides = { before: new Tiles(this.figure.querySelector(".side-before")),
      after: new Tiles(this.figure.querySelector(".side-after")) };
    this.put("after", after);
    this.show(before);
    this.split.addEventListener("input", () => this.move(this.split.value));
    this.split.addEventListener("keydown", (event) => this.press(event));
    if (caption === null) this.enlargeOnDemand();
    else this.figure.querySelector("figcaption").replaceChildren(caption);
    this.pan.addEventListener("scroll", () => this.update());
    this.drag(this.pan, (event) => this.pan.scrollBy(-event.movementX, -event.movementY), "mouse");
    this.drag(this.line, (event) => {
      const box = this.pan.getBoundingClientRect();
      this.move((100 * (event.clientX - box.left)) / this.pan.clientWidth);
    });
    new ResizeObserver(() => this.fit()).observe(this.stage);
    this.fit();
  }

  enlargeOnDemand() {
    this.zoom.addEventListener("click", () => this.toggle(0.5, 0.5));
    this.stage.addEventListener("dblclick", (event) => {
      const box = this.sheet.getBoundingClientRect();
      this.toggle((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
    });
  }

  put(side, picture) {
    const image = this.figure.querySelector(`img.${side}`);
    image.src = picture.view;
    image.alt = picture.label;
    this.figure.querySelector(`.tag-${side}`).textContent = picture.label;
    this.sides[side].show(picture);
  }

  /** Put another picture on the left side. */
  show(picture) {
    this.before = picture;
    this.put("before", picture);
    this.split.setAttribute("aria-label", `Compare ${picture.label} with ${this.after.label}`);
    this.move(this.split.value);
  }

  move(value) {
    this.split.value = value;
    const text = `${Math.round(this.split.value)} % ${this.before.label}, the rest ${this.after.label}`;
    this.split.setAttribute("aria-valuetext", text);
    this.update();
  }

  press(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const step = event.shiftKey ? LARGE_STEP : STEP;
    const by = { ArrowLeft: -step, ArrowDown: -step, ArrowRight: step, ArrowUp: step, PageUp: LARGE_STEP,
      PageDown: -LARGE_STEP }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    this.move(Number(this.split.value) + by);
  }

  /** Show all of it, or its pixels around a point, given as shares of its width and height. */
  toggle(across, down) {
    this.whole = !this.whole;
    this.stage.classList.toggle("whole", this.whole);
    this.zoom.setAttribute("aria-pressed", this.whole);
    if (this.whole) {
      this.pan.tabIndex = 0;
      this.pan.setAttribute("role", "region");
      this.pan.setAttribute("aria-label", "The picture at 100 %; arrow keys move it");
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) this.pan.removeAttribute(name);
    }
    this.fit();
    this.pan.scrollTo(across * this.pan.scrollWidth - this.pan.clientWidth / 2,
      down * this.pan.scrollHeight - this.pan.clientHeight / 2);
    this.update();
  }

  /** Set the size of the frame: at 100 %, a pixel of the picture is a pixel of the screen. */
  fit() {
    this.ratio = window.devicePixelRatio;
    const { width, height } = this.after;
    const pixels = { width: `${width / this.ratio}px`, height: `${height / this.ratio}px` };
    this.stage.style.maxWidth = this.whole ? pixels.width : this.width;
    this.sheet.style.width = this.whole ? pixels.width : "";
    this.sheet.style.height = this.whole ? pixels.height : "";
    this.hint.textContent = HINTS[this.whole ? "whole" : "fit"];
    this.update();
  }

  /** Put the line, the edge of the left picture and the tiles where they belong. */
  update() {
    const share = this.split.value / 100;
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.pan;
    this.stage.style.setProperty("--line", this.whole ? `${share * clientWidth}px` : `${100 * share}%`);
    this.stage.style.setProperty("--edge", this.whole ? `${scrollLeft + share * clientWidth}px` : `${100 * share}%`);
    for (const tiles of Object.values(this.sides)) {
      if (this.whole) tiles.paint(this.ratio, scrollLeft, scrollTop, clientWidth, clientHeight);
      else tiles.clear();
    }
  }

  /** Follow a pointer that is held down on an element at 100 %; fingers scroll by themselves. */
  drag(place, act, kind) {
    place.addEventListener("pointerdown", (event) => {
      if (!this.whole || event.button !== 0 || (kind && event.pointerType !== kind)) return;
      if (event.target === this.pan && event.offsetX > this.pan.clientWidth) return; // a scroll bar
      event.preventDefault();
      place.focus({ preventScroll: true });
      place.setPointerCapture(event.pointerId);
    });
    place.addEventListener("pointermove", (event) => {
      if (place.hasPointerCapture(event.pointerId)) act(event);
    });
  }
}

/**
 * Return the frame, of some width at most, and a function that puts another picture on its left side. With a caption,
 * there is nothing to see at 100 %.
 */
export function compare(before, after, width, caption = null) {
  const made = new Comparison(before, after, width, caption);
  return { figure: made.figure, show: (picture) => made.show(picture) };
}
