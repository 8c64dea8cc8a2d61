// The page: its tasks in tabs, and files that are dropped on it.

import { about, remember, remembered } from "./jobs.js";
import { Task } from "./task.js";

let limits = null;
const tabs = [...document.querySelectorAll("[role=tab]")];
const tasks = tabs.map((tab) => new Task(document.getElementById(tab.getAttribute("aria-controls")), () => limits));
const active = () => tasks[tabs.findIndex((tab) => tab.getAttribute("aria-selected") === "true")];

function select(number, focus = true) {
  tabs.forEach((tab, n) => {
    tab.setAttribute("aria-selected", n === number);
    tab.tabIndex = n === number ? 0 : -1;
    tasks[n].panel.hidden = n !== number;
  });
  remember("tab", number);
  if (focus) tabs[number].focus();
}

tabs.forEach((tab, number) => {
  tab.addEventListener("click", () => select(number));
  tab.addEventListener("keydown", (event) => {
    const last = tabs.length - 1;
    const to = { ArrowRight: number === last ? 0 : number + 1, ArrowLeft: number === 0 ? last : number - 1, Home: 0,
      End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    select(to);
  });
});

// Files may be dropped anywhere on the page; without this, a browser would leave the page and open them.
const hasFiles = (event) => event.dataTransfer?.types.includes("Files") ?? false;
const over = (is) => active().panel.querySelector(".drop").classList.toggle("over", is);
addEventListener("dragover", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  over(true);
});
addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) over(false);
});
addEventListener("drop", (event) => {
  event.preventDefault();
  over(false);
  active().add([...(event.dataTransfer?.files ?? [])]);
});

select(tabs[remembered("tab")] ? remembered("tab") : 0, false);
try {
  limits = await about();
  document.getElementById("version").textContent = limits.version;
  const sizes = {
    fuse: `up to ${limits.files} files, ${limits.megapixels} megapixels each and ${limits.megabytes} MB in all`,
    enlarge: `up to ${limits.megapixels} megapixels when enlarged, from at most ${limits.megabytes} MB`,
    widen: limits.megasamples ? `up to ${limits.megasamples} million samples, from at most ${limits.megabytes} MB` : "",
    explore: `up to ${limits.megabytes} MB`,
  };
  for (const task of tasks) {
    task.panel.querySelector(".limits").textContent = sizes[task.name] ? ` (${sizes[task.name]})` : "";
    if (limits.missing?.[task.name]) task.lack(limits.missing[task.name]);
  }
  // Formats that the program reads in addition to those that browsers know: HEIC, and raw camera files.
  for (const input of document.querySelectorAll("input[accept^='image/']")) {
    input.accept = [input.accept, ...limits.pictures].join(",");
  }
  const sounds = document.querySelector("#widen input[type=file]"); // suffixes of those that browsers do not know
  sounds.accept = [sounds.accept, ...(limits.sounds ?? [])].join(",");
  tasks.forEach((task) => task.resume());
} catch (error) {
  active().complain(error.message);
}
document.documentElement.dataset.ready = "yes";
