// What a page does beyond its text: guesses at the questions, the recording beside the story. Everything
// is readable without it.
"use strict";

const root = document.documentElement.dataset.content_root;
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

// The theme puts a reader's choice into the body's data.
const theme = () => ({ dark: "dark", light: "light" })[document.body.dataset.theme] ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
const viewers = [];
new MutationObserver(() => viewers.forEach((viewer) => viewer.use(theme()))).observe(document.body, { attributeFilter: ["data-theme"] });

// The list of pages begins where this page stands in it.
const present = document.querySelector(".sidebar-tree a.current.reference, .sidebar-tree .current-page > a");
const list = document.querySelector(".sidebar-scroll");
if (present && list) list.scrollTop += present.getBoundingClientRect().top - list.getBoundingClientRect().top - list.clientHeight / 2;

// A page that is read from a folder can't load others, which a search would show parts of.
if (location.protocol === "file:" && window.DOCUMENTATION_OPTIONS) DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// Do something when an element comes near the window.
const whenNear = (element, what) => new IntersectionObserver((entries, observer) => {
  if (!entries.some((entry) => entry.isIntersecting)) return;
  observer.disconnect();
  what();
}, { rootMargin: "400px" }).observe(element);

// The code of the viewer and the figures, which a page loads once, when it shows the first of them.
const loaded = {};
const load = (name) => loaded[name] ??= new Promise((done, fail) => {
  document.head.append(make("script", { src: `${root}viewer/${name}`, onload: done, onerror: () => fail(new Error("its code did not load")) }));
});

// A question can be guessed at before its answer is unfolded. The answer is the next one that names it or no other.
document.querySelectorAll(".predict").forEach((question) => {
  const answers = [...document.querySelectorAll("details")].filter((answer) =>
      question.compareDocumentPosition(answer) & Node.DOCUMENT_POSITION_FOLLOWING);
  if (answers.length === 0) return;
  const answer = answers.find((each) => {
    const asked = each.querySelector("summary").textContent.replace(/^Answer:? ?/, "");
    return asked === "" ? each === answers[0] : question.textContent.includes(asked);
  }) ?? answers[0];
  const drawing = answer.querySelector("pre")?.textContent.trim().split("\n");
  const cells = drawing?.map((row, y) => [...row].map((_, x) => {
    const cell = make("button", { type: "button", ariaLabel: `row ${y + 1}, column ${x + 1}`, ariaPressed: "false" });
    cell.onclick = () => { cell.ariaPressed = String(cell.ariaPressed !== "true"); };
    return cell;
  }));
  const guess = cells ? make("span", { className: "cells" }, ...cells.map((row) => make("span", {}, ...row)))
      : make("input", { type: "text", inputMode: "decimal", ariaLabel: "Your prediction" });
  const verdict = () => {
    if (!cells) return guess.value.trim() && `You predicted ${guess.value.trim()}.`;
    const wrong = drawing.flatMap((row, y) => [...row].filter((c, x) => (c === "#") !== (cells[y][x].ariaPressed === "true")));
    return wrong.length === 0 ? "You drew exactly that." : `You drew ${wrong.length} of ${cells.flat().length} cells otherwise.`;
  };
  const said = make("span", { role: "status" });
  const form = make("form", { className: "guess" }, guess, make("button", { type: "submit" }, "Predict"), said);
  form.onsubmit = (event) => {
    event.preventDefault();
    const words = verdict();
    if (!words) return;
    said.textContent = words;
    answer.open = true;
    answer.scrollIntoView({ block: "nearest" });
  };
  question.append(form);
});

// The recording that a story tells of stands above it, and follows the reader from paragraph to paragraph.
document.querySelectorAll(".recording").forEach((recording) => {
  if (!recording.querySelector("a.open")) return;
  const story = recording.nextElementSibling, hasStory = story?.tagName === "OL";
  const canvas = make("canvas", { tabIndex: 0, role: "application", ariaLabel: "The recording in the viewer. Press ? for its keys." });
  recording.append(canvas);
  let viewer = null, told = hasStory ? 1 : 0;
  whenNear(recording, async () => {
    try {
      await Promise.all([load("ringscope.js"), load("viewer.js")]);
      const shown = await showViewer(canvas, recording, { embedded: true });
      const name = recording.dataset.recording;
      shown.put(name, await unpacked(await recordingAt(`${root}recordings/${name}`)));
      shown.use(theme());
      shown.open([name], hasStory ? [["bare", 1]] : []);
      viewers.push(viewer = shown);
      if (told > 0) viewer.tell(told);
    } catch (error) {
      canvas.replaceWith(make("p", {}, `The viewer can't be shown here: ${error.message}.`));
    }
  });
  if (!hasStory) return;
  story.classList.add("story");
  const telling = make("section", { className: "telling", ariaLabel: "The recording and its story" });
  recording.before(telling);
  telling.append(recording, story);
  // A paragraph stays right below the recording while its half window is scrolled through.
  new ResizeObserver(() => story.style.setProperty("--recording", recording.offsetHeight + "px")).observe(recording);
  const paragraphs = [...story.children];
  const tell = (index) => {
    paragraphs.forEach((each, i) => each.classList.toggle("told", i === index));
    told = index + 1; // a recording that is still being opened tells it then
    viewer?.tell(told);
  };
  paragraphs.forEach((paragraph, index) => {
    const button = make("button", { type: "button" });
    button.append(...paragraph.childNodes);
    button.onclick = () => tell(index);
    paragraph.append(button);
  });
  // The paragraph that comes to the lower third of the window, below the recording, is the one that is read.
  const observer = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (entry.isIntersecting) tell(paragraphs.indexOf(entry.target));
  }), { rootMargin: "-74% 0px -21% 0px" });
  paragraphs.forEach((paragraph) => observer.observe(paragraph));
});

// Figures that move are drawn by a script of their own.
document.querySelectorAll(".live[data-figure]").forEach((section) => whenNear(section, async () => {
  try {
    await Promise.all([load("ringscope.js"), load("figures.js")]);
    await begin(section);
  } catch (error) {
    section.append(make("p", { role: "status" }, `This figure can't be drawn here: ${error.message}.`));
  }
}));
