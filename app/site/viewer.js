// The page around the viewer: files in, events in, pixels out. The viewer itself is C++ (viz/web/web.cpp).
//
// ?trace=ADDRESS, relative to the page (or the name of a recording that came with it; several: &trace=...)
// &at=3 or back:3   a step   &select=RANK   &story=K   a paragraph, from 1   &told=K   the same, where the page around
// has the text   &theme=light   and the other flags of `ringscope view` that show a view, which stand in the address
// when nothing moves, so that it restores what is seen
"use strict";

(async () => {
  const canvas = document.getElementById("viewer");
  const message = document.getElementById("message");
  const context = canvas.getContext("2d", { alpha: false });
  message.textContent = "Opening…";
  const wasm = await createRingscope();
  // Large windows magnify everything rather than show more, as on the desktop.
  const zoom = Math.max(1, Math.floor(4 * Math.min(innerWidth / 1600, innerHeight / 900)) / 4);
  const scale = Math.min(4, zoom * Math.max(1, window.devicePixelRatio || 1));
  const call = (name, type, types, values) => wasm.ccall("ringscope_" + name, type, types, values);
  call("begin", null, ["number"], [scale]);

  // ---
  // Files.

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
  const put = (name, bytes) => {
    const path = name.replaceAll("\n", " ").split("/").pop() || "recording";
    wasm.FS.writeFile("/" + path, bytes);
    return path;
  };
  // Whoever makes a link to the page must not choose what it runs: no scheme and no host, also not behind the control
  // characters and blanks that browsers pass over.
  const isRelative = (address) => /^[^/\\:][^:]*$/.test(address.replace(/[\0- ]/g, ""));
  const bytesOf = async (address) => {
    const name = address.split("/").pop();
    const carried = () => window.ringscopeRecordings?.[name];
    if (carried() === undefined && !isRelative(address)) throw new Error("relative addresses accepted");
    if (location.protocol === "file:" && carried() === undefined)
      await new Promise((done) => { // a page from a folder may load scripts alone
        const script = Object.assign(document.createElement("script"), { src: address + ".js", onload: done, onerror: done });
        document.head.append(script);
      });
    if (carried() !== undefined) return Uint8Array.from(atob(carried()), (character) => character.charCodeAt(0));
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    return new Uint8Array(await answer.arrayBuffer());
  };

  const parameters = new URLSearchParams(location.search);
  const wanted = parameters.getAll("trace");
  let opened = false, addressed = false, due = 3, asked = Number(parameters.get("told")) || 0;
  const use = (theme) => {
    call("theme", null, ["number"], [theme === "light" ? 1 : 0]);
    due = 3;
  };
  if (parameters.has("theme")) use(parameters.get("theme"));
  const gallery = document.getElementById("gallery"), choose = gallery.querySelector("input");
  const open = (names, first) => {
    message.textContent = "";
    gallery.hidden = true;
    const why = call("open", "string", ["string", "string"],
                     [names.join("\n"), first ? [...parameters].map((parameter) => parameter.join("=").replaceAll("\n", " ")).join("\n") : ""]);
    addressed = first && wanted.length > 0 && !why;
    opened = true;
    if (why) console.info(why);
    else document.title = names.join(" · ") + " · Ringscope";
    document.body.dataset.opened = why || "yes";
    due = 4;
    if (asked > 0) tell(asked);
  };
  const tell = (story) => {
    asked = story; // a recording that is still being opened tells it then
    if (opened) document.body.dataset.told = call("tell", "number", ["number", "number"], [story, canvas.clientHeight]);
    due = 4;
  };
  const openFiles = async (files) => {
    const names = [];
    for (const file of files) try {
      names.push(put(file.name, await unpacked(new Uint8Array(await file.arrayBuffer()))));
    } catch (error) {
      message.textContent = `'${file.name}' can't be loaded: ${error.message}`;
      return;
    }
    if (names.length > 0) open(names, false);
  };
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    openFiles(event.dataTransfer.files);
  });
  addEventListener("message", (event) => {
    if (Number.isInteger(event.data?.story)) tell(event.data.story);
    if (event.data?.theme) use(event.data.theme);
  });
  choose.onchange = () => openFiles(choose.files);
  gallery.querySelector("button").onclick = () => { // the viewer begins with sliders
    gallery.hidden = opened = true;
    due = 4;
    canvas.focus();
  };

  // ---
  // Events.

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    call("move", null, ["number", "number"], [(event.clientX - box.left) / zoom, (event.clientY - box.top) / zoom]);
    due = 3;
  };
  let shift = false, ctrl = false;
  // In a page of text the wheel and a swipe scroll that page. The wheel zooms with Control, or after a click until the
  // pointer leaves.
  const embedded = window.parent !== window;
  let caught = !embedded;
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
    canvas.focus();
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

  const keepInAddress = () => {
    if (!addressed || embedded) return;
    const shown = new URLSearchParams(wanted.map((address) => ["trace", address]));
    for (const line of call("view", "string", [], []).split("\n")) {
      const end = line.indexOf("=");
      shown.append(line.slice(0, end), line.slice(end + 1));
    }
    try {
      if (location.search !== `?${shown}`) history.replaceState(null, "", `?${shown}`);
    } catch { // some browsers keep the address of a page from a folder
      addressed = false;
    }
  };

  let last = performance.now();
  const draw = (now) => {
    requestAnimationFrame(draw);
    if (!opened || (due <= 0 && !call("animating", "number", [], []))) {
      last = now;
      if (opened && document.body.dataset.resting !== "yes") {
        document.body.dataset.resting = "yes";
        keepInAddress();
      }
      return;
    }
    document.body.dataset.resting = "no";
    --due;
    const width = Math.max(320, Math.round(canvas.clientWidth / zoom)), height = Math.max(240, Math.round(canvas.clientHeight / zoom));
    const x = Math.trunc(Math.fround(width * scale)), y = Math.trunc(Math.fround(height * scale));
    if (canvas.width !== x || canvas.height !== y) Object.assign(canvas, { width: x, height: y });
    const begun = performance.now();
    const pixels = call("frame", "number", ["number", "number", "number", "number", "number", "number"],
                        [width, height, scale, Math.min(0.2, (now - last) / 1000), shift, ctrl]);
    last = now;
    context.putImageData(new ImageData(new Uint8ClampedArray(wasm.HEAPU8.buffer, pixels, 4 * x * y), x, y), 0, 0);
    document.body.dataset.frameMs = (performance.now() - begun).toFixed(1);
    document.body.dataset.drawn = Number(document.body.dataset.drawn ?? 0) + 1;
  };
  requestAnimationFrame(draw);

  const carried = Object.keys(window.ringscopeRecordings ?? {});
  try {
    const names = [];
    for (const address of wanted.length > 0 ? wanted : carried) names.push(put(address, await unpacked(await bytesOf(address))));
    if (names.length > 0) open(names, true);
    else {
      message.textContent = "";
      gallery.hidden = false;
    }
  } catch (error) {
    message.textContent = `'${wanted.join("', '")}' can't be loaded: ${error.message}`;
  }
})();
