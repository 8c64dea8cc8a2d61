// The chosen files: a list with thumbnails, which can be ordered by buttons and by dragging.

import { copyOf, element, sizeOf } from "./elements.js";

const WIDTH = 96; // pixels of a thumbnail, twice its width on the page
const HEIGHT = 72;
const natural = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
const byName = (one, other) => natural.compare(one.name, other.name);
const ending = (name) => (/\.([^.]{1,12})$/.exec(name)?.[1] ?? "?").toUpperCase();
const isSame = (one, other) =>
  one.name === other.name && one.size === other.size && one.lastModified === other.lastModified;

// Thumbnails are made one by one, off the main thread, so that many large files neither block the page nor
// fill the memory. They are drawn, not linked to, so the page's policy need not allow file addresses.
let drawing = Promise.resolve();

function drawSmall(file, place) {
  drawing = drawing.then(async () => {
    if (!place.isConnected) return;
    try {
      const bitmap = await createImageBitmap(file, { resizeWidth: WIDTH, resizeQuality: "medium" });
      const scale = Math.min(WIDTH / bitmap.width, HEIGHT / bitmap.height);
      const canvas = element("canvas", { width: Math.ceil(scale * bitmap.width), height: Math.ceil(scale * bitmap.height) });
      canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
      bitmap.close();
      place.replaceChildren(canvas);
    } catch {
      // The browser cannot show this kind; the suffix stays, and the program will say whether it can read the file.
    }
  });
}

export class Chosen {
  /** `changed` is called when the files or their order change, `tell` with a sentence about it. */
  constructor(most, changed, tell) {
    this.files = [];
    this.most = most;
    this.sorted = true; // until the user changes the order
    this.items = new Map();
    this.changed = changed;
    this.tell = tell;
    this.dragged = null;
    this.block = copyOf("template-chosen");
    this.list = this.block.querySelector(".chosen");
    this.count = this.block.querySelector(".count");
    this.sort = this.block.querySelector(".sort");
    this.clearing = this.block.querySelector(".clear");
    this.clearing.hidden = most === 1;
    this.sort.addEventListener("click", () => {
      this.sorted = true;
      this.order([...this.files].sort(byName));
      this.tell("Sorted by name.");
      this.clearing.focus();
    });
    this.clearing.addEventListener("click", () => this.clear());
    this.list.addEventListener("dragover", (event) => this.dragOver(event));
  }

  get bytes() {
    return this.files.reduce((sum, file) => sum + file.size, 0);
  }

  /** Add files, or replace them if only one can be used. Files that are already in the list are not added again. */
  add(files) {
    if (this.most === 1) {
      this.order(files);
      return;
    }
    const fresh = files.filter((file, number) =>
      ![...this.files, ...files.slice(0, number)].some((other) => isSame(file, other)));
    const all = [...this.files, ...fresh.sort(byName)];
    this.order(this.sorted ? all.sort(byName) : all);
    const twice = files.length - fresh.length;
    if (twice) this.tell(`${twice === 1 ? "One of them was" : `${twice} of them were`} already in the list.`);
  }

  clear() {
    this.sorted = true;
    this.order([]);
  }

  remove(file) {
    const number = this.files.indexOf(file);
    this.order(this.files.filter((other) => other !== file));
    const next = this.files[Math.min(number, this.files.length - 1)];
    if (next) this.items.get(next).querySelector(".remove").focus();
    this.tell(`${file.name} was removed.`);
  }

  /** Move a file to another place in the list. */
  move(file, to) {
    const others = this.files.filter((other) => other !== file);
    others.splice(to, 0, file);
    this.sorted = false;
    this.order(others);
  }

  step(file, by, button) {
    const to = this.files.indexOf(file) + by;
    this.move(file, to);
    const item = this.items.get(file);
    (button.disabled ? item.querySelector("button:not(:disabled)") : button).focus(); // moving removed the focus
    item.scrollIntoView({ block: "nearest" });
    this.tell(`${file.name} is now number ${to + 1} of ${this.files.length}.`);
  }

  order(files) {
    this.files = files;
    for (const file of [...this.items.keys()]) {
      if (!files.includes(file)) this.items.delete(file);
    }
    files.forEach((file, number) => {
      const item = this.items.get(file) ?? this.make(file);
      const there = this.list.children[number] ?? null;
      if (there !== item) this.list.insertBefore(item, there); // what need not move keeps the focus
      item.querySelector(".up").disabled = number === 0;
      item.querySelector(".down").disabled = number === files.length - 1;
    });
    while (this.list.children.length > files.length) this.list.lastElementChild.remove();
    this.block.hidden = files.length === 0;
    this.block.classList.toggle("single", files.length === 1);
    this.sort.hidden = this.sorted;
    this.count.textContent = `${files.length} ${files.length === 1 ? "file" : "files"}, ${sizeOf(this.bytes)}`;
    this.changed();
  }

  make(file) {
    const item = copyOf("template-file");
    const place = item.querySelector(".small");
    place.textContent = ending(file.name);
    item.querySelector(".name").textContent = file.name;
    item.querySelector(".name").title = file.name;
    item.querySelector(".size").textContent = sizeOf(file.size);
    for (const [kind, label, act] of [
      ["up", "Move up", (button) => this.step(file, -1, button)],
      ["down", "Move down", (button) => this.step(file, 1, button)],
      ["remove", "Remove", () => this.remove(file)],
    ]) {
      const button = item.querySelector(`.${kind}`);
      button.setAttribute("aria-label", `${label}: ${file.name}`);
      button.title = label;
      button.addEventListener("click", () => act(button));
    }
    item.draggable = this.most > 1;
    item.addEventListener("dragstart", (event) => {
      this.dragged = file;
      item.classList.add("dragged");
      event.dataTransfer.effectAllowed = "move";
      event.dataTransfer.setData("text/plain", file.name); // some browsers drag nothing without it
    });
    item.addEventListener("dragend", () => {
      this.dragged = null;
      item.classList.remove("dragged");
    });
    this.items.set(file, item);
    queueMicrotask(() => drawSmall(file, place)); // once it is on the page
    return item;
  }

  dragOver(event) {
    if (!this.dragged) return;
    event.preventDefault();
    const over = event.target.closest("li");
    const file = this.files.find((candidate) => this.items.get(candidate) === over);
    if (!file || file === this.dragged) return;
    const box = over.getBoundingClientRect();
    const [from, to] = [this.files.indexOf(this.dragged), this.files.indexOf(file)];
    // Only past its middle; otherwise items of different heights would swap forever.
    const past = event.clientY - (box.top + box.height / 2);
    if (from < to ? past > 0 : past < 0) this.move(this.dragged, to);
  }
}
