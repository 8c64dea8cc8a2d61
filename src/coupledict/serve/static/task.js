// One task of the page: its files, its progress, and its result.

import { Chosen } from "./chosen.js";
import { bringIntoSight, copyOf, element, sizeOf } from "./elements.js";
import { begin, cancel, find, follow, isOver, Refused, remember, remembered } from "./jobs.js";
import { render } from "./results.js";
import { TimeLeft } from "./timing.js";

const HANDING = 0.05; // share of the bar for the upload, which is quick on one machine
const COMPRESSED = /\.(jpe?g|webp|hei[cf]|avif)$/i;
const DEEP = /\.(tiff?|dng|cr[23w]|nef|nrw|arw|raf|orf|rw2|pef|srw)$/i;

/** Describe a strength of the high band. */
const inWords = (strength) => {
  if (strength === 0) return "0, hardly audible";
  return `${strength}, ${strength < 0.4 ? "careful" : strength < 0.75 ? "as predicted" : "as loud as speech"}`;
};

/** Work in progress: an upload, and then a job. */
class Run {
  constructor(handing, id = null) {
    this.handing = handing; // share of the bar for the upload
    this.id = id;
    this.left = new TimeLeft();
    this.abort = new AbortController();
  }

  /** Ask it to end; its job reports the end. */
  cancel() {
    if (this.id === null) this.abort.abort();
    else cancel(this.id);
  }

  /** End it without waiting for it. */
  leave() {
    this.cancel();
    this.abort.abort();
  }
}

export class Task {
  constructor(panel, limits) {
    this.panel = panel;
    this.name = panel.id;
    this.limits = limits; // a function, because they are known only later
    this.form = panel.querySelector("form");
    this.input = panel.querySelector("input[type=file]");
    this.title = panel.querySelector(".drop-title");
    this.least = Number(panel.dataset.least);
    this.most = Number(panel.dataset.most ?? Infinity);
    this.current = null;
    this.lacking = false;
    const work = copyOf("template-work");
    panel.append(work);
    this.work = work;
    for (const part of ["run", "sample", "progress", "figures", "cancel", "status", "message", "result"]) {
      this[part] = work.querySelector(`.${part}`);
    }
    this.titles = [this.title.textContent, this.title.dataset.more ?? this.title.textContent];
    this.chosen = new Chosen(this.most, () => this.list(), (text) => this.tell(text));
    panel.querySelector(".drop").after(this.chosen.block);
    this.sample.textContent = `Try it with our ${panel.dataset.things}`;
    this.input.addEventListener("change", () => {
      this.add([...this.input.files]);
      this.input.value = ""; // so that the same file can be chosen again
    });
    this.run.addEventListener("click", () => this.start(this.chosen.files));
    this.sample.addEventListener("click", () => this.start([]));
    this.cancel.addEventListener("click", () => this.current?.cancel());
    this.prepareOptions();
  }

  prepareOptions() {
    const { register, keep_size: keepSize, format, strength } = this.form.elements;
    if (register) {
      const update = () => { keepSize.disabled = !register.checked; }; // pictures that are not aligned keep their size
      register.addEventListener("change", update);
      update();
    }
    if (strength) {
      const output = this.form.querySelector("output");
      const update = () => {
        output.textContent = inWords(Number(strength.value));
        strength.setAttribute("aria-valuetext", output.textContent);
      };
      strength.addEventListener("input", update);
      update();
    }
    this.formatChosen = false;
    for (const choice of format ?? []) choice.addEventListener("change", () => { this.formatChosen = true; });
  }

  tell(text) {
    this.status.textContent = text;
  }

  /** Take files. The user says when a stack is complete; other tasks begin at once. */
  add(files) {
    if (files.length === 0 || this.lacking) return;
    if (this.most === 1) {
      this.start(files);
      return;
    }
    if (!this.current) this.tell("");
    this.chosen.add(files);
  }

  /** Update the page after a change of the list of files. */
  list() {
    const { files } = this.chosen;
    const { verb, things } = this.panel.dataset;
    this.title.textContent = this.titles[files.length ? 1 : 0];
    this.run.hidden = files.length === 0;
    this.run.disabled = files.length < this.least || this.current !== null;
    this.run.textContent = this.most === 1 ? `${verb} again` : `${verb} ${files.length} ${things}`;
    if (files.length < this.least) {
      this.run.textContent = verb;
      if (files.length && !this.current) this.tell("One picture so far. Add the others of the same scene.");
    }
    this.shrink();
    if (!this.formatChosen && this.form.elements.format && files.length) {
      const is = (kind) => files.every((file) => kind.test(file.name));
      this.form.elements.format.value = is(COMPRESSED) ? "JPEG" : is(DEEP) ? "TIFF" : "PNG";
    }
  }

  /** Show an error, scrolled into view, until the next attempt. */
  complain(message, scroll = true) {
    this.message.hidden = message === null;
    this.message.textContent = message ?? "";
    if (message !== null && scroll) bringIntoSight(this.message);
  }

  /** Say what is missing on this machine, and disable the task. */
  lack(text) {
    this.lacking = true;
    this.form.hidden = true;
    this.work.hidden = true;
    const [reason, command] = text.split(/(?=pip install )/);
    const words = element("p", { class: "remark lacking" }, reason, command ? element("code", {}, command) : null);
    this.panel.querySelector(".about").after(words);
  }

