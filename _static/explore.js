/* Sliders of the built book. Each figure.explore carries its frames and captions as JSON;
   moving a slider swaps the picture, its alternative text and its caption. No network, no kernel. */
(() => {
  "use strict";

  /** The frame's place in the list: the last slider moves fastest. */
  const frameIndex = (sliders) =>
    sliders.reduce((index, slider) => index * (Number(slider.max) + 1) + Number(slider.value), 0);

  /** "#explore-name?d_k=256&T=8": the figure's id and its parameters, or null. */
  const readLink = () => {
    const [id, query] = decodeURIComponent(location.hash.slice(1)).split("?");
    return id && query ? { id, parameters: new URLSearchParams(query) } : null;
  };

  function start(figure) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const form = figure.querySelector("form");
    const image = figure.querySelector("img");
    const caption = figure.querySelector("figcaption");
    const sliders = data.controls.map((control) => form.elements.namedItem(control.name));
    let loaded = false;

    /** Fetch the other frames once somebody is about to use them. */
    const load = () => {
      if (loaded) return;
      loaded = true;
      figure.preloaded = [...new Set(data.frames)].map((source) => {
        const frame = new Image();
        frame.src = source;
        return frame;
      });
    };

    const draw = () => {
      sliders.forEach((slider, i) => {
        const text = data.controls[i].texts[Number(slider.value)];
        slider.setAttribute("aria-valuetext", text);
        slider.nextElementSibling.value = text;
      });
      const index = frameIndex(sliders);
      image.src = data.frames[index];
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
      load();
      draw();
      figure.scrollIntoView();
    };

    form.reset(); // a browser may restore old positions on reload
    form.addEventListener("input", () => { load(); draw(); });
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
    draw();
    follow();
  }

  const startAll = () => document.querySelectorAll("figure.explore").forEach(start);
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", startAll);
  else startAll();
})();
