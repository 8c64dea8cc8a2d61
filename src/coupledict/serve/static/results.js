// What a finished job looks like on the page.

import { compare } from "./compare.js";
import { bringIntoSight, element, sizeOf } from "./elements.js";
import { prepare } from "./jobs.js";
import { players } from "./players.js";

const ENLARGED = 2; // small results are shown larger than they are, so that there is something to see
const HEIGHT = 85; // percent of the window that a picture may take
const LEAST_MOVED = 0.05; // pixels that are worth mentioning

const size = (picture) => `${picture.width} × ${picture.height} pixels`;

const download = (job, picture, text, kind) =>
  element("a", { class: `button ${kind}`, href: `jobs/${job.id}/${picture.file}`, download: picture.name }, text);

const shownAs = (job, picture) => ({
  ...picture,
  view: `jobs/${job.id}/${picture.view}`,
  tiles: `jobs/${job.id}/tiles/${picture.picture}`,
});

function frame(job, shown) {
  const { width, height } = shown.result;
  const most = `min(${ENLARGED * width}px, ${(HEIGHT * width) / height}vh)`;
  return compare(shownAs(job, shown.before[0]), shownAs(job, shown.result), most);
}

/**
 * Return a link to the result, a choice of its format, a description of the file, and a place for error messages.
 * `describe` says what is in a file of some format.
 */
function saving(job, result, text, describe) {
  const link = element("a", { class: "button primary" });
  const about = element("span", { role: "status" });
  const wrong = element("p", { class: "message", role: "alert", hidden: true });
  const select = element("select", {}, ...result.formats.map((entry) =>
    element("option", { value: entry.format, selected: entry.format === result.format }, entry.format)));
  const choose = async () => {
    const entry = result.formats.find((candidate) => candidate.format === select.value);
    const address = `jobs/${job.id}/${entry.file}`;
    const current = () => select.value === entry.format;
    link.removeAttribute("href"); // until the file exists
    link.textContent = `Writing ${entry.format} …`;
    about.textContent = "";
    wrong.hidden = true;
    try {
      const bytes = await prepare(address);
      if (!current()) return;
      about.textContent = `${entry.name}, ${describe(entry.format)}, ${sizeOf(bytes)}.`;
      link.href = address;
      link.download = entry.name;
    } catch (error) {
      if (!current()) return;
      wrong.hidden = false;
      wrong.textContent = error.message;
      bringIntoSight(wrong);
    }
    if (current()) link.textContent = text;
  };
  select.addEventListener("change", choose);
  choose();
  return { link, choice: element("label", {}, element("span", {}, "as"), select), about, wrong };
}

function savingPicture(job, { result }) {
  const bits = (format) => (result.bits === 8 ? "" : format === "JPEG" ? ", 8 of 16 bits" : ", 16 bits");
  return saving(job, result, "Download the picture", (format) => `${size(result)}${bits(format)}`);
}

function source(facts) {
  const swatch = element("i", { "aria-hidden": "true" });
  swatch.style.background = facts.colour;
  const moved = facts.moved > LEAST_MOVED ? `Moved by up to ${facts.moved.toFixed(1)} pixels.` : "";
  const remarks = [moved, facts.note].filter(Boolean).join(" ");
  return element("li", {}, swatch,
    element("span", {}, facts.label, remarks ? element("small", {}, remarks) : null),
    element("b", {}, `${(100 * facts.share).toFixed(1)} %`));
}

function fused(job, shown) {
  const { figure, show } = frame(job, shown);
  const select = element("select", {}, ...shown.before.map((picture, number) =>
    element("option", { value: number }, picture.label)));
  select.addEventListener("change", () => show(shownAs(job, shown.before[Number(select.value)])));
  const { link, choice, about, wrong } = savingPicture(job, shown);
  const whole = shown.result.width === shown.source.width && shown.result.height === shown.source.height;
  const cropped = whole ? "" : ` Of ${size(shown.source)}, only the area that all pictures show is kept.`;
  const unaligned = shown.shares.filter((facts) => facts.note);
  return [
    element("h2", {}, "Sharp everywhere"),
    ...unaligned.map((facts) => element("p", { class: "remark" }, element("b", {}, facts.label), `: ${facts.note}`)),
    figure,
    element("div", { class: "toolbar" },
      element("div", { class: "saving" }, link, choice),
      element("label", {}, element("span", {}, "Compare with"), select)),
    wrong,
    element("p", { class: "note" }, about, `${cropped} ${shown.note}`),
    element("div", { class: "decision" },
      element("figure", {}, element("img", { src: `jobs/${job.id}/${shown.map.view}`, class: "map",
        alt: "Decision map: the colour of each pixel shows which picture it is taken from" })),
      element("div", {},
        element("h2", {}, "Source of each pixel"),
        element("ul", { class: "shares", role: "list" }, ...shown.shares.map(source)),
        download(job, shown.map, "Download the map", ""))),
  ];
}

