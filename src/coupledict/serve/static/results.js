// What a finished job looks like on the page.

import { compare } from "./compare.js";
import { element } from "./elements.js";

const ENLARGED = 2; // small results are shown larger than they are, so that there is something to see
const HEIGHT = 85; // percent of the window that a picture may take

const download = (job, picture, text, kind) =>
  element("a", { class: `button ${kind}`, href: `jobs/${job.id}/${picture.file}`, download: picture.name }, text);

function sizes(result) {
  const size = `${result.width} × ${result.height} pixels`;
  const deep = result.bits === 16 ? ", 16 bits" : "";
  return result.view === result.file || result.bits === 16 ? `${size}${deep}` : `${size}${deep}, shown smaller here`;
}

function frame(job, shown) {
  const address = (picture) => ({ label: picture.label, address: `jobs/${job.id}/${picture.view}` });
  const { width, height } = shown.result;
  const most = `min(${ENLARGED * width}px, ${(HEIGHT * width) / height}vh)`;
  return compare(address(shown.before[0]), address(shown.result), most);
}

function fused(job, shown) {
  const { figure, show } = frame(job, shown);
  const select = element("select", {}, ...shown.before.map((picture, number) =>
    element("option", { value: number }, picture.label)));
  select.addEventListener("change", () => {
    const picture = shown.before[Number(select.value)];
    show({ label: picture.label, address: `jobs/${job.id}/${picture.view}` });
  });
  const shares = shown.shares.map((source) => {
    const swatch = element("i", { "aria-hidden": "true" });
    swatch.style.background = source.colour;
    return element("li", {}, swatch, source.label, element("b", {}, `${(100 * source.share).toFixed(1)} %`));
  });
  return [
    element("h2", {}, "Sharp everywhere"),
    figure,
    element("div", { class: "toolbar" },
      download(job, shown.result, "Download the picture", "primary"),
      element("label", {}, element("span", {}, "Compare with"), select)),
    element("p", { class: "note" }, `${shown.result.name}, ${sizes(shown.result)}. ${shown.note}`),
    element("div", { class: "decision" },
      element("figure", {}, element("img", { src: `jobs/${job.id}/${shown.map.view}`, class: "map",
        alt: "Decision map: a colour for each picture, where the result is taken from it" })),
      element("div", {},
        element("h2", {}, "Which picture each place is from"),
        element("ul", { class: "shares" }, ...shares),
        download(job, shown.map, "Download the map", ""))),
  ];
}

function enlarged(job, shown) {
  const { figure } = frame(job, shown);
  return [
    element("h2", {}, `${shown.source.width} × ${shown.source.height} pixels became ${sizes(shown.result)}`),
    figure,
    element("div", { class: "toolbar" }, download(job, shown.result, "Download the picture", "primary")),
    element("p", { class: "note" },
      `${shown.result.name}. On the left is the usual enlargement (bicubic), on the right ours. ${shown.note}`),
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

const KINDS = { fuse: fused, enlarge: enlarged, explore: explored };

export const render = (task, job) => KINDS[task](job, job.result);
