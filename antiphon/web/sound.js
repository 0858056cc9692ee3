// The microphone in, the replies out: both through worklets, both at the context's own rate.
const MAX_RATE = 48000; // what the server takes
const MICROPHONE = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };

export class Sound {
  playing = null; // item whose audio is queued or sounding
  microphone = null;
  #dropped = null; // item whose remaining audio is unwanted
  #silenced = () => {}; // tells who waits that the interruption has been reported

  // on.frame(base64, level), on.cut(item, heardMs), on.quiet(); stats is filled for whoever looks.
  constructor(on, stats) {
    this.on = on;
    this.stats = stats;
  }

  get rate() {
    return this.context.sampleRate;
  }

  async open() {
    if (!window.isSecureContext) throw new Error("Browsers give sound only to https and localhost pages.");
    if (!this.context) {
      let context = new AudioContext();
      if (context.sampleRate > MAX_RATE) context = new AudioContext({ sampleRate: MAX_RATE });
      const load = (name) => context.audioWorklet.addModule(new URL(`${name}.worklet.js`, import.meta.url));
      await Promise.all([load("capture"), load("playback")]);
      this.player = new AudioWorkletNode(context, "playback", { numberOfInputs: 0, outputChannelCount: [1] });
      this.player.port.onmessage = ({ data }) => this.#report(data);
      this.player.connect(context.destination);
      this.context = context;
    }
    await this.context.resume();
  }

  async openMicrophone() {
    this.microphone = await navigator.mediaDevices.getUserMedia({ audio: MICROPHONE });
    const options = { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" };
    this.capture = new AudioWorkletNode(this.context, "capture", options);
    this.capture.port.onmessage = ({ data: { pcm, level } }) => {
      this.on.frame(btoa(String.fromCharCode(...new Uint8Array(pcm))), level);
    };
    this.source = this.context.createMediaStreamSource(this.microphone); // kept: else it is collected
    this.source.connect(this.capture);
  }

  closeMicrophone() {
    this.microphone?.getTracks().forEach((track) => track.stop());
    this.source?.disconnect();
    this.microphone = this.source = null;
  }

  play(item, base64) {
    if (item === this.#dropped) return;
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const samples = Float32Array.from(new Int16Array(bytes.buffer), (s) => s / 32768);
    this.stats.samplesReceived += samples.length;
    this.playing = item;
    this.player.port.postMessage({ item, samples }, [samples.buffer]);
  }

  end(item) {
    if (item !== this.#dropped) this.player.port.postMessage({ item, last: true });
  }

  // Silences the reply; settles when on.cut has been told how much of it was heard.
  async interrupt() {
    if (!this.playing) return;
    this.#dropped = this.playing;
    this.playing = null;
    this.player.port.postMessage({ clear: true });
    await new Promise((resolve) => (this.#silenced = resolve));
  }

  #report({ item, played, total, underruns, cleared, finished }) {
    Object.assign(this.stats, { samplesPlayed: total, underruns });
    if (cleared && item) {
      const onItsWay = this.context.outputLatency || 0; // seconds between the worklet and the ear
      this.stats.clears++;
      this.on.cut(item, Math.max(0, Math.floor((played / this.rate - onItsWay) * 1000)));
    }
    if (cleared) this.#silenced();
    if (finished && item === this.playing) this.playing = null;
    if (!this.playing && (cleared || finished)) this.on.quiet();
  }
}
