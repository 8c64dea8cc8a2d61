// Jobs as the server knows them: begun by an upload, asked after until they are over.

const PAUSES = [50, 100, 150, 250]; // milliseconds between two questions; the last one goes on

export class Refused extends Error {}

async function ask(address, options) {
  let answer;
  try {
    answer = await fetch(address, { ...options, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The program does not answer; is coupledict serve still running in its terminal?");
  }
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(told.message ?? `The program could not do this (${answer.status}).`);
  return told;
}

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export const about = () => ask("about");

/** Do a task; `tell` is called with each of its states. Resolves with the job when it is over, whichever way. */
export async function run(task, form, signal, tell) {
  let job = await ask(`jobs/${task}`, { method: "POST", body: form, signal });
  const cancel = () => ask(`jobs/${job.id}`, { method: "DELETE", keepalive: true }).catch(() => {});
  if (signal.aborted) cancel();
  signal.addEventListener("abort", cancel);
  try {
    for (let asked = 0; ; asked += 1) {
      tell(job);
      if (!["waiting", "running"].includes(job.state)) return job;
      await wait(PAUSES[Math.min(asked, PAUSES.length - 1)]);
      job = await ask(`jobs/${job.id}`);
    }
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}
