// The page around the viewer: files in, events in, pixels out. The viewer itself is C++ (viz/browser/web.cpp). A page may show
// several, each in a canvas; the script that holds the C++ code is loaded once.
"use strict";

// Browsers unpack gzip themselves, so the viewer in them needs no zlib. The limit is that of `ringscope view`.
const unpacked = async (bytes) => {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  const pieces = [];
  for (let left = 2 ** 30; ;) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(pieces).arrayBuffer());
    left -= value.length;
    if (left < 0) throw new Error("unpacks to more than 1 GiB; at most that much accepted");
    pieces.push(value);
  }
};

// Return a recording by its address. Whoever makes a link to the page must not choose what it runs: no scheme and no host,
// also not behind the control characters and blanks that browsers pass over.
const recordingAt = async (address) => {
  const name = address.split("/").pop();
  const carried = () => window.ringscopeRecordings?.[name];
  if (carried() === undefined && !/^[^/\\:][^:]*$/.test(address.replace(/[\0- ]/g, ""))) throw new Error("relative addresses accepted");
  if (location.protocol === "file:" && carried() === undefined)
    await new Promise((done, fail) => { // a page from a folder may load scripts alone
      const script = Object.assign(document.createElement("script"), { src: address + ".js", onload: done });
      script.onerror = () => fail(new Error("it isn't there"));
      document.head.append(script);
    });
  if (carried() !== undefined) return Uint8Array.from(atob(carried()), (character) => character.charCodeAt(0));
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  return new Uint8Array(await answer.arrayBuffer());
};

// Show a viewer in `canvas`, and what it does in the data of `host`. Return its functions: open(names, parameters) opens files
// that put(name, bytes) gave it; tell(paragraph) tells a paragraph of the story, from 1; use(theme); view() returns parameters
// of an address that show what is shown. `onRest` is called when nothing moves. An `embedded` viewer leaves the wheel and
// swipes to the page around: the wheel zooms with Control, or after a click until the pointer leaves.
const showViewer = async (canvas, host, { embedded = false, onRest = () => {} } = {}) => {
  const context = canvas.getContext("2d", { alpha: false });
  const wasm = await createRingscope();
  // Large windows magnify everything rather than show more, as on the desktop.
  const zoom = embedded ? 1 : Math.max(1, Math.floor(4 * Math.min(innerWidth / 1600, innerHeight / 900)) / 4);
  const scale = Math.min(4, zoom * Math.max(1, window.devicePixelRatio || 1));
  const call = (name, type, types, values) => wasm.ccall("ringscope_" + name, type, types, values);
  call("begin", null, ["number"], [scale]);
  let due = 3, opened = false;

  const functions = {
    put(name, bytes) {
      const path = name.replaceAll("\n", " ").split("/").pop() || "recording";
      wasm.FS.writeFile("/" + path, bytes);
      return path;
    },
    open(names, parameters = []) {
      const why = call("open", "string", ["string", "string"], [names.join("\n"),
        parameters.map((parameter) => parameter.join("=").replaceAll("\n", " ")).join("\n")]);
      opened = true;
      if (why) console.info(why);
      host.dataset.opened = why || "yes";
      due = 4;
      return why;
    },
    start() { // with sliders
      opened = true;
      due = 4;
    },
    tell(paragraph) {
      host.dataset.told = call("tell", "number", ["number", "number"], [paragraph, canvas.clientHeight]);
      due = 4;
    },
    use(theme) {
      call("theme", null, ["number"], [theme === "light" ? 1 : 0]);
      due = 3;
    },
    view: () => call("view", "string", [], []).split("\n").map((line) => line.split(/=(.*)/s).slice(0, 2)),
  };

  // ---
  // Events.

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    call("move", null, ["number", "number"], [(event.clientX - box.left) / zoom, (event.clientY - box.top) / zoom]);
    due = 3;
  };
  let shift = false, ctrl = false, caught = !embedded;
  if (embedded) canvas.style.touchAction = "pan-y";
  const held = (event) => { shift = event.shiftKey; ctrl = event.ctrlKey; };
  canvas.addEventListener("pointermove", (event) => { held(event); at(event); });
  canvas.addEventListener("pointerleave", () => {
    caught = !embedded;
    call("move", null, ["number", "number"], [-1, -1]);
    due = 3;
  });
  const button = (event, pressed) => {
    held(event);
    at(event);
    call("button", null, ["number", "number"], [[0, 2, 1][event.button] ?? 2, pressed]);
    event.preventDefault();
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.focus({ preventScroll: true });
    caught = true;
    canvas.setPointerCapture(event.pointerId);
    button(event, 1);
  });
  canvas.addEventListener("pointerup", (event) => button(event, 0));
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("wheel", (event) => {
    held(event);
    if (!caught && !ctrl) return;
    if (!caught) ctrl = false; // which would scale rows
    const unit = event.deltaMode === 0 ? 100 : 3;
    call("scroll", null, ["number", "number"], [-event.deltaX / unit, -event.deltaY / unit]);
    event.preventDefault();
    due = 3;
  }, { passive: false });
  // Numbers of SpecialKey. Tab leaves the viewer, as in any page, unless Control holds it back.
  const special = { ArrowLeft: 1, ArrowRight: 2, Home: 3, End: 4, Backspace: 5, Escape: 6, Enter: 7 };
  canvas.addEventListener("keydown", (event) => {
    held(event);
    if (event.altKey || event.metaKey || (event.ctrlKey && event.key.length === 1)) return;
    if (special[event.key]) call("key", null, ["number", "number"], [special[event.key], event.shiftKey ? 1 : 0]);
    else if ([...event.key].length === 1) call("text", null, ["number"], [event.key.codePointAt(0)]);
    else return;
    event.preventDefault();
    due = 3;
  });
  canvas.addEventListener("keyup", held);
  new ResizeObserver(() => { due = 3; }).observe(canvas);

  // ---
  // Frames, drawn only when something happened or moves.

  let last = performance.now();
  const draw = (now) => {
    requestAnimationFrame(draw);
    if (!opened || (due <= 0 && !call("animating", "number", [], []))) {
      last = now;
      if (opened && host.dataset.resting !== "yes") {
        host.dataset.resting = "yes";
        onRest();
      }
      return;
    }
    host.dataset.resting = "no";
    --due;
    const width = Math.max(320, Math.round(canvas.clientWidth / zoom)), height = Math.max(240, Math.round(canvas.clientHeight / zoom));
    const x = Math.trunc(Math.fround(width * scale)), y = Math.trunc(Math.fround(height * scale));
    if (canvas.width !== x || canvas.height !== y) Object.assign(canvas, { width: x, height: y });
    const pixels = call("frame", "number", ["number", "number", "number", "number", "number", "number"],
                        [width, height, scale, Math.min(0.2, (now - last) / 1000), shift, ctrl]);
    last = now;
    context.putImageData(new ImageData(new Uint8ClampedArray(wasm.HEAPU8.buffer, pixels, 4 * x * y), x, y), 0, 0);
    host.dataset.drawn = Number(host.dataset.drawn ?? 0) + 1;
  };
  requestAnimationFrame(draw);
  return functions;
};