function enlarged(job, shown) {
  const { figure } = frame(job, shown);
  const { link, choice, about, wrong } = savingPicture(job, shown);
  return [
    element("h2", {}, `${size(shown.source)} became ${size(shown.result)}`),
    figure,
    element("div", { class: "toolbar" }, element("div", { class: "saving" }, link, choice)),
    wrong,
    element("p", { class: "note" }, about,
      ` Left: the usual enlargement (bicubic); right: ours. ${shown.note}`),
  ];
}

function explored(job, shown) {
  const address = `jobs/${job.id}/${shown.page}`;
  const views = shown.views === 1 ? "" : ` in ${shown.views} views`;
  return [
    element("h2", {}, `${shown.atoms} atoms${views}`),
    element("div", { class: "toolbar" },
      element("a", { class: "button primary", href: address, target: "_blank", rel: "noopener" }, "Open in its own tab"),
      download(job, { file: shown.page, name: shown.name }, "Download the page", "")),
    element("iframe", { src: address, sandbox: "allow-scripts", title: `Atoms of ${shown.title}` }),
  ];
}

const kilohertz = (hertz) => `${Number((hertz / 1000).toFixed(1))} kHz`;
const BANDS = { narrow: "narrow-band speech", telephone: "telephone speech", wide: "wide-band sound" };
const LEFT = {
  wide: "It already has a high band. If there is only noise above 4 kHz, choose Narrow above, and widen it again.",
  unknown: "There is too little sound to measure its band; choose Narrow or Telephone above, and widen it again.",
};
const SPECTRA = "Spectrograms: time from left to right, frequency from 0 at the bottom to 8 kHz at the top; lighter is"
  + " louder.";

function found({ label, band, measured, channels, rate, seconds }) {
  const what = BANDS[band.kind] ? `${BANDS[band.kind]}, up to ${kilohertz(band.high)}` : "hardly any sound";
  const details = `${channels} ${channels === 1 ? "channel" : "channels"} at ${kilohertz(rate)}, ${seconds.toFixed(1)} s`;
  return element("p", { class: "found" }, element("b", {}, label), `: ${what} (${measured ? "measured" : "as given"}),`
    + ` ${details}.`);
}

function widened(job, shown) {
  const { source } = shown;
  const address = (file) => `jobs/${job.id}/${file}`;
  if (!shown.widened) {
    return [
      element("h2", {}, "Nothing was added"),
      found(source),
      element("p", { class: "remark" }, LEFT[source.band.kind]),
      players([{ label: "Your recording", address: address(shown.before) }]),
    ];
  }
  const { link, choice, about, wrong } = saving(job, shown.result, "Download the sound",
    () => `${kilohertz(shown.result.rate)}, ${source.seconds.toFixed(1)} s`);
  const [before, after] = shown.spectra.map((picture) => shownAs(job, picture));
  const { figure } = compare(before, after, "100%", SPECTRA);
  figure.classList.add("spectra");
  const clipped = shown.clipped && `${shown.clipped} samples were too loud for the file and were clipped; make the recording`
    + " quieter first.";
  return [
    element("h2", {}, "With a band up to 8 kHz"),
    found(source),
    clipped ? element("p", { class: "remark" }, clipped) : null,
    players([{ label: "Before", address: address(shown.before) }, { label: "After", address: address(shown.after) }]),
    figure,
    element("div", { class: "toolbar" }, element("div", { class: "saving" }, link, choice)),
    wrong,
    element("p", { class: "note" }, about, ` ${shown.note}`),
  ].filter((part) => part !== null);
}

const KINDS = { fuse: fused, enlarge: enlarged, widen: widened, explore: explored };

export const render = (task, job) => KINDS[task](job, job.result);
