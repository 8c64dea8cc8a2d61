// The page: three tasks behind tabs, each with a place for files, what is being done with them, and what came out.

import { copyOf, element, sizeOf } from "./elements.js";
import { about, Refused, run } from "./jobs.js";
import { render } from "./results.js";

let limits = null;

class Task {
  constructor(panel) {
    this.panel = panel;
    this.name = panel.id;
    this.form = panel.querySelector("form");
    this.input = panel.querySelector("input[type=file]");
    this.least = Number(panel.dataset.least);
    this.most = Number(panel.dataset.most ?? Infinity);
    this.files = [];
    this.used = false; // whether a job has been made of these files
    this.current = null;
    const work = copyOf("template-work");
    panel.append(work);
    for (const part of ["chosen", "run", "sample", "progress", "cancel", "status", "message", "result"]) {
      this[part] = work.querySelector(`.${part}`);
    }
    this.sample.textContent = `Try it with our ${panel.dataset.things}`;
    this.input.addEventListener("change", () => {
      this.add([...this.input.files]);
      this.input.value = ""; // the same file can be chosen again
    });
    this.run.addEventListener("click", () => this.start(this.files));
    this.sample.addEventListener("click", () => {
      this.files = [];
      this.start([]);
    });
    this.cancel.addEventListener("click", () => this.current?.abort());
  }

  /** Take files. A stack may come one by one; once it has been worked on, other files begin another. */
  add(files) {
    if (files.length === 0) return;
    this.files = this.used || this.most === 1 ? files : [...this.files, ...files];
    this.used = false;
    this.complain(null);
    this.list();
    if (this.files.length >= this.least) this.start(this.files);
    else this.status.textContent = "One picture so far. Add the others of the same scene.";
  }

  list() {
    this.chosen.replaceChildren(...this.files.map((file) =>
      element("li", {}, file.name, " ", element("small", {}, sizeOf(file.size)))));
    this.run.hidden = this.files.length < this.least;
    this.run.textContent = `${this.panel.dataset.verb} again`;
  }

  complain(message) {
    this.message.hidden = message === null;
    this.message.textContent = message ?? "";
  }

  /** Return what is wrong with files before they are sent, or null. */
  check(files) {
    if (files.length > this.most) return `Expected one ${this.panel.dataset.things} at a time, got ${files.length}.`;
    const bytes = files.reduce((sum, file) => sum + file.size, 0);
    if (limits && bytes > limits.megabytes * 1e6) {
      return `Expected at most ${limits.megabytes} MB at a time, got ${sizeOf(bytes)};`
        + " start the page with a larger --max-megabytes, or choose fewer or smaller files.";
    }
    return null;
  }

  async start(files) {
    this.current?.abort();
    const abort = new AbortController();
    this.current = abort;
    this.used = true;
    this.list();
    this.complain(this.check(files));
    this.result.hidden = true;
    this.result.replaceChildren();
    if (!this.message.hidden) {
      this.status.textContent = "";
      return;
    }
    const form = new FormData(this.form);
    form.delete("files");
    if (files.length === 0) form.set("sample", "yes");
    for (const file of files) form.append("files", file, file.name);
    this.busy(true);
    this.show(files.length ? "Handing over the files" : `Preparing our ${this.panel.dataset.things}`, null);
    try {
      const job = await run(this.name, form, abort.signal, (now) => {
        if (this.current === abort) this.follow(now);
      });
      if (this.current === abort) this.finish(job);
    } catch (error) {
      if (this.current !== abort) return;
      this.status.textContent = error.name === "AbortError" ? "Cancelled." : "";
      if (error instanceof Refused) this.complain(error.message);
      else if (error.name !== "AbortError") throw error;
    } finally {
      if (this.current === abort) {
        this.busy(false);
        this.current = null;
      }
    }
  }

  busy(is) {
    this.progress.hidden = !is;
    this.run.disabled = is;
    this.sample.disabled = is;
    this.panel.setAttribute("aria-busy", is);
    this.panel.classList.toggle("small-drop", is || !this.result.hidden);
  }

  show(text, share) {
    this.status.textContent = `${text} …`;
    const bar = this.progress.querySelector("progress");
    if (share) bar.value = share;
    else bar.removeAttribute("value");
    bar.setAttribute("aria-label", text);
  }

  follow(job) {
    if (job.state === "waiting") {
      this.show(job.before > 0 ? `Waiting; ${job.before} before this one` : "Waiting", null);
    } else if (job.state === "running") {
      this.show(job.phase || "Beginning", job.share);
    }
  }

  finish(job) {
    this.status.textContent = "";
    if (job.state === "failed") this.complain(job.message);
    if (job.state === "cancelled") this.status.textContent = "Cancelled.";
    if (job.state !== "done") return;
    this.status.textContent = job.seconds < 0.1 ? "Done." : `Done in ${job.seconds.toFixed(1)} seconds.`;
    this.result.replaceChildren(...render(this.name, job));
    this.result.hidden = false;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.result.scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "nearest" });
  }
}

const tabs = [...document.querySelectorAll("[role=tab]")];
const tasks = tabs.map((tab) => new Task(document.getElementById(tab.getAttribute("aria-controls"))));
const active = () => tasks[tabs.findIndex((tab) => tab.getAttribute("aria-selected") === "true")];

function select(number, focus = true) {
  tabs.forEach((tab, n) => {
    tab.setAttribute("aria-selected", n === number);
    tab.tabIndex = n === number ? 0 : -1;
    tasks[n].panel.hidden = n !== number;
  });
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

// Nobody waits for the jobs of a page that is closed.
addEventListener("pagehide", () => tasks.forEach((task) => task.current?.abort()));

// Files may be dropped anywhere on the page; without this, a browser would leave the page and open them.
const over = (is) => active().panel.querySelector(".drop").classList.toggle("over", is);
addEventListener("dragover", (event) => {
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

try {
  limits = await about();
  document.getElementById("version").textContent = limits.version;
  for (const place of document.querySelectorAll(".drop-limits")) {
    const pictures = place.closest("#explore") ? "" : ` and ${limits.megapixels} megapixels`;
    place.textContent = `Up to ${limits.megabytes} MB${pictures} at a time`;
  }
} catch (error) {
  active().complain(error.message);
}
document.documentElement.dataset.ready = "yes";