// ---
// A page that is the viewer alone. Its address may have
// ?trace=ADDRESS, relative to the page (or the name of a recording that came with it; several: &trace=...)
// &at=3 or back:3   a step   &select=RANK   &story=K   a paragraph, from 1   &theme=light   and the other flags of
// `ringscope view` that show a view, which stand in the address when nothing moves, so that it restores what is seen

const showPage = async (canvas, message) => {
  const parameters = new URLSearchParams(location.search), wanted = parameters.getAll("trace");
  const chosen = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
  const theme = [parameters.get("theme"), chosen].find((each) => each === "light" || each === "dark") ??
      (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark");
  document.documentElement.style.colorScheme = theme;
  const fail = (what, error) => { message.textContent = `${what} can't be loaded: ${error.message}`; };
  message.textContent = "Opening…";
  let addressed = false, viewer = null;
  const keepInAddress = () => {
    if (!addressed) return;
    const shown = new URLSearchParams([...wanted.map((address) => ["trace", address]), ...viewer.view()]);
    try {
      if (location.search !== `?${shown}`) history.replaceState(null, "", `?${shown}`);
    } catch { // some browsers keep the address of a page from a folder
      addressed = false;
    }
  };
  try {
    viewer = await showViewer(canvas, document.body, { onRest: keepInAddress });
  } catch (error) {
    return fail("The viewer", error);
  }
  viewer.use(theme);
  const open = (names, given) => {
    message.textContent = "";
    const why = viewer.open(names, given);
    addressed = !why && given !== undefined && wanted.length > 0;
    if (!why) document.title = names.join(" · ") + " · Ringscope";
  };
  const openFiles = async (files) => {
    const names = [];
    for (const file of files) try {
      names.push(viewer.put(file.name, await unpacked(new Uint8Array(await file.arrayBuffer()))));
    } catch (error) {
      return fail(`'${file.name}'`, error);
    }
    if (names.length > 0) open(names);
  };
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    openFiles(event.dataTransfer.files);
  });
  const file = document.getElementById("file");
  file.onchange = () => openFiles(file.files);

  const all = Object.keys(window.ringscopeRecordings ?? {}), addresses = wanted.length > 0 ? wanted : all;
  // Notes come with all recordings of a page, unless the address has others, or a layer, which may be shorter.
  const notes = parameters.has("note") || parameters.has("layer") || `${addresses}` !== `${all}` ? [] : window.ringscopeNotes ?? [];
  try {
    const names = [];
    for (const address of addresses) names.push(viewer.put(address, await unpacked(await recordingAt(address))));
    if (names.length > 0) return open(names, [...parameters, ...notes.map((note) => ["note", note])]);
    message.textContent = "";
    viewer.start();
  } catch (error) {
    fail(`'${wanted.join("', '")}'`, error);
  }
};
if (document.getElementById("viewer")) showPage(document.getElementById("viewer"), document.getElementById("message"));
