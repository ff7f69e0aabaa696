// Keeps a page up to date: when the ledger tells of something, the page is asked for again, and the parts of it that
// changed are put in place of the old ones. Of a large plan only the tasks are asked for that the ledger named, and the
// rest of the page when it has become quiet. Without this script everything can be read and done; only reload by hand.
"use strict";
(() => {
  const body = document.body;
  document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  const sign = document.getElementById("live");
  if (!sign || !body.dataset.cursor || !window.EventSource) return;

  const QUIET = 150, SETTLED = 2000, DOING = 2000, LONGEST = 60000, MOST = 100;
  const changed = new Set();
  let waiting = 0, settling = 0, busy = false, again = false, whole = false, rest = false, seen = performance.now();
  const cost = { whole: 0, rest: 0, some: 0 };

  const show = (on) => {
    sign.className = on ? "live on" : "live off";
    const text = on ? sign.dataset.on : sign.dataset.off;
    if (sign.textContent !== text) sign.textContent = text;
  };

  // The reader is writing in it, or has a part of it open.
  const inUse = (part) =>
    part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select") ||
    [...part.querySelectorAll("input:not([type=hidden]), textarea")].some((each) => each.value !== each.defaultValue) ||
    part.querySelector("details.menu[open]") !== null;

  const keepOpen = (from, to) => {
    const old = [...from.querySelectorAll("details")], fresh = [...to.querySelectorAll("details")];
    if (old.length === fresh.length) fresh.forEach((each, at) => { each.open = old[at].open; });
  };

  const swap = (old, fresh) => {
    if (!fresh.hasAttribute("transform") && old.hasAttribute("transform")) fresh.setAttribute("transform", old.getAttribute("transform"));
    if (old.outerHTML === fresh.outerHTML) return;
    const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const placed = document.importNode(fresh, true);
    old.replaceWith(placed);
    if (focused) [placed, ...placed.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused)?.focus();
  };

  // Of many things only those that differ; false when there are others than before.
  const swapEach = (part, next) => {
    const old = [...part.querySelectorAll("[id]")], fresh = [...next.querySelectorAll("[id]")];
    if (old.length !== fresh.length || old.some((each, at) => each.id !== fresh[at].id)) return false;
    old.forEach((each, at) => swap(each, fresh[at]));
    return true;
  };

  const put = (page) => {
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = page.getElementById(part.id);
      if (!next || inUse(part)) continue;
      keepOpen(part, next);
      if ("keyed" in part.dataset && swapEach(part, next)) continue;
      swap(part, next);
    }
    if (page.title) document.title = page.title;
  };

  const count = (state, by) => {
    for (const each of document.querySelectorAll(`[data-count="${CSS.escape(state)}"]`)) {
      const number = each.querySelector(".n");
      number.textContent = Number(number.textContent) + by;
      each.hidden = number.textContent === "0";
    }
  };

  const putSome = (page) => {
    for (const fresh of page.querySelectorAll("[id]")) {
      const old = document.getElementById(fresh.id);
      if (!old) continue;
      if (fresh.classList.contains("node")) {
        if (old.dataset.state !== fresh.dataset.state) { count(old.dataset.state, -1); count(fresh.dataset.state, 1); }
        document.getElementById("e-" + fresh.id.slice(2))?.classList.toggle("met", fresh.dataset.met === "1");
      }
      swap(old, fresh);
    }
    clearTimeout(settling);
    settling = setTimeout(() => { rest = true; soon(); }, Math.max(SETTLED, 8 * cost.rest));
  };

  const next = () => whole || !body.dataset.parts ? "whole" : changed.size ? "some" : rest ? "rest" : "whole";

  const look = async () => {
    waiting = 0;
    if (busy) { again = true; return; }
    busy = true;
    const began = performance.now();
    if (began - seen > LONGEST) whole = true;
    const what = next(), names = [...changed].slice(0, what === "some" ? MOST : changed.size);
    names.forEach((each) => changed.delete(each));
    if (what === "whole") { whole = false; seen = began; }
    if (what !== "some") rest = false;
    const asked = new URLSearchParams(names.map((each) => ["task", each]));
    const address = what === "some" ? body.dataset.parts + "?" + asked : location.pathname + location.search;
    try {
      const answer = await fetch(address, { headers: { "X-Fragment": what }, credentials: "same-origin" });
      if (answer.status === 401) { show(false); events.close(); return; }
      if (answer.ok) (what === "some" ? putSome : put)(new DOMParser().parseFromString(await answer.text(), "text/html"));
      else if (what === "some") whole = true;
    } catch { if (what !== "whole") whole = true; /* the engine is away; the stream tells when it is back */ }
    cost[what] = performance.now() - began;
    busy = false;
    if (again || whole || rest || changed.size) { again = false; soon(); }
  };

  // What takes long is asked for less often, so that drawing never becomes the work.
  const soon = () => { if (!waiting) waiting = setTimeout(look, Math.max(QUIET, 4 * cost[next()])); };

  const heard = (event) => {
    const tasks = body.dataset.parts ? JSON.parse(event.data).tasks : [];
    if (tasks.length) tasks.forEach((each) => changed.add(each)); else whole = true;
    soon();
  };

  // The ledger does not tell what a turn is doing at the moment. Pages that show it are asked for again while it is seen.
  setInterval(() => {
    const doing = document.hidden ? [] : [...document.querySelectorAll("[data-doing]")];
    if (!doing.length) return;
    if (body.dataset.parts) doing.forEach((each) => changed.add(each.dataset.doing)); else whole = true;
    soon();
  }, DOING);

  const query = new URLSearchParams({ after: body.dataset.cursor });
  if (body.dataset.plan) query.set("plan", body.dataset.plan);
  const events = new EventSource("/api/events?" + query);
  events.onopen = () => show(true);
  events.onerror = () => show(false);
  events.addEventListener("fact", heard);
  events.addEventListener("anew", () => { whole = true; soon(); });
  addEventListener("pagehide", () => events.close());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
})();
