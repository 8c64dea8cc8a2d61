// How much time a job will still take, as people like to hear it: late rather than wrong, and steady.

const LEAST_SECONDS = 2; // before that, a rate means nothing
const LEAST_SHARE = 0.02;
const MEMORY = 4; // seconds over which a new rate takes over from an old one
const SLACK = 1.25; // the time left is told to have grown only if it has grown by more than this

/** Return a time in words, rounded up to steps that one can read before they change. */
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
    this.told = Infinity; // seconds that were told last, and count down
  }

  /** Return the time that is left, in words, after some seconds of work and a share of it; empty if nobody knows. */
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
    if (this.left < this.told || this.left > SLACK * this.told + 2) this.told = this.left;
    return inWords(this.told);
  }
}
