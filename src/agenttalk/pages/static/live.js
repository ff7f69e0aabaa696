// Keeps a page up to date: when the ledger tells of something, the page is asked for again, and the parts of it that
// changed are put in place of the old ones. Without this script everything can be read and done; only reload by hand.
"use strict";
(() => {
  const body = document.body;
  document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  const sign = document.getElementById("live");
  if (!sign || !body.dataset.cursor || !window.EventSource) return;

  const QUIET = 150;
  let waiting = 0, busy = false, again = false, cost = 0;

  const show = (on) => {
    sign.className = on ? "live on" : "live off";
    const text = on ? sign.dataset.on : sign.dataset.off;
    if (sign.textContent !== text) sign.textContent = text;
  };

  // Somebody is writing in it, or has something of it open.
  const inUse = (part) =>
    part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select") ||
    [...part.querySelectorAll("input:not([type=hidden]), textarea")].some((each) => each.value !== each.defaultValue) ||
    part.querySelector("details.menu[open]") !== null;

  const keepOpen = (from, to) => {
    const old = [...from.querySelectorAll("details")], fresh = [...to.querySelectorAll("details")];
    if (old.length === fresh.length) fresh.forEach((each, at) => { each.open = old[at].open; });
  };

  const put = (page) => {
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = page.getElementById(part.id);
      if (!next || inUse(part)) continue;
      keepOpen(part, next);
      if (part.outerHTML === next.outerHTML) continue;
      const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      const placed = document.importNode(next, true);
      part.replaceWith(placed);
      if (focused) [...placed.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused)?.focus();
    }
    if (page.title) document.title = page.title;
  };

  const look = async () => {
    waiting = 0;
    if (busy) { again = true; return; }
    busy = true;
    const began = performance.now();
    try {
      const answer = await fetch(location.pathname + location.search, { headers: { "X-Fragment": "1" }, credentials: "same-origin" });
      if (answer.status === 401) { show(false); events.close(); return; }
      if (answer.ok) put(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { /* the engine is away; the stream tells when it is back */ }
    cost = performance.now() - began;
    busy = false;
    if (again) { again = false; soon(); }
  };

  // A large plan is drawn less often, so that drawing never becomes the work.
  const soon = () => { if (!waiting) waiting = setTimeout(look, Math.max(QUIET, 4 * cost)); };

  const query = new URLSearchParams({ after: body.dataset.cursor });
  if (body.dataset.plan) query.set("plan", body.dataset.plan);
  const events = new EventSource("/api/events?" + query);
  events.onopen = () => show(true);
  events.onerror = () => show(false);
  events.addEventListener("fact", soon);
  events.addEventListener("anew", soon);
  addEventListener("pagehide", () => events.close());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
})();
