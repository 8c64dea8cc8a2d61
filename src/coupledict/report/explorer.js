// The atom explorer: dictionaries side by side; pointing at an atom highlights its partners in the others.
// Orders and numbers come from the page; here they are only drawn.
(() => {
  "use strict";

  const PAGE_ROWS = 4; // rows that Page Up and Page Down move
  const ENLARGED = 1.7; // size of a highlighted atom relative to its cell: large enough to see, without hiding a neighbour
  const FRAME = 6; // pixels of the frame around an enlarged atom, both sides together
  const CURVE = 0.66; // height of a curve relative to its width
  const APART = 5; // lines between curves, which would otherwise touch
  const QUIET = 250; // milliseconds without a change before screen readers are notified

  const byId = (name) => document.getElementById(`explorer-${name}`);
  const root = document.getElementById("explorer");
  const data = JSON.parse(byId("data").textContent);
  const views = data.views;
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const isCurve = (view) => view.length !== undefined;

  /** The height of an atom of this width, in pixels. */
  function heightOf(view, width) {
    return Math.max(1, Math.round(width * (isCurve(view) ? CURVE : view.height / view.width)));
  }

  const decode = (packed) => Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));

  /** All atoms of one dictionary in one picture, one pixel per entry. */
  function picture(packed, view) {
    const bytes = decode(packed);
    const { width, height, channels } = view;
    const size = width * height;
    const count = bytes.length / (size * channels);
    const columns = Math.ceil(Math.sqrt(count));
    const image = new ImageData(columns * width, Math.ceil(count / columns) * height);
    for (let i = 0; i < count * size; i++) {
      const atom = Math.floor(i / size);
      const row = Math.floor(atom / columns) * height + Math.floor((i % size) / width);
      const column = (atom % columns) * width + (i % width);
      const place = 4 * (row * image.width + column);
      for (let c = 0; c < 3; c++) image.data[place + c] = bytes[i * channels + (c % channels)];
      image.data[place + 3] = 255;
    }
    const canvas = document.createElement("canvas");
    canvas.width = image.width;
    canvas.height = image.height;
    canvas.getContext("2d").putImageData(image, 0, 0);
    return { view, canvas, columns, enlarged: new Map() };
  }

  /** The picture with every entry enlarged to a square of this many pixels. */
  function enlarge(source, factor) {
    if (!source.enlarged.has(factor)) {
      const canvas = document.createElement("canvas");
      canvas.width = source.canvas.width * factor;
      canvas.height = source.canvas.height * factor;
      const context = canvas.getContext("2d");
      context.imageSmoothingEnabled = false;
      context.drawImage(source.canvas, 0, 0, canvas.width, canvas.height);
      source.enlarged.set(factor, canvas);
    }
    return source.enlarged.get(factor);
  }

  /** Draw one atom; entries stay sharp squares of equal size, even if that is not a whole number of pixels. */
  function drawPatch(context, source, atom, left, top, width) {
    const view = source.view;
    const factor = Math.max(1, Math.ceil(width / view.width));
    const canvas = enlarge(source, factor);
    const [w, h] = [view.width * factor, view.height * factor];
    context.imageSmoothingEnabled = true;
    context.imageSmoothingQuality = "high";
    const [x, y] = [(atom % source.columns) * w, Math.floor(atom / source.columns) * h];
    context.drawImage(canvas, x, y, w, h, left, top, width, heightOf(view, width));
  }

  /** Draw one atom as a curve about a line at zero. */
  function drawCurve(context, source, atom, left, top, width) {
    const { view, bytes } = source;
    const height = heightOf(view, width);
    const thick = Math.max(1, width / 80);
    const y = (level) => top + thick + (1 - level / 255) * (height - 2 * thick);
    const x = (i) => left + thick + (view.length > 1 ? i / (view.length - 1) : 0.5) * (width - 2 * thick);
    const stroke = (name, size, points) => {
      context.beginPath();
      for (const point of points) context.lineTo(...point);
      context.strokeStyle = colour(name);
      context.lineWidth = size;
      context.lineJoin = "round";
      context.stroke();
    };
    context.setLineDash([]);
    context.fillStyle = colour("--raised");
    context.fillRect(left, top, width, height);
    const middle = y(127.5);
    stroke("--line", 1, [[left, middle], [left + width, middle]]);
    const curve = Array.from({ length: view.length }, (_, i) => [x(i), y(bytes[atom * view.length + i])]);
    // A single value is not a curve; it is drawn as a stem on the line at zero.
    stroke("--ink", thick, view.length > 1 ? curve : [[x(0), middle], curve[0]]);
  }

  const drawAtom = (context, source, ...rest) =>
    (isCurve(source.view) ? drawCurve : drawPatch)(context, source, ...rest);
  const sourceOf = (packed, v) =>
    isCurve(views[v]) ? { view: views[v], bytes: decode(packed) } : picture(packed, views[v]);

  const modes = {};
  for (const [name, mode] of Object.entries(data.modes)) {
    const count = mode.best.length;
    modes[name] = { ...mode, count, sources: mode.atoms.map(sourceOf), columns: Math.ceil(Math.sqrt(count)) };
  }

  const state = { mode: "", order: "", position: 0, pinned: false };
  const mode = () => modes[state.mode];
  const order = () => mode().orders[state.order];
  const atomAt = (position) => order()[position];

  /** One grid: a canvas, and over it cells for screen readers only. */
  class Grid {
    constructor(view) {
      this.view = view;
      this.box = byId(views[view].key);
      this.canvas = this.box.querySelector("canvas");
      this.box.addEventListener("pointermove", (event) => this.point(event));
      this.box.addEventListener("click", (event) => this.point(event));
      this.box.addEventListener("keydown", (event) => press(event));
    }

    /** Rows and cells in the order of the atoms. */
    fill() {
      const rows = [];
      for (let start = 0; start < mode().count; start += mode().columns) {
        const row = document.createElement("div");
        row.setAttribute("role", "row");
        for (let at = start; at < Math.min(start + mode().columns, mode().count); at++) {
          const cell = document.createElement("span");
          cell.setAttribute("role", "gridcell");
          cell.setAttribute("aria-label", `atom ${atomAt(at)}`);
          cell.id = `${this.box.id}-${at}`;
          cell.dataset.position = at;
          row.append(cell);
        }
        rows.push(row);
      }
      this.box.replaceChildren(this.canvas, ...rows);
      this.layout();
    }

    /** As large as possible, in whole screen pixels. */
    layout() {
      const ratio = window.devicePixelRatio || 1;
      const columns = mode().columns;
      const rows = Math.ceil(mode().count / columns);
      this.line = Math.max(1, Math.round(ratio)) * (isCurve(views[this.view]) ? APART : 1);
      this.ratio = ratio;
      const room = Math.floor(this.box.parentElement.clientWidth * ratio);
      let width = Math.max(2, Math.floor((room - this.line) / columns) - this.line);
      // Slightly smaller, if entries then have a whole number of pixels.
      const entries = views[this.view].width ?? 1;
      if (width % entries < 0.14 * width && width > entries) width -= width % entries;
      this.width = width;
      this.height = heightOf(views[this.view], width);
      this.canvas.width = columns * (width + this.line) + this.line;
      this.canvas.height = rows * (this.height + this.line) + this.line;
      this.box.style.width = this.canvas.style.width = `${this.canvas.width / ratio}px`;
      this.box.style.height = this.canvas.style.height = `${this.canvas.height / ratio}px`;

      // All atoms without any highlight, drawn once.
      this.sheet = document.createElement("canvas");
      this.sheet.width = this.canvas.width;
      this.sheet.height = this.canvas.height;
      const context = this.sheet.getContext("2d");
      const source = mode().sources[this.view];
      order().forEach((atom, position) => drawAtom(context, source, atom, ...this.corner(position), this.width));
    }

    corner(position) {
      const columns = mode().columns;
      return [
        this.line + (position % columns) * (this.width + this.line),
        this.line + Math.floor(position / columns) * (this.height + this.line),
      ];
    }

    draw() {
      const context = this.canvas.getContext("2d");
      context.clearRect(0, 0, this.canvas.width, this.canvas.height);
      context.drawImage(this.sheet, 0, 0);
      const current = atomAt(state.position);
      const best = mode().best[current];
      const other = this.view === data.partner && best !== null && best !== current;
      if (other) this.light(order().indexOf(best), colour("--best"), true);
      this.light(state.position, colour("--same"), false);
      this.box.dataset.lit = current;
      if (other) this.box.dataset.best = best;
      else delete this.box.dataset.best;
    }

    /** Draw an atom again, larger and framed. */
    light(position, frame, dashed) {
      const context = this.canvas.getContext("2d");
      const border = Math.max(2, Math.round(2 * this.ratio));
      const width = Math.round(ENLARGED * this.width);
      const height = heightOf(views[this.view], width);
      const inside = (start, length, size, all) =>
        Math.min(Math.max(Math.round(start + length / 2 - size / 2), 2 * border), all - size - 2 * border);
      const [left, top] = this.corner(position);
      const x = inside(left, this.width, width, this.canvas.width);
      const y = inside(top, this.height, height, this.canvas.height);
      const rectangle = (margin) => [x - margin, y - margin, width + 2 * margin, height + 2 * margin];
      context.fillStyle = colour("--paper");
      context.fillRect(...rectangle(2 * border));
      drawAtom(context, mode().sources[this.view], atomAt(position), x, y, width);
      context.strokeStyle = frame;
      context.lineWidth = border;
      context.setLineDash(dashed ? [2 * border, border] : []);
      context.strokeRect(...rectangle(border / 2));
      context.setLineDash([]);
    }

    /** The mouse highlights what it is over and pins what it clicks; a finger highlights what it taps or slides over. */
    point(event) {
      if (event.type === "pointermove" && state.pinned) return;
      const cell = event.type === "click" ? event.target.closest("[data-position]") : null;
      if (cell && event.pointerType !== "mouse") return show(Number(cell.dataset.position));
      const bounds = this.canvas.getBoundingClientRect();
      const rows = Math.ceil(mode().count / mode().columns);
      const column = Math.floor(((event.clientX - bounds.left) / bounds.width) * mode().columns);
      const row = Math.floor(((event.clientY - bounds.top) / bounds.height) * rows);
      const position = row * mode().columns + column;
      const there = column >= 0 && column < mode().columns && row >= 0 && position < mode().count;
      if (!there) return;
      const again = position === state.position;
      if (!again) show(position);
      if (event.type === "click" && event.pointerType === "mouse") pin(!(again && state.pinned));
    }
  }

  const grids = views.map((_, view) => new Grid(view));
  const tiles = views.map((view) => byId(`large-${view.key}`));

  function drawTile(canvas, view, atom) {
    const ratio = window.devicePixelRatio || 1;
    const room = Math.floor((canvas.parentElement.clientWidth - FRAME) * ratio);
    const entries = views[view].width ?? 1;
    const width = room > entries ? room - (room % entries) : Math.max(1, room);
    canvas.width = width;
    canvas.height = heightOf(views[view], width);
    canvas.style.width = `${canvas.width / ratio}px`;
    canvas.style.height = `${canvas.height / ratio}px`;
    drawAtom(canvas.getContext("2d"), mode().sources[view], atom, 0, 0, width);
  }

  function drawPanel() {
    const atom = atomAt(state.position);
    const best = mode().best[atom];
    tiles.forEach((tile, view) => drawTile(tile, view, atom));
    if (data.partner !== null) {
      const tile = byId("large-best");
      tile.parentElement.classList.toggle("empty", best === null || best === atom);
      drawTile(tile, data.partner, best === null ? atom : best);
    }
    byId("number").textContent = atom;
    byId("place").textContent = `${state.position + 1} of ${mode().count}`;
    for (const [key, texts] of Object.entries(mode().facts)) {
      root.querySelector(`[data-fact="${key}"]`).textContent = texts[atom];
    }
    root.dataset.mode = state.mode;
    root.dataset.order = state.order;
    root.dataset.position = state.position;
    root.dataset.atom = atom;
    root.dataset.best = best === null ? "" : best;
  }

  let waiting = 0;
  function announce() {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const facts = [...root.querySelectorAll(".facts > div")].map(
        (fact) => `${fact.querySelector("dt").textContent} ${fact.querySelector("dd").textContent}`,
      );
      byId("status").textContent = `Atom ${atomAt(state.position)}. ${facts.join(". ")}.`;
    }, QUIET);
  }

  function draw() {
    for (const grid of grids) grid.draw();
    drawPanel();
  }

  function show(position) {
    state.position = Math.min(Math.max(position, 0), mode().count - 1);
    for (const grid of grids) {
      const cell = `${grid.box.id}-${state.position}`;
      grid.box.setAttribute("aria-activedescendant", cell);
      grid.box.querySelector('[aria-selected="true"]')?.removeAttribute("aria-selected");
      document.getElementById(cell).setAttribute("aria-selected", "true");
    }
    draw();
    announce();
  }

  /** A pinned atom stays while the mouse moves elsewhere, so that its figures can be read, copied and compared. */
  function pin(pinned) {
    state.pinned = pinned;
    root.dataset.pinned = pinned;
    byId("pinned").hidden = !pinned;
  }

  function rearrange(position) {
    for (const grid of grids) grid.fill();
    show(position);
  }

  function press(event) {
    if (event.altKey || event.metaKey) return;
    if (event.key === "Escape") return pin(false);
    const { count, columns } = mode();
    const at = state.position;
    const start = at - (at % columns);
    const vertical = (rows) => {
      const target = at + rows * columns;
      if (target >= 0 && target < count) return target;
      // The last row may be short, and a page may exceed the remaining rows: go to the end of this column.
      return rows < 0 ? at % columns : count - 1 - ((count - 1 - at) % columns);
    };
    const targets = {
      ArrowLeft: at - 1,
      ArrowRight: at + 1,
      ArrowUp: vertical(-1),
      ArrowDown: vertical(1),
      PageUp: vertical(-PAGE_ROWS),
      PageDown: vertical(PAGE_ROWS),
      Home: event.ctrlKey ? 0 : start,
      End: event.ctrlKey ? count - 1 : start + columns - 1,
    };
    if (!(event.key in targets)) return;
    event.preventDefault();
    show(targets[event.key]);
  }

  for (const choice of root.querySelectorAll('input[name="explorer-mode"]')) {
    choice.addEventListener("change", () => {
      state.mode = choice.value;
      rearrange(state.position);
    });
  }
  byId("order").addEventListener("change", (event) => {
    const atom = atomAt(state.position);
    state.order = event.target.value;
    rearrange(order().indexOf(atom)); // the current atom stays current
  });
  byId("previous").addEventListener("click", () => show(state.position - 1));
  byId("next").addEventListener("click", () => show(state.position + 1));

  // Browsers keep the state of a form when a page is reloaded.
  state.mode = root.querySelector('input[name="explorer-mode"]:checked').value;
  state.order = byId("order").value;
  root.hidden = false;
  rearrange(0);

  function fit() {
    for (const grid of grids) grid.layout();
    draw();
  }
  let width = root.clientWidth;
  new ResizeObserver(() => {
    if (root.clientWidth === width) return; // the height follows from what is drawn
    width = root.clientWidth;
    fit();
  }).observe(root);
  // Zooming, or moving to another screen, changes the pixel ratio; a query reports only that its own ratio no longer holds.
  (function watch() {
    const query = window.matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
    query.addEventListener("change", () => (fit(), watch()), { once: true });
  })();
  for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
    window.matchMedia(query).addEventListener("change", fit); // curves have colours too
  }
})();
