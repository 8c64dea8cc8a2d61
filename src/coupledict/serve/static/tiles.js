// A picture pixel by pixel: its visible tiles lie over a smaller version of the whole.

import { element } from "./elements.js";

const AROUND = 1; // tiles kept beyond the edge, so that moving back and forth reloads nothing

export class Tiles {
  constructor(place) {
    this.place = place;
    this.tiles = new Map();
  }

  show(picture) {
    this.clear();
    this.picture = picture;
  }

  clear() {
    this.tiles.forEach((tile) => tile.remove());
    this.tiles.clear();
  }

  /** Show the tiles of a part, given in CSS pixels; `ratio` is the number of screen pixels per CSS pixel. */
  paint(ratio, left, top, width, height) {
    const { tile: side, width: pixelWidth, height: pixelHeight } = this.picture;
    const last = { row: Math.ceil(pixelHeight / side) - 1, column: Math.ceil(pixelWidth / side) - 1 };
    const first = (start) => Math.floor((start * ratio) / side);
    const rows = [first(top), Math.min(last.row, first(top + height))];
    const columns = [first(left), Math.min(last.column, first(left + width))];
    for (const [name, tile] of this.tiles) {
      const [row, column] = name.split("/").map(Number);
      const far = row < rows[0] - AROUND || row > rows[1] + AROUND || column < columns[0] - AROUND
        || column > columns[1] + AROUND;
      if (far || this.ratio !== ratio) {
        tile.remove();
        this.tiles.delete(name);
      }
    }
    this.ratio = ratio;
    for (let row = rows[0]; row <= rows[1]; row += 1) {
      for (let column = columns[0]; column <= columns[1]; column += 1) this.load(row, column);
    }
  }

  load(row, column) {
    const name = `${row}/${column}`;
    if (this.tiles.has(name)) return;
    const { tile: side, width, height, tiles } = this.picture;
    const image = element("img", { class: "tile", alt: "", draggable: "false" });
    image.style.left = `${(column * side) / this.ratio}px`;
    image.style.top = `${(row * side) / this.ratio}px`;
    image.style.width = `${Math.min(side, width - column * side) / this.ratio}px`;
    image.style.height = `${Math.min(side, height - row * side) / this.ratio}px`;
    image.addEventListener("error", () => image.remove()); // the smaller version stays visible
    image.src = `${tiles}/${name}`;
    this.tiles.set(name, image);
    this.place.append(image);
  }
}
