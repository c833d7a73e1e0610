/* What the built book does without a kernel and without a network.
   Sliders: each figure.explore carries its frames and captions as JSON; moving a slider swaps the
   picture, its alternative text and its caption. Quizzes answer back. Wide formulas can be scrolled with the keyboard. */
(() => {
  "use strict";

  /** The frame's place in the list: the last slider moves fastest. */
  const frameIndex = (sliders) =>
    sliders.reduce((index, slider) => index * (Number(slider.max) + 1) + Number(slider.value), 0);

  /** A frame is a data URI or file, or a list of lines of an SVG drawing. */
  const frameSources = (data) => {
    const drawings = new Map();
    return data.frames.map((frame) => {
      if (typeof frame === "string") return frame;
      const key = frame.join();
      if (!drawings.has(key)) {
        const text = frame.map((line) => data.lines[line]).join("\n");
        drawings.set(key, URL.createObjectURL(new Blob([text], { type: "image/svg+xml" })));
      }
      return drawings.get(key);
    });
  };

  /** "#explore-name?d_k=256&T=8": the figure's id and its parameters, or null. */
  const readLink = () => {
    const [id, query] = location.hash.slice(1).split("?");
    return id && query ? { id, parameters: new URLSearchParams(query) } : null;
  };

  function start(figure) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const form = figure.querySelector("form");
    const image = figure.querySelector("img");
    const caption = figure.querySelector("figcaption");
    const sliders = [...form.querySelectorAll("input")];
    let sources = null;

    /** Make the frames and let the browser read them, once somebody is about to use them. */
    const load = () => {
      if (sources) return;
      sources = frameSources(data);
      figure.preloaded = [...new Set(sources)].map((source) => {
        const frame = new Image();
        frame.src = source;
        return frame;
      });
    };

    const draw = () => {
      load();
      sliders.forEach((slider, i) => {
        const text = data.controls[i].texts[Number(slider.value)];
        slider.setAttribute("aria-valuetext", text);
        slider.nextElementSibling.value = text;
      });
      const index = frameIndex(sliders);
      image.src = sources[index];
      image.alt = data.captions[index];
      caption.textContent = data.captions[index];
    };

    /** Keep the address in step, so that it can be sent to somebody. */
    const remember = () => {
      const pairs = sliders.map((s, i) => [s.name, data.controls[i].texts[Number(s.value)]]);
      const link = `#${figure.id}?${new URLSearchParams(pairs)}`;
      history.replaceState(null, "", link);
    };

    const follow = () => {
      const link = readLink();
      if (!link || link.id !== figure.id) return;
      sliders.forEach((slider, i) => {
        const position = data.controls[i].texts.indexOf(link.parameters.get(slider.name));
        if (position >= 0) slider.value = String(position);
      });
      draw();
      figure.scrollIntoView();
    };

    HTMLFormElement.prototype.reset.call(form); // a browser may restore old positions on reload
    form.addEventListener("input", draw);
    form.addEventListener("change", remember);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(() => { draw(); remember(); }));
    form.addEventListener("focusin", load);
    form.addEventListener("pointerenter", load);
    addEventListener("hashchange", follow);
    new IntersectionObserver((entries, observer) => {
      if (entries.some((entry) => entry.isIntersecting)) { observer.disconnect(); load(); }
    }, { rootMargin: "50%" }).observe(figure);

    form.hidden = false;
    follow();
  }

  /** A quiz: choosing an option says why it is right or not; what was chosen is remembered here. */
  function startQuiz(quiz) {
    const form = quiz.querySelector("form");
    const score = form.querySelector("output");
    const questions = [...form.querySelectorAll("fieldset")];
    const chosen = (question) => question.querySelector("input:checked");

    const store = (value) => {
      try { localStorage.setItem(quiz.id, JSON.stringify(value)); } catch { /* private mode: forget */ }
    };
    const stored = () => {
      try { return JSON.parse(localStorage.getItem(quiz.id)) ?? []; } catch { return []; }
    };

    const draw = () => {
      questions.forEach((question) => {
        const option = chosen(question);
        const why = question.querySelector(".quiz-why");
        why.innerHTML = option ? option.parentElement.querySelector("p").innerHTML : "";
        why.dataset.right = option ? "right" in option.dataset : "";
      });
      const answers = questions.map(chosen).filter(Boolean);
      const right = answers.filter((option) => "right" in option.dataset).length;
      score.value = `${right} right of ${answers.length} answered; ${questions.length} questions in all.`;
    };

    form.addEventListener("change", () => {
      draw();
      store(questions.map((question) => chosen(question)?.value ?? null));
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(() => { draw(); store([]); }));

    const before = stored();
    questions.forEach((question, i) => {
      const option = [...question.querySelectorAll("input")].find((one) => one.value === before[i]);
      if (option) option.checked = true;
    });
    quiz.querySelector(".quiz-folded").hidden = true;
    form.hidden = false;
    draw();
  }

  /** A formula wider than the page scrolls inside its box; the box can then be reached by Tab. */
  const makeScrollable = () => {
    document.querySelectorAll("div.math, div.math mjx-container").forEach((box) => {
      if (box.scrollWidth <= box.clientWidth) return box.removeAttribute("tabindex");
      box.tabIndex = 0;
      if (!box.matches("div")) return;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", "formula, scrolls sideways");
    });
  };

  const startAll = () => {
    document.querySelectorAll("figure.explore").forEach(start);
    document.querySelectorAll("div.quiz").forEach(startQuiz);
    addEventListener("load", () => {
      window.MathJax?.startup?.promise.then(makeScrollable);
      addEventListener("resize", makeScrollable);
    });
  };
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", startAll);
  else startAll();
})();
