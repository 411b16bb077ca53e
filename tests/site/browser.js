// What test_browser.py runs in pages: each function returns a text. All of it stands before what the test
// asks for, in the same function.

const pause = (ms = 15) => new Promise((done) => setTimeout(done, ms));
const frames = async () => { for (let i = 0; i < 3; ++i) await new Promise(requestAnimationFrame); };
const until = async (condition) => {
  for (let i = 0; i < 700; ++i) {
    const value = condition();
    if (value) return value;
    await pause();
  }
  throw new Error("never: " + condition);
};

// Return a text that is the same for the same picture in the viewer, when it rests.
const picture = async () => {
  const canvas = document.getElementById("viewer");
  await frames();
  await until(() => document.body.dataset.resting === "yes");
  const bytes = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const sum = await crypto.subtle.digest("SHA-256", bytes);
  return [...new Uint8Array(sum)].join(" ");
};

// Return whether the text is wider than the window.
const tooWide = async () => {
  const text = document.querySelector("article") ?? document.documentElement;
  return String(text.getBoundingClientRect().left + text.scrollWidth > innerWidth);
};

// Return the texts whose contrast is below WCAG 2's.
const unreadable = async () => {
  const numbers = (color) => color.match(/[\d.]+/g).map(Number);
  const luminance = (color) => numbers(color).slice(0, 3).map((c) => c / 255)
      .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const color = getComputedStyle(element).backgroundColor;
      if (numbers(color)[3] !== 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const found = new Set(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
    if (!text || element.closest("svg, script, style, noscript, [hidden]")) continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const [a, b] = [luminance(style.color), luminance(ground(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (!(ratio >= (large ? 3 : 4.5))) found.add(`${ratio.toFixed(2)}: ${text.slice(0, 40)}`);
  }
  return [...found].join("\n");
};

// Return the text of the page without what scripts show.
const visibleText = async () => {
  return [...document.querySelectorAll("article :is(h1, h2, p, li, td, pre, img)")]
    .filter((each) => !each.closest(".live, details, .guess, .recording, li figure, .headerlink") && each.checkVisibility())
    .map((each) => each.textContent).join("|");
};

// Return how much of the page can be used by keys, and note from now on what gets the focus.
const usable = async () => {
  window.order = [];
  document.addEventListener("focusin", (event) => order.push(event.target));
  return String([...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
    .filter((each) => each.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true })).length);
};

// Return how many elements got the focus out of order, and how many without an outline.
const focused = async () => {
  const wrong = order.filter((each, i) => i > 0 && each.tagName !== "IFRAME" &&
    !(order[i - 1].compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING));
  const unlit = order.filter((each) => each.matches(":focus-visible") && getComputedStyle(each).outlineStyle === "none");
  return `${wrong.length} wrong, ${unlit.length} unlit`;
};

// Return the numbers of all figures in all states of their controls, and what moved nothing.
const figures = async () => {
  const states = [], still = [];
  for (const section of document.querySelectorAll(".live")) {
    section.scrollIntoView({ behavior: "instant" });
    await until(() => section.dataset.numbers);
    const state = () => states.push([section.dataset.figure, section.dataset.arguments, section.dataset.numbers]);
    state();
    for (const input of section.querySelectorAll("input, select")) {
      const before = section.dataset.numbers, was = input.value;
      const values = input.type === "range" ? [input.min, Number(input.max) * 0.6, Number(input.max) * 0.2]
        : input.type === "text" ? ["", was.includes(",") ? "2, 3" : was.startsWith("0") ? "1 0 0 1" : "causal+window:600"]
        : [...input.options].map((option) => option.value);
      for (const value of values) {
        section.dataset.arguments = "";
        input.value = value;
        input.dispatchEvent(new Event("input"));
        await until(() => section.dataset.arguments !== "");
        state();
        // No text is refused, which moves nothing.
        if (value !== "" && section.dataset.numbers !== before) input.moved = true;
      }
      if (!input.moved) still.push(section.dataset.figure + ": " + input.name);
      input.value = was;
    }
    if (!section.querySelector("svg").childElementCount) still.push(section.dataset.figure + ": no picture");
  }
  return JSON.stringify({ states, still });
};

// Scroll through the story and return the paragraphs that were told, in order.
const toldParagraphs = async () => {
  const recording = document.querySelector(".recording"), frame = await until(() => recording.querySelector("canvas"));
  document.documentElement.style.scrollBehavior = "auto";
  const top = frame.getBoundingClientRect().top + scrollY - 2 * innerHeight;
  const told = [], begun = [], paragraphs = [...document.querySelectorAll(".story li")];
  for (let y = Math.max(0, top); y < top + 6 * innerHeight; y += 30) {
    window.scrollTo(0, y);
    await frames();
    const at = paragraphs.findIndex((each) => each.classList.contains("told"));
    if (at < 0 || told.at(-1) === at + 1) continue;
    told.push(at + 1);
    begun.push(y);
    await until(() => Number(recording.dataset.told) === at + 1);
    const box = frame.getBoundingClientRect(), text = paragraphs[at].querySelector("button").getBoundingClientRect();
    if (box.top < 0 || box.bottom > text.top || text.bottom > innerHeight) told.push("out of sight");
  }
  const shortest = Math.min(...begun.slice(1).map((y, i) => y - begun[i]));
  return `${told.join(" ")} of ${paragraphs.length}, half a window each: ${shortest >= 0.4 * innerHeight}`;
};

// Return the share of pixels that differ from those of native.png by more than an eighth.
const differentPixels = async () => {
  const canvas = document.getElementById("viewer"), image = new Image();
  image.src = "../native.png?" + Math.random();
  await image.decode();
  const other = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
  other.drawImage(image, 0, 0);
  if (image.width !== canvas.width || image.height !== canvas.height) return "1";
  const [a, b] = [other, canvas.getContext("2d")].map((context) => context.getImageData(0, 0, canvas.width, canvas.height).data);
  let count = 0;
  for (let i = 0; i < a.length; i += 4)
    if ([0, 1, 2].some((k) => Math.abs(a[i + k] - b[i + k]) > 32)) ++count;
  return String(4 * count / a.length);
};

// Return how many recordings the gallery shows, and whether with pictures.
const gallery = async () => {
  const cards = [...document.querySelectorAll(".cards a")], images = [...document.images];
  const recordings = cards.flatMap((card) => new URL(card.href).searchParams.getAll("trace"));
  images.forEach((image) => { image.loading = "eager"; });
  await Promise.all(images.map((image) => image.decode()));
  return `${recordings.length}, pictures ${images.length > 5}`;
};

// Scroll to the lesson's recording and return which paragraph it tells, and where.
const showRecording = async () => {
  const recording = document.querySelector(".recording"), canvas = recording.querySelector("canvas");
  document.documentElement.style.scrollBehavior = "auto";
  canvas.scrollIntoView({ block: "center" });
  await until(() => recording.dataset.drawn);
  await frames();
  return `${recording.dataset.told} at ${scrollY}`;
};

// Show all recordings and figures of the page, and return how often it loads the viewer's script.
const scriptsOfAll = async () => {
  document.documentElement.style.scrollBehavior = "auto";
  const recordings = [...document.querySelectorAll(".recording")], figures = [...document.querySelectorAll(".live")];
  for (const each of [...recordings, ...figures]) {
    each.scrollIntoView();
    await until(() => each.dataset.drawn || each.dataset.numbers);
  }
  const scripts = performance.getEntriesByType("resource").filter((each) => each.name.endsWith("ringscope.js"));
  const elements = document.querySelectorAll("script[src$='ringscope.js']").length;
  return `${recordings.length} recordings, ${figures.length} figures, ${Math.max(scripts.length, elements)} script`;
};
