// A spoken conversation with the server that sent this page, over its Realtime WebSocket.
import { Sound } from "./sound.js";

const $ = (id) => document.getElementById(id);
const stats = (window.antiphonStats = {
  framesSent: 0, partials: 0, finals: [], replies: [], samplesReceived: 0, samplesPlayed: 0,
  underruns: 0, clears: 0, truncations: [], latencyMs: null, errors: [],
});
const sound = new Sound({
  frame(audio, level) {
    $("level").style.setProperty("--level", Math.min(1, level * 4).toFixed(3));
    if (send({ type: "input_audio_buffer.append", audio })) stats.framesSent++;
  },
  cut(item_id, audio_end_ms) {
    stats.truncations.push({ item_id, audio_end_ms });
    send({ type: "conversation.item.truncate", item_id, content_index: 0, audio_end_ms });
    $(item_id)?.classList.add("cut");
  },
  quiet: () => show(responding ? "Thinking" : "Listening"),
}, stats);

let socket = null;
let opening = null; // settles when the server has taken our settings, or refused
let responding = false; // between response.created and response.done
let replyWanted = false; // a typed message waits until the interrupted reply has ended
let askedAt = null; // when the turn ended that has not been answered yet

function show(status) {
  $("status").textContent = socket ? status : "Not connected";
  document.body.dataset.state = socket ? "on" : "off";
  $("talk").textContent = sound.microphone ? "Stop" : "Start talking";
  $("talk").classList.toggle("stop", Boolean(sound.microphone));
}

function fail(message) {
  stats.errors.push(message);
  $("error").textContent = message;
  $("error").hidden = false;
}

function write(id, role, text, { whole = false } = {}) {
  const attributes = { id, className: `turn ${role} live` };
  const line = $(id) ?? $("transcript").appendChild(Object.assign(document.createElement("p"), attributes));
  line.textContent = whole ? text : line.textContent + text;
  if (whole) {
    line.classList.remove("live");
    $("announce").textContent = `${role === "user" ? "You" : "Antiphon"}: ${text}`;
    if (!text) line.remove(); // nobody spoke
  }
  $("transcript").scrollTop = $("transcript").scrollHeight;
}

const on = {
  "session.created"() {
    const format = { type: "audio/pcm", rate: sound.rate };
    const input = { format, transcription: { model: "whisper-1" } };
    send({ type: "session.update", session: { type: "realtime", audio: { input, output: { format } } } });
  },
  "error": ({ error }) => fail(error.message),
  "input_audio_buffer.speech_started"({ item_id }) {
    sound.interrupt();
    write(item_id, "user", "");
    show("Hearing you");
  },
  "input_audio_buffer.speech_stopped"() {
    askedAt = performance.now();
    show("Thinking");
  },
  "conversation.item.added"({ item }) {
    const typed = item.content?.find((part) => part.type === "input_text")?.text;
    if (item.role === "user" && typed) write(item.id, "user", typed, { whole: true });
  },
  "conversation.item.input_audio_transcription.delta"({ item_id, delta }) {
    stats.partials++;
    write(item_id, "user", delta);
  },
  "conversation.item.input_audio_transcription.completed"({ item_id, transcript }) {
    stats.finals.push(transcript);
    write(item_id, "user", transcript, { whole: true });
    if (!transcript) show("Listening");
  },
  "conversation.item.input_audio_transcription.failed": ({ error }) => fail(error.message),
  "response.created": () => (responding = true),
  "response.output_audio_transcript.delta": ({ item_id, delta }) => write(item_id, "assistant", delta),
  "response.output_audio_transcript.done"({ item_id, transcript }) {
    stats.replies.push(transcript);
    write(item_id, "assistant", transcript, { whole: true });
  },
  "response.output_audio.delta"({ item_id, delta }) {
    if (askedAt !== null) {
      stats.latencyMs = Math.round(performance.now() - askedAt);
      $("latency").textContent = `Answered in ${stats.latencyMs} ms`;
      askedAt = null;
    }
    sound.play(item_id, delta);
    if (sound.playing) show("Speaking");
  },
  "response.output_audio.done": ({ item_id }) => sound.end(item_id),
  "response.output_item.done": ({ item }) => $(item.id)?.classList.remove("live"),
  "response.done"({ response }) {
    responding = false;
    if (response.status === "failed") fail(response.status_details?.error?.message ?? "The reply failed.");
    if (replyWanted) send({ type: "response.create" });
    else if (!sound.playing) show("Listening");
    replyWanted = false;
  },
};

function send(event) {
  if (socket?.readyState !== WebSocket.OPEN) return false;
  socket.send(JSON.stringify(event));
  return true;
}

function connect() {
  const url = new URL("v1/realtime", document.baseURI);
  url.protocol = url.protocol.replace("http", "ws");
  const key = $("key").value.trim();
  sessionStorage.setItem("antiphon-key", key);
  return new Promise((resolve, reject) => {
    let settled = false;
    const mine = new WebSocket(url, ["realtime", ...(key ? [`openai-insecure-api-key.${key}`] : [])]);
    socket = mine;
    mine.onmessage = ({ data }) => {
      const event = JSON.parse(data);
      on[event.type]?.(event);
      if (event.type === "session.updated") resolve((settled = true));
    };
    mine.onclose = ({ code, reason }) => {
      if (socket !== mine) return; // we closed it
      stop();
      const lost = settled ? "The connection was lost." : "No connection. Is the server up, and does it ask for an API key?";
      const error = new Error(code === 1006 ? lost : `The server ended the conversation: ${reason || code}`);
      if (settled) explain(error);
      else reject(error);
    };
  });
}

async function start() {
  $("error").hidden = true;
  await sound.open();
  if (!socket) opening = connect();
  await opening;
}

function stop() {
  const closing = socket;
  socket = null;
  closing?.close(1000);
  sound.closeMicrophone();
  sound.interrupt();
  responding = replyWanted = false;
  $("level").style.setProperty("--level", 0);
  show();
}

const reasons = {
  NotAllowedError: "The browser refused the microphone. Allow it for this page, or type.",
  NotFoundError: "No microphone was found. You can still type.",
  SyntaxError: "This API key holds characters that a key cannot have.",
};
const explain = (error) => fail(reasons[error.name] ?? error.message);

$("talk").onclick = async () => {
  if (sound.microphone) return stop();
  $("talk").disabled = true;
  await start().then(() => sound.openMicrophone()).then(() => show("Listening"), explain);
  $("talk").disabled = false;
};

$("write").onsubmit = async (submitted) => {
  submitted.preventDefault();
  const text = $("message").value.trim();
  if (!text) return;
  await start().then(async () => {
    $("message").value = "";
    await sound.interrupt();
    const content = [{ type: "input_text", text }];
    send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
    replyWanted = responding; // one reply at a time
    send({ type: responding ? "response.cancel" : "response.create" });
    askedAt = performance.now();
    show("Thinking");
  }, explain);
};

$("key").value = sessionStorage.getItem("antiphon-key") ?? "";
