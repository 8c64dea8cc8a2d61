// Players, one at a time. A player starts where the other one is, so that the two can be compared.

import { element } from "./elements.js";

const GONE = "The browser could not play this; download it instead.";

export function players(sounds) {
  const made = sounds.map(({ label, address }) => {
    const audio = element("audio", { controls: true, preload: "metadata", src: address, "aria-label": label });
    const caption = element("figcaption", {}, element("b", {}, label));
    audio.addEventListener("error", () => caption.append(element("small", { role: "alert" }, GONE)));
    return { audio, figure: element("figure", {}, caption, audio) };
  });
  for (const { audio } of made) {
    audio.addEventListener("play", () => {
      for (const { audio: other } of made) {
        if (other === audio || other.paused) continue;
        other.pause();
        audio.currentTime = other.currentTime;
      }
    });
  }
  return element("div", { class: "players" }, ...made.map(({ figure }) => figure));
}
