// Figures that move. The numbers come from the C++ code; here they are only drawn.
"use strict";

const svg = (tag, attributes = {}, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
};
const short = (value) => (value === null ? "-∞" : Number(value.toPrecision(4)).toString());
const grouped = (count) => count.toLocaleString("en");
const scaled = (value, units, by) => {
  const unit = units.findIndex((_, i) => i === units.length - 1 || value < by ** (i + 1));
  return `${Number((value / by ** unit).toPrecision(3))} ${units[unit]}`;
};
const time = (seconds) => scaled(seconds * 1e6, ["µs", "ms", "s"], 1000);
const bytes = (count) => scaled(count, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);

// The colours that the viewer gives owners of blocks on dark ground; dark ink stands on them.
const ownerColour = (owner) => ["#9bb0ef", "#d78f24", "#3ead8b", "#8f7de3", "#c8cb61", "#92678b", "#06debb", "#c35a24"][owner % 8];

// A figure: its controls (name, kind, first value, least, most), how they become arguments, how numbers become a picture.
const slider = (name, value, least, most, step = 1) => ({ name, value, least, most, step });
const choice = (name, ...options) => ({ name, options, value: options[0] });
const words = (name, value) => ({ name, value, words: true });

// Two timelines on one scale of time, uncovered as it passes. A slice is lane, step, first and last nanosecond.
const race = (picture, runners, top = 0) => {
  const end = 1e9 * Math.max(...runners.map(([, { wall_s }]) => wall_s));
  const each = (258 - top) / runners.length, x = (ns) => 44 + 574 * ns / end;
  const lanes = svg("g"), kinds = ["bar", "mark", null, "idle"];
  runners.forEach(([name, { slices, wall_s, efficiency }], i) => {
    const y = top + i * each + 20, height = (each - 24) / slices.length;
    picture.append(svg("text", { x: 0, y: y - 6 }, `${name}: ${time(wall_s)}, of it computing ${short(100 * efficiency)} %`));
    slices.forEach((numbers, rank) => {
      if (height > 8) picture.append(svg("text", { x: 0, y: y + (rank + 0.5) * height + 4, class: "soft" }, `rank ${rank}`));
      for (let at = 0; at < numbers.length; at += 4) {
        const [lane, step, first, last] = numbers.slice(at, at + 4);
        if (!kinds[lane]) continue;
        const slice = svg("rect", { class: kinds[lane] + (step % 2 ? " odd" : ""), x: x(first), width: x(last) - x(first),
                                    y: y + rank * height + (lane === 1 ? 0.76 * height : 0), height: (lane === 1 ? 0.16 : 0.72) * height });
        slice.append(svg("title", {}, `rank ${rank}, step ${step}: ${["computing", "sending", "", "waiting"][lane]}, ${time((last - first) / 1e9)}`));
        lanes.append(slice);
      }
    });
    lanes.append(svg("rect", { class: "cover", x: 44, width: 576, y: y - 1, height: each - 20 }));
  });
  picture.append(lanes);
};
const against = (name, first, second) => {
  const ratio = first.wall_s / second.wall_s;
  return Math.abs(ratio - 1) < 0.005 ? `${name} takes as long.` : `${name} is ${ratio.toFixed(2)} times as fast.`;
};

