// Jobs on the server: started by an upload, watched until they end, found again after a reload.

const GONE = "The program does not answer; is coupledict serve still running in its terminal?";
const MOST_FAILURES = 5; // in a row, before the program counts as gone
const PAUSE = 200; // milliseconds after the first of them

export class Refused extends Error {}

const refusal = (reply, status) => new Refused(reply.message ?? `The program could not do this (${status}).`);
const aborted = () => new DOMException("It was cancelled.", "AbortError");
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
export const isOver = (job) => !["waiting", "running"].includes(job.state);

async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, { ...options, cache: "no-store" });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Refused(GONE);
  }
  const reply = await answer.json().catch(() => ({}));
  if (!answer.ok) throw refusal(reply, answer.status);
  return reply;
}

export const about = () => ask("about");
export const find = (id) => ask(`jobs/${id}`);
export const cancel = (id) => ask(`jobs/${id}`, { method: "DELETE", keepalive: true }).catch(() => {});

/** Make a file of a finished job unless it exists; return its size in bytes. */
export async function prepare(address) {
  const answer = await fetch(address, { method: "HEAD", cache: "no-store" }).catch(() => { throw new Refused(GONE); });
  await answer.text(); // which is empty
  if (!answer.ok) await ask(address); // which says why
  return Number(answer.headers.get("content-length"));
}

/** Begin a job; `tell` is called with the share of the form that has been sent. Only XMLHttpRequest knows it. */
export function begin(task, form, signal, tell) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `jobs/${task}`);
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) tell(event.loaded / event.total);
    });
    request.addEventListener("load", () => {
      if (request.status === 202) resolve(request.response);
      else reject(refusal(request.response ?? {}, request.status));
    });
    request.addEventListener("error", () => reject(new Refused(GONE)));
    request.addEventListener("abort", () => reject(aborted()));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

async function readLines(address, signal, tell) {
  const answer = await fetch(address, { signal, cache: "no-store" });
  if (!answer.ok) throw refusal(await answer.json().catch(() => ({})), answer.status);
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (text + decoder.decode(part.value, { stream: true })).split("\n");
    text = lines.pop();
    lines.forEach((line) => tell(JSON.parse(line)));
  }
}

/**
 * Watch a job by a request that stays open: it keeps the job going, also while the tab is in the background, where
 * timers hardly run. `tell` is called with each state. Resolves with the job when it ends, in whatever way.
 */
export async function follow(id, signal, tell) {
  let last = null;
  for (let failures = 0; failures < MOST_FAILURES; failures += 1) {
    try {
      await readLines(`jobs/${id}/watch`, signal, (job) => {
        failures = 0;
        last = job;
        tell(job);
      });
      if (last && isOver(last)) return last;
    } catch (error) {
      if (error instanceof Refused || error.name === "AbortError") throw error;
    }
    if (signal.aborted) throw aborted();
    await wait(PAUSE * (failures + 1));
  }
  throw new Refused(GONE);
}

// The jobs of this tab, by task. A tab keeps them while it is open, even after a reload.

const PLACE = "coupledict-jobs";

function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(PLACE)) ?? {};
  } catch {
    return {}; // storage is not allowed
  }
}

export const remembered = (task) => stored()[task] ?? null;

export function remember(task, value) {
  try {
    sessionStorage.setItem(PLACE, JSON.stringify({ ...stored(), [task]: value }));
  } catch {
    // a reload then starts afresh
  }
}
