// What a page does beyond its text: the theme, guesses at the questions, the recording beside the story.
// Everything is readable without it.
"use strict";

const root = document.body.dataset.root;
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

// The theme: the system's, until a reader chooses another.
const remembered = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
if (remembered) document.documentElement.dataset.theme = remembered;
const isDark = () => (document.documentElement.dataset.theme ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const toggle = make("button", { className: "theme", type: "button" });
const label = () => {
  toggle.textContent = isDark() ? "☀" : "☾";
  toggle.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
};
toggle.onclick = () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("theme", document.documentElement.dataset.theme); } catch { /* for this page alone */ }
  label();
};
label();
document.querySelector("header.site")?.append(toggle);

// A question can be guessed at before its answer is unfolded. The answer is the next one that names it or no other.
document.querySelectorAll(".predict").forEach((question) => {
  const answers = [...document.querySelectorAll("details.answer")].filter((answer) =>
      question.compareDocumentPosition(answer) & Node.DOCUMENT_POSITION_FOLLOWING);
  if (answers.length === 0) return;
  const answer = answers.find((each) => {
    const asked = each.querySelector("summary").textContent.replace(/^Answer:? ?/, "");
    return asked === "" ? each === answers[0] : question.textContent.includes(asked);
  }) ?? answers[0];
  const guess = make("input", { type: "text", inputMode: "decimal", ariaLabel: "Your prediction" });
  const said = make("span", { role: "status" });
  const form = make("form", { className: "guess" }, guess, make("button", { type: "submit" }, "Predict"), said);
  form.onsubmit = (event) => {
    event.preventDefault();
    if (guess.value.trim() === "") return;
    said.textContent = `You predicted ${guess.value.trim()}.`;
    answer.open = true;
    answer.scrollIntoView({ block: "nearest" });
  };
  question.append(form);
});

// The recording that a story tells of stands above it, and follows the reader from paragraph to paragraph.
document.querySelectorAll(".recording").forEach((recording) => {
  const open = recording.querySelector("a.open");
  if (!open) return;
  const frame = make("iframe", { src: open.href, loading: "lazy", title: "The recording in the viewer" });
  recording.append(frame);
  const story = recording.nextElementSibling;
  if (story?.tagName !== "OL") return;
  story.classList.add("story");
  const paragraphs = [...story.children];
  const tell = (index) => {
    paragraphs.forEach((each, i) => each.classList.toggle("told", i === index));
    frame.contentWindow?.postMessage({ story: index + 1 }, "*");
  };
  paragraphs.forEach((paragraph, index) => {
    const button = make("button", { type: "button" });
    button.append(...paragraph.childNodes);
    button.onclick = () => tell(index);
    paragraph.append(button);
  });
  // The paragraph that crosses the lower third of the window is the one that is read.
  const observer = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (entry.isIntersecting) tell(paragraphs.indexOf(entry.target));
  }), { rootMargin: "-60% 0px -35% 0px" });
  paragraphs.forEach((paragraph) => observer.observe(paragraph));
});

// ---
// Figures that move. The numbers come from the C++ code; here they are only drawn.

const svg = (tag, attributes = {}, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
};
const short = (value) => (value === null ? "-∞" : Number(value.toPrecision(4)).toString());

// A figure: its controls (name, kind, first value, least, most), how they become arguments, how numbers become a picture.
const slider = (name, value, least, most, step = 1, shown = (v) => v) => ({ name, value, least, most, step, shown });
const choice = (name, ...options) => ({ name, options, value: options[0] });
const words = (name, value) => ({ name, value, words: true });