  /** Return what is wrong with files before they are sent, or null. */
  check(files) {
    if (files.length > this.most) return `Expected one ${this.panel.dataset.things} at a time, got ${files.length}.`;
    const limits = this.limits();
    const bytes = files.reduce((sum, file) => sum + file.size, 0);
    if (limits && files.length > limits.files) {
      return `Expected at most ${limits.files} files at a time, got ${files.length}.`;
    }
    if (limits && bytes > limits.megabytes * 1e6) {
      return `Expected at most ${limits.megabytes} MB at a time, got ${sizeOf(bytes)};`
        + " start the page with a larger --max-megabytes, or choose fewer or smaller files.";
    }
    return null;
  }

  fill(files) {
    const form = new FormData(this.form);
    form.delete("files");
    const { register } = this.form.elements;
    if (register) form.set("register", register.checked ? "yes" : "no");
    if (files.length === 0) {
      form.set("sample", "yes");
      form.delete("format"); // the program knows the format of the samples
    }
    for (const file of files) form.append("files", file, file.name);
    return form;
  }

  async start(files) {
    this.current?.leave();
    this.complain(this.check(files));
    if (!this.message.hidden) {
      this.current = null;
      this.busy(false);
      this.tell("");
      return;
    }
    this.result.hidden = true;
    this.result.replaceChildren();
    remember(this.name, null);
    const run = new Run(files.length ? HANDING : 0);
    this.current = run;
    if (this.most === 1) this.chosen.add(files);
    const text = files.length ? "Uploading the files" : `Preparing our ${this.panel.dataset.things}`;
    const show = (share) => {
      if (this.current === run) this.show(text, share === null ? null : run.handing * share);
    };
    this.busy(true);
    show(files.length ? 0 : null);
    bringIntoSight(this.progress);
    await this.carry(run, async () => {
      const job = await begin(this.name, this.fill(files), run.abort.signal, show);
      run.id = job.id;
      if (run.abort.signal.aborted) run.cancel();
      else remember(this.name, { id: run.id, handing: run.handing });
    });
  }

  /** Resume the job that this tab began before a reload, or show its result. */
  async resume() {
    const known = remembered(this.name);
    if (known === null) return;
    const run = new Run(known.handing, known.id);
    try {
      const job = await find(run.id);
      if (this.current) return; // another one has begun meanwhile
      if (isOver(job)) {
        this.finish(job, false);
        this.shrink();
        return;
      }
    } catch (error) {
      remember(this.name, null); // it is no longer kept, or belonged to another run of the program
      return;
    }
    this.current = run;
    this.busy(true);
    await this.carry(run, () => {});
  }

  /** Do something first, and then follow the job of a run to its end. */
  async carry(run, first) {
    try {
      await first();
      const job = await follow(run.id, run.abort.signal, (now) => {
        if (this.current === run) this.follow(run, now);
      });
      if (this.current === run) this.finish(job, true);
    } catch (error) {
      if (this.current !== run) return;
      this.tell(error.name === "AbortError" ? "Cancelled." : "");
      if (error instanceof Refused) this.complain(error.message);
      else if (error.name !== "AbortError") throw error;
    } finally {
      if (this.current === run) {
        this.current = null;
        this.busy(false);
      }
    }
  }

  busy(is) {
    this.progress.hidden = !is;
    this.sample.disabled = is;
    this.panel.setAttribute("aria-busy", is);
    this.list();
  }

  shrink() {
    const small = this.current !== null || !this.result.hidden || this.chosen.files.length > 0;
    this.panel.classList.toggle("small-drop", small);
  }

  /** Show the progress; `left` is the time left, in words. */
  show(text, share, left = "") {
    const status = `${text} …`;
    if (this.status.textContent !== status) this.tell(status); // screen readers read it only when it changes
    const bar = this.progress.querySelector("progress");
    if (share === null) bar.removeAttribute("value");
    else bar.value = share;
    bar.setAttribute("aria-label", text);
    const percent = share === null ? "" : `${Math.floor(100 * share)} %`;
    this.figures.textContent = left ? `${percent} · ${left}` : percent;
  }

  follow(run, job) {
    if (job.state === "waiting") {
      this.show(job.before > 0 ? `Waiting; ${job.before} before this one` : "Waiting", null);
    } else if (job.state === "running") {
      const known = job.share !== null;
      const share = known ? run.handing + (1 - run.handing) * job.share : null;
      this.show(job.phase || "Beginning", share, known ? run.left.tell(job.elapsed, job.share) : "");
    }
  }

  finish(job, scroll) {
    this.tell("");
    if (job.state === "cancelled") remember(this.name, null); // an error is shown again after a reload
    if (job.state === "failed") this.complain(job.message, scroll);
    if (job.state === "cancelled") this.tell("Cancelled.");
    if (job.state !== "done") return;
    this.tell(job.seconds < 0.1 ? "Done." : `Done in ${job.seconds.toFixed(1)} seconds.`);
    this.result.replaceChildren(...render(this.name, job));
    this.result.hidden = false;
    if (!scroll) return;
    bringIntoSight(this.result);
  }
}
