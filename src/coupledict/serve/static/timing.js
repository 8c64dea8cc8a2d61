// The time that a job will still take, shown late rather than wrong, and steadily.

const LEAST_SECONDS = 2; // before that, the rate is unreliable
const LEAST_SHARE = 0.02;
const MEMORY = 4; // seconds over which a new rate takes over from an old one
const SLACK = 1.25; // the displayed time grows only if the estimate has grown by more than this factor

/** Return a time in words, rounded up to steps that can be read before they change. */
export function inWords(seconds) {
  if (seconds <= 5) return "a few seconds left";
  if (seconds <= 60) return `about ${5 * Math.ceil(seconds / 5)} s left`;
  if (seconds <= 120) return `about ${10 * Math.ceil(seconds / 10)} s left`;
  return `about ${Math.ceil(seconds / 60)} min left`;
}

export class TimeLeft {
  constructor() {
    this.left = null; // seconds, at the time `at`
    this.at = 0;
    this.shown = Infinity; // seconds that were shown last, counting down
  }

  /** Return the time left, in words, after some seconds and a share of the work; empty if unknown. */
  tell(elapsed, share) {
    if (elapsed < LEAST_SECONDS || share < LEAST_SHARE || share >= 1) return "";
    const passed = Math.max(0, elapsed - this.at);
    const guess = (elapsed * (1 - share)) / share;
    if (this.left === null) {
      this.left = guess;
    } else {
      const expected = Math.max(0, this.left - passed);
      this.left = expected + (1 - Math.exp(-passed / MEMORY)) * (guess - expected);
    }
    this.at = elapsed;
    if (this.left < this.shown || this.left > SLACK * this.shown + 2) this.shown = this.left;
    return inWords(this.shown);
  }
}
