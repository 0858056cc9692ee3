// Turns the microphone into 20 ms frames of 16-bit PCM, at whatever rate the context has.
class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.frame = new Int16Array(Math.round(sampleRate / 50));
    this.filled = 0;
    this.energy = 0;
  }

  process([[input]]) {
    for (const sample of input ?? []) {
      const clipped = Math.max(-1, Math.min(1, sample));
      this.frame[this.filled++] = Math.round(clipped * 32767);
      this.energy += clipped * clipped;
      if (this.filled === this.frame.length) this.send();
    }
    return true;
  }

  send() {
    const pcm = this.frame.slice().buffer;
    const level = Math.sqrt(this.energy / this.filled);
    this.port.postMessage({ pcm, level }, [pcm]);
    this.filled = this.energy = 0;
  }
}
registerProcessor("capture", Capture);