const figures = {
  race: {
    numbers: "work",
    title: "A race with zigzag",
    controls: [words("mask", "causal"), choice("partition", "contiguous", "striped", "fold", "zigzag"),
               slider("ranks", 4, 1, 16), slider("length", 16384, 1024, 131072, 1024)],
    again: true,
    draw(picture, { first, second, ceiling }, say, [, partition]) {
      race(picture, [[partition, first], ["zigzag", second]]);
      say(`Blue is computing, orange is sending, grey is waiting. ${against("Zigzag", first, second)} Balance ceiling of ${partition}: ${short(100 * ceiling)} %.`);
    },
  },
  deal: {
    title: "Your own partition, against zigzag",
    controls: [words("mask", "causal"), words("ranks of the pieces", "0 0 1 1 2 2 3 3"), slider("ranks", 4, 1, 8),
               slider("length", 32768, 1024, 131072, 1024)],
    hint: "The sequence is cut into as many equal pieces as you name ranks. Zigzag is 0 1 2 3 3 2 1 0; cards dealt out are 0 1 2 3 0 1 2 3.",
    again: true,
    draw(picture, { holders, first, second, imbalance, ceiling }, say) {
      const width = 620 / holders.length;
      holders.forEach((rank, p) => {
        picture.append(svg("rect", { x: p * width, y: 0, width: width - (width > 4 ? 1 : 0), height: 24, fill: ownerColour(rank) }));
        if (width > 12) picture.append(svg("text", { x: (p + 0.5) * width, y: 16, "text-anchor": "middle", class: "dark" }, rank));
      });
      race(picture, [["yours", first], ["zigzag", second]], 32);
      say(`Slowest rank over mean: ${short(imbalance)}. Balance ceiling, step by step: ${short(100 * ceiling)} %. ${against("Zigzag", first, second)}`);
    },
  },
  nodes: {
    title: "Two nodes: a flat ring and a ring of rings",
    controls: [slider("cards", 1, 1, 4), slider("GB/s between nodes", 50, 5, 450, 5), slider("rows of a rank", 4096, 256, 16384, 256),
               slider("speed of rank 5", 1, 0.25, 1, 0.05)],
    again: true,
    draw(picture, { first, second }, say) {
      race(picture, [["flat ring", first], ["two levels", second]]);
      say(`Blue is computing, orange is sending, grey is waiting. ${against("The ring of rings", first, second)}`);
    },
  },
  decode: {
    title: "Decode: the cache stays, results travel",
    controls: [slider("ranks", 8, 1, 16), slider("tokens read", 131072, 1024, 1048576, 1024), slider("tokens written", 2000, 0, 65536, 16),
               choice("merge", "tree", "ring"), slider("µs a message", 5, 0, 20)],
    draw(picture, numbers, say, [, , , merge]) {
      const { prompt, rows, rounds } = numbers, width = 260 / rows.length, most = Math.max(...rows, 1);
      rows.forEach((count, rank) => {
        const y = (n) => 234 - 200 * n / most;
        picture.append(svg("rect", { x: rank * width, width: width - 3, y: y(prompt[rank]), height: 234 - y(prompt[rank]), class: "bar" }),
                       svg("rect", { x: rank * width, width: width - 3, y: y(count), height: y(prompt[rank]) - y(count), class: "mark" }),
                       svg("text", { x: (rank + 0.5) * width - 1.5, y: y(count) - 6, "text-anchor": "middle" }, "q"),
                       svg("text", { x: (rank + 0.5) * width - 1.5, y: 250, "text-anchor": "middle", class: "soft" }, rank));
      });
      // From a microsecond on, tenfold every fifty points.
      [["each rank reads its shard", numbers.reading_s], [`results are merged: ${bytes(numbers.merge_bytes)}`, numbers.merge_s],
       [`K and V go round: ${bytes(numbers.ring_bytes)}`, numbers.ring_s]].forEach(([name, seconds], i) =>
        picture.append(svg("text", { x: 290, y: 46 + 70 * i }, name),
                       svg("rect", { x: 290, y: 54 + 70 * i, height: 20, width: Math.max(1, 50 * Math.log10(1e6 * seconds)), class: i < 2 ? "bar" : "mark" }),
                       svg("text", { x: 296 + Math.max(1, 50 * Math.log10(1e6 * seconds)), y: 68 + 70 * i, class: "soft" }, time(seconds))));
      say(`Every rank has the query. One token in one layer: ${rounds} rounds of a ${merge} move ${bytes(numbers.merge_bytes)}; ` +
          `a ring of K and V moves ${bytes(numbers.ring_bytes)}. (Columns: rows of the cache by rank, blue read, orange written. Bars at the right: tenfold each 50 points.)`);
    },
  },
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
                                    width: (width - 3) * count / most, fill: ownerColour((rank - step + ranks) % ranks) });
          bar.append(svg("title", {}, `rank ${rank}, step ${step}: ${grouped(count)} pairs`));
          picture.append(bar);
        });
      });
      picture.append(svg("text", { x: 60, y: 256, class: "soft" }, `step 0 to ${ranks - 1}: one column a step, pairs as length, the block's owner as colour`));
      say(`Slowest rank over mean: ${short(imbalance)}. Balance ceiling, step by step: ${short(100 * ceiling)} %.`);
    },
  },
  overlap: {
    title: "Computing and sending",
    controls: [slider("F, TFLOP/s", 300, 10, 2000, 10), slider("B, GB/s", 150, 5, 900, 5),
               choice("hardware", "as above", "A100 NVLink3", "H100 NVLink4", "H100 InfiniBand-NDR", "B200 NVLink5")],
    prepare: ([f, b, hardware]) => [f, b, hardware === "as above" ? "" : hardware],
    draw(picture, { rows, computing, sending, crossing, F, B }, say) {
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
                     svg("text", { x: 520, y: 252, class: "soft" }, `${grouped(rows.at(-1))} rows`));
      say(`At ${short(F / 1e12)} TFLOP/s and ${short(B / 1e9)} GB/s, sending is hidden behind computing from ${grouped(Math.ceil(crossing))} rows of a rank on.`);
    },
  },
  merge: {
    title: "Two parts of a row, merged",
    controls: [words("scores", "1, 3, 2, 5"), slider("split", 2, 0, 4)],
    hint: "Drag a score by its handle. The value of key j is 10 (j + 1).",
    prepare: ([scores, split]) => [scores.split(",").map((s) => s.trim()).join(","), split],
    draw(picture, { a, b, merged, once }, say, [scores, split], set) {
      const numbers = scores.split(",").map(Number), between = (v) => Math.max(-8, Math.min(8, v));
      numbers.forEach((score, j) => {
        const x = 110 + j * Math.min(60, 480 / numbers.length), y = 76 - 4 * (between(score) + 8);
        picture.append(svg("rect", { x: x - 1.5, y, width: 3, height: 80 - y, class: j < split ? "bar" : "mark" }),
                       svg("circle", { cx: x, cy: y, r: 8, class: (j < split ? "bar" : "mark") + " grip", "data-key": j }),
                       svg("text", { x: x + 12, y: y + 4, class: "soft" }, score));
      });
      picture.append(svg("text", { x: 0, y: 48 }, "scores"));
      picture.onpointerdown = (event) => {
        picture.dragged = event.target.dataset.key;
        if (picture.dragged !== undefined) picture.setPointerCapture(event.pointerId);
      };
      picture.onpointermove = (event) => {
        if (picture.dragged === undefined) return;
        const box = picture.getBoundingClientRect(), y = 260 * (event.clientY - box.top) / box.height;
        set("scores", numbers.with(picture.dragged, Math.round(10 * between((76 - y) / 4 - 8)) / 10).join(", "));
      };
      picture.onpointerup = () => { delete picture.dragged; };
      [["first part", a], ["second part", b], ["merged", merged], ["all at once", once]].forEach(([name, part], i) => {
        const y = 112 + i * 42, out = part.out ?? 0;
        picture.append(svg("text", { x: 0, y: y + 4 }, name),
                       svg("rect", { x: 110, y: y - 12, width: Math.max(0, Math.min(1, out / 60)) * 300, height: 22, class: i < 2 ? "bar" : "mark" }),
                       svg("text", { x: 425, y: y + 4, class: "soft" }, `m ${short(part.m)}   l ${short(part.l)}   out ${short(part.out)}`));
      });
      say(`The merged row is ${short(merged.out)}; the same keys at once give ${short(once.out)}.`);
    },
  },
  ring: {
    title: "A ring, step by step",
    box: "100 0 420 260",
    controls: [slider("ranks", 4, 2, 12), slider("step", 0, 0, 12), choice("pass", "forward", "backward")],
    prepare: ([ranks, step, pass]) => [ranks, Math.min(step, pass === "backward" ? ranks : ranks - 1), pass],
    draw(picture, { owners, steps }, say, [ranks, step, pass]) {
      const place = (i) => [310 + 180 * Math.sin(2 * Math.PI * i / owners.length), 130 - 95 * Math.cos(2 * Math.PI * i / owners.length)];
      owners.forEach((owner, rank) => {
        const [x, y] = place(rank), [nextX, nextY] = place(rank + 1);
        picture.append(svg("line", { x1: x, y1: y, x2: nextX, y2: nextY, class: "axis" }));
      });
      const before = picture.before?.length === owners.length ? picture.before : owners;
      owners.forEach((owner, rank) => {
        const [x, y] = place(rank), [fromX, fromY] = place(before.indexOf(owner)), block = svg("g");
        block.append(svg("circle", { cx: x, cy: y, r: 24, fill: ownerColour(owner) }),
                     svg("text", { x, y: y + 4, "text-anchor": "middle", class: "dark" }, `K${owner} V${owner}`));
        picture.append(block, svg("text", { x: 310 + 0.7 * (x - 310), y: 134 + 0.6 * (y - 130), "text-anchor": "middle", class: "soft" }, `rank ${rank}`));
        if (!matchMedia("(prefers-reduced-motion: reduce)").matches)
          block.animate([{ transform: `translate(${fromX - x}px, ${fromY - y}px)` }, { transform: "none" }], 400);
      });
      picture.before = owners;
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
const ringscope = () => code ??= createRingscope();

// Draw a figure into its section, with its controls.
const begin = (section) => {
  const figure = figures[section.dataset.figure];
  const given = JSON.parse(section.dataset.values ?? "{}");
  const picture = svg("svg", { viewBox: figure.box ?? "0 0 620 260", role: "img" });
  const said = make("p", { role: "status" });
  section.append(make("h3", {}, figure.title));
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
  if (figure.hint) section.append(make("p", { className: "hint" }, figure.hint));
  section.append(picture, said);
  if (figure.again) section.append(make("button", { type: "button", onclick: () => show() }, "Run again"));
  const set = (name, value) => {
    const input = inputs.find((each) => each.name === name);
    input.value = value;
    input.dispatchEvent(new Event("input"));
  };
  const show = async () => {
    const wasm = await ringscope();
    let values = inputs.map((input) => input.value);
    if (figure.prepare) values = figure.prepare(values);
    const numbers = JSON.parse(wasm.ccall("ringscope_figure", "string", ["string", "string"], [figure.numbers ?? section.dataset.figure, values.join("\n")]));
    section.dataset.arguments = values.join("\n");
    section.dataset.numbers = JSON.stringify(numbers);
    if (numbers.error) { said.textContent = numbers.error; return; }
    picture.replaceChildren();
    figure.draw(picture, numbers, (text) => { said.textContent = text; picture.setAttribute("aria-label", text); }, values, set);
  };
  return show();
};
