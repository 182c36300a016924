"use strict";
// What the pages share.
const hues = ["--s1", "--s3", "--s2", "--s4", "--s6", "--s5"];

const byId = id => document.getElementById(id);
const css = name => `var(${name})`;

// el makes an element; text never becomes markup.
function el(tag, attrs = {}, ...children) {
  const svg = ["svg", "path", "line", "text", "rect", "circle", "g", "defs", "marker", "title"].includes(tag);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) if (v !== undefined && v !== false) e.setAttribute(k, v);
  for (const c of children) if (c !== null && c !== undefined) e.append(c);
  return e;
}

function number(v) {
  if (v >= 1e6) return (v / 1e6).toFixed(1) + "M";
  if (v >= 1e4) return (v / 1e3).toFixed(1) + "k";
  return v >= 10 || Number.isInteger(v) ? Math.round(v).toString() : v.toFixed(1);
}
function bytes(v) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (v >= 1024 && i < units.length - 1) { v /= 1024; i++; }
  return (i && v < 100 ? v.toFixed(1) : Math.round(v)) + " " + units[i];
}
function span(s) {
  if (s < 120) return Math.round(s) + " s";
  if (s < 7200) return Math.round(s / 60) + " min";
  return s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " d";
}

function regionHues(c) {
  const m = new Map();
  for (const n of [...c.nodes].sort((a, b) => a.id - b.id)) if (!m.has(n.region)) m.set(n.region, hues[m.size % hues.length]);
  return m;
}

function theme(dark) { document.documentElement.classList.toggle("dark", dark); }
theme(localStorage.getItem("theme") ? localStorage.getItem("theme") === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
byId("theme").onclick = () => {
  const dark = !document.documentElement.classList.contains("dark");
  theme(dark);
  localStorage.setItem("theme", dark ? "dark" : "light");
};
