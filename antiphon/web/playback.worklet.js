// Plays queued chunks back to back on the audio clock and counts, per item, what was played.
class Playback extends AudioWorkletProcessor {
  constructor() {
    super();
    this.total = this.underruns = this.sinceReport = 0;
    this.reset();
    this.port.onmessage = ({ data }) => {
      if (data.clear) this.clearing = true;
      else this.queue.push(data); // { item, samples } or, after an item's last chunk, { item, last }
    };
  }

  reset() {
    this.queue = [];
    this.item = null;
    this.offset = this.played = 0;
    this.clearing = this.starved = false;
  }

  process(_, [[out]]) {
    const filled = this.fill(out);
    if (this.clearing) {
      for (let i = 0; i < filled; i++) out[i] *= 1 - i / filled; // a short fade, not a click
      this.report({ cleared: true });
      this.reset();
      return true;
    }
    const starved = this.item !== null && filled < out.length;
    if (starved && !this.starved) this.underruns++;
    this.starved = starved;
    this.sinceReport += filled;
    if (this.sinceReport > sampleRate / 20) this.report({});
    return true;
  }

  fill(out) {
    let filled = 0;
    while (filled < out.length && this.queue.length) {
      const { item, samples, last } = this.queue[0];
      if (item !== this.item) [this.item, this.played] = [item, 0];
      if (last) {
        this.report({ finished: true });
        this.item = null;
      } else {
        const part = samples.subarray(this.offset, this.offset + out.length - filled);
        out.set(part, filled);
        filled += part.length;
        this.played += part.length;
        this.total += part.length;
        this.offset += part.length;
        if (this.offset < samples.length) break;
      }
      this.queue.shift();
      this.offset = 0;
    }
    return filled;
  }

  report(what) {
    const { item, played, total, underruns } = this;
    this.port.postMessage({ item, played, total, underruns, ...what });
    this.sinceReport = 0;
  }
}
registerProcessor("playback", Playback);