const figures = {
  work: {
    title: "Work by rank and step",
    controls: [words("mask", "causal"), choice("partition", "contiguous", "striped", "zigzag", "fold"),
               slider("ranks", 4, 1, 16), slider("length", 4096, 64, 65536, 64)],
    draw(picture, { pairs, imbalance, ceiling }, say) {
      const most = Math.max(...pairs.flat(), 1), ranks = pairs.length, height = 240 / ranks, width = 560 / ranks;
      pairs.forEach((row, rank) => {
        picture.append(svg("text", { x: 0, y: rank * height + height / 2 + 4, class: "soft" }, `rank ${rank}`));
        row.forEach((count, step) => {
          const bar = svg("rect", { x: 60 + step * width, y: rank * height + 1, height: Math.max(1, height - 2),
                                    width: (width - 3) * count / most, class: "bar" });
          bar.append(svg("title", {}, `rank ${rank}, step ${step}: ${count.toLocaleString("en")} pairs`));
          picture.append(bar);
        });
      });
      picture.append(svg("text", { x: 60, y: 256, class: "soft" }, `step 0 to ${ranks - 1}: one column a step, pairs as length`));
      say(`Slowest rank over mean: ${short(imbalance)}. Balance ceiling, step by step: ${short(100 * ceiling)} %.`);
    },
  },
  overlap: {
    title: "Computing and sending",
    controls: [slider("F, TFLOP/s", 300, 10, 2000, 10), slider("B, GB/s", 150, 5, 900, 5)],
    draw(picture, { rows, computing, sending, crossing }, say) {
      const all = [...computing, ...sending], low = Math.log(Math.min(...all)), high = Math.log(Math.max(...all));
      const x = (r) => 10 + 600 * Math.log(r / rows[0]) / Math.log(rows.at(-1) / rows[0]);
      const y = (s) => 230 - 220 * (Math.log(s) - low) / (high - low);
      const line = (values, name) => picture.append(
          svg("polyline", { class: name, points: values.map((value, i) => `${x(rows[i])},${y(value)}`).join(" ") }));
      line(computing, "first");
      line(sending, "second");
      if (crossing > rows[0] && crossing < rows.at(-1))
        picture.append(svg("line", { class: "axis", x1: x(crossing), x2: x(crossing), y1: 0, y2: 235 }));
      picture.append(svg("text", { x: 60, y: 20 }, "blue: computing a step; orange: sending a block (both axes logarithmic)"));
      picture.append(svg("text", { x: 10, y: 252, class: "soft" }, `${rows[0]} rows of a rank`),
                     svg("text", { x: 520, y: 252, class: "soft" }, `${rows.at(-1).toLocaleString("en")} rows`));
      say(`From ${Math.ceil(crossing).toLocaleString("en")} rows of a rank on, sending is hidden behind computing.`);
    },
  },
  merge: {
    title: "Two parts of a row, merged",
    controls: [words("scores", "1, 3, 2, 5"), slider("split", 2, 0, 4)],
    prepare: ([scores, split]) => [scores.split(",").map((s) => s.trim()).join(","), split],
    draw(picture, { a, b, merged, once }, say) {
      [["first part", a], ["second part", b], ["merged", merged], ["all at once", once]].forEach(([name, part], i) => {
        const y = 30 + i * 58, out = part.out ?? 0;
        picture.append(svg("text", { x: 0, y: y + 4 }, name),
                       svg("rect", { x: 110, y: y - 12, width: Math.max(0, Math.min(1, out / 60)) * 300, height: 22, class: i < 2 ? "bar" : "mark" }),
                       svg("text", { x: 425, y: y + 4, class: "soft" }, `m ${short(part.m)}   l ${short(part.l)}   out ${short(part.out)}`));
      });
      say(`The merged row is ${short(merged.out)}; the same keys at once give ${short(once.out)}.`);
    },
  },
  ring: {
    title: "A ring, step by step",
    controls: [slider("ranks", 4, 2, 12), slider("step", 0, 0, 12), choice("pass", "forward", "backward")],
    prepare: ([ranks, step, pass]) => [ranks, Math.min(step, pass === "backward" ? ranks : ranks - 1), pass],
    draw(picture, { owners, steps }, say, [ranks, step, pass]) {
      const place = (i) => [310 + 180 * Math.sin(2 * Math.PI * i / owners.length), 130 - 95 * Math.cos(2 * Math.PI * i / owners.length)];
      owners.forEach((owner, rank) => {
        const [x, y] = place(rank), [nextX, nextY] = place(rank + 1);
        picture.append(svg("line", { x1: x, y1: y, x2: nextX, y2: nextY, class: "axis" }));
      });
      owners.forEach((owner, rank) => {
        const [x, y] = place(rank);
        picture.append(svg("circle", { cx: x, cy: y, r: 24, class: owner === rank ? "mark" : "bar" }),
                       svg("text", { x, y: y - 1, "text-anchor": "middle", style: "fill: var(--paper); font-weight: 600" }, `rank ${rank}`),
                       svg("text", { x, y: y + 13, "text-anchor": "middle", style: "fill: var(--paper)" }, `K${owner} V${owner}`));
      });
      say(`Step ${step} of ${steps - 1}: rank r holds the block of rank (r - ${step}) mod ${ranks}` +
          (pass === "backward" ? (step === Number(ranks) ? ", its gradient has come home." : ", with its gradient.") : "."));
    },
  },
  count: {
    title: "A sum that stops",
    controls: [slider("ones", 100, 0, 1024)],
    draw(picture, { bf16, f32 }, say) {
      [["kept in f32", f32], ["kept in bf16", bf16]].forEach(([name, value], i) =>
        picture.append(svg("text", { x: 0, y: 64 + 90 * i }, name),
                       svg("rect", { x: 100, y: 40 + 90 * i, width: 500 * value / 1024, height: 40, class: i === 0 ? "bar" : "mark" })));
      say(`The sum is ${f32} in f32 and ${bf16} in bf16.`);
    },
  },
};

let code = null;
const ringscope = () => code ??= new Promise((done, fail) => {
  document.head.append(make("script", { src: root + "viewer/ringscope.js", onerror: fail, onload: () => createRingscope().then(done, fail) }));
});

document.querySelectorAll(".live[data-figure]").forEach((section) => {
  const figure = figures[section.dataset.figure];
  const given = JSON.parse(section.dataset.values ?? "{}");
  const picture = svg("svg", { viewBox: "0 0 620 260", role: "img" });
  const said = make("p", { role: "status" });
  const inputs = figure.controls.map((control) => {
    const value = given[control.name] ?? control.value;
    const input = control.options
      ? make("select", {}, ...control.options.map((option) => new Option(option, option, option === value, option === value)))
      : control.words ? make("input", { type: "text", value, spellcheck: false })
      : make("input", { type: "range", min: control.least, max: control.most, step: control.step, value });
    input.name = control.name;
    const shown = input.type === "range" ? make("output", {}, input.value) : "";
    const update = () => { if (shown) shown.textContent = input.value; show(); };
    input.addEventListener("input", update);
    section.append(make("label", {}, control.name, input, shown));
    return input;
  });
  section.append(picture, said);
  const show = async () => {
    const wasm = await ringscope();
    let values = inputs.map((input) => input.value);
    if (figure.prepare) values = figure.prepare(values);
    const numbers = JSON.parse(wasm.ccall("ringscope_figure", "string", ["string", "string"], [section.dataset.figure, values.join("\n")]));
    section.dataset.numbers = JSON.stringify(numbers);
    if (numbers.error) { said.textContent = numbers.error; return; }
    picture.replaceChildren();
    figure.draw(picture, numbers, (text) => { said.textContent = text; picture.setAttribute("aria-label", text); }, values);
  };
  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    show().catch((error) => { said.textContent = `This figure can't be drawn here: ${error.message ?? "its code did not load"}`; });
  }, { rootMargin: "400px" }).observe(section);
});
