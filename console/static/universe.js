"use strict";
// The universe: zones, their leaders, the moves between them, epsilon. Everything is drawn from one answer of the node, and from the answers before it.
const period = 2000, history = 150;
const samples = []; // of each answer: Map of a zone's name to its leaders
let latest = null;

const colours = { live: "--good", degraded: "--warn", suspect: "--warn", draining: "--warn", decommissioning: "--warn", dead: "--bad" };
const colour = state => css(colours[state] || "--soft");
const nameOf = z => z.zone || z.region || "no zone";
const keyOf = z => z.region + "\n" + z.zone;

// layout places regions on a plane, so that their distances are about those of the round trips: from a circle, each pair is pulled to its distance, again and again. It always ends
// alike for the same distances.
function layout(names, trips) {
  const at = new Map(names.map((n, i) => [n, [Math.cos(2 * Math.PI * i / names.length - 2.2), Math.sin(2 * Math.PI * i / names.length - 2.2)]]));
  const ms = new Map(trips.map(t => [t.from + "\n" + t.to, t.ms]));
  const between = (a, b) => ms.get(a + "\n" + b) ?? ms.get(b + "\n" + a);
  const most = Math.max(1, ...trips.filter(t => t.from !== t.to).map(t => t.ms));
  for (let round = 0; round < 300; round++) {
    for (const a of names) for (const b of names) {
      if (a >= b) continue;
      const p = at.get(a), q = at.get(b), dx = q[0] - p[0], dy = q[1] - p[1], d = Math.hypot(dx, dy) || 1e-6;
      const want = .45 + 1.75 * (between(a, b) ?? most) / most, push = .1 * (d - want) / d;
      p[0] += push * dx; p[1] += push * dy; q[0] -= push * dx; q[1] -= push * dy;
    }
  }
  return at;
}

// arc is a part of a disc, from the top clockwise.
function arc(x, y, r, part) {
  if (part <= 0) return "";
  if (part >= .999) return `M${x},${y - r}A${r},${r} 0 1 1 ${x - .01},${y - r}Z`;
  const a = 2 * Math.PI * part - Math.PI / 2;
  return `M${x},${y}L${x},${y - r}A${r},${r} 0 ${part > .5 ? 1 : 0} 1 ${(x + r * Math.cos(a)).toFixed(1)},${(y + r * Math.sin(a)).toFixed(1)}Z`;
}

function drawMap(c) {
  const box = byId("map"), w = Math.max(box.clientWidth, 320), h = 640, hue = regionHues(c);
  const regions = [...new Set(c.zones.map(z => z.region))].sort(), at = layout(regions, c.round_trips);
  const xs = [...at.values()].map(p => p[0]), ys = [...at.values()].map(p => p[1]);
  const fit = (v, all, size, margin) => { const low = Math.min(...all), high = Math.max(...all); return high - low < 1e-3 ? size / 2 : margin + (size - 2 * margin) * (v - low) / (high - low); };
  const most = Math.max(1, ...c.zones.map(z => z.replicas)), places = new Map(), parts = [];
  const svg = el("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": "the zones of the cluster" });
  for (const region of regions) {
    const [px, py] = at.get(region), zones = c.zones.filter(z => z.region === region), spread = zones.length > 1 ? Math.max(70, 23 * zones.length) : 0, x = fit(px, xs, w, 150), y = fit(py, ys, h, 152);
    parts.push(el("circle", { cx: x, cy: y, r: 64 + spread * .95, style: `fill:color-mix(in srgb, ${css(hue.get(region) || "--track")} 8%, transparent);stroke:${css(hue.get(region) || "--track")}`, "stroke-dasharray": "2 4" }),
      el("text", { x, y: y - 70 - spread * .95, "text-anchor": "middle", class: "regionname" }, region || "no region"));
    zones.forEach((z, i) => {
      const turn = 2 * Math.PI * i / zones.length - Math.PI / 2;
      places.set(keyOf(z), { z, x: x + spread * Math.cos(turn), y: y + spread * Math.sin(turn), r: 14 + 16 * Math.sqrt(z.replicas / most), hue: css(hue.get(region) || "--track") });
    });
  }
  const zoneOf = new Map(c.zones.flatMap(z => z.nodes.map(n => [n, keyOf(z)]))), state = new Map(c.nodes.map(n => [n.id, n.state]));
  // Arrows lie below discs. A replica comes from the zone of one that leaves, else from that of the leaseholder.
  const moves = new Map();
  for (const r of c.moving) {
    const leaving = [...r.leaving];
    for (const to of r.coming) {
      const from = zoneOf.get(leaving.shift() ?? r.leaseholder), there = zoneOf.get(to);
      if (from && there && from !== there) moves.set(from + "\n\n" + there, (moves.get(from + "\n\n" + there) || 0) + 1);
    }
  }
  svg.append(el("defs", {}, el("marker", { id: "tip", viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 6, markerHeight: 6, orient: "auto-start-reverse" }, el("path", { d: "M0,0L10,5L0,10Z", class: "tip" }))), ...parts);
  for (const [pair, n] of moves) {
    const [a, b] = pair.split("\n\n").map(k => places.get(k)), dx = b.x - a.x, dy = b.y - a.y, d = Math.hypot(dx, dy) || 1;
    const x1 = a.x + dx / d * (a.r + 4), y1 = a.y + dy / d * (a.r + 4), x2 = b.x - dx / d * (b.r + 7), y2 = b.y - dy / d * (b.r + 7), mx = (x1 + x2) / 2 - dy * .15, my = (y1 + y2) / 2 + dx * .15;
    svg.append(el("path", { class: "move", d: `M${x1},${y1}Q${mx},${my} ${x2},${y2}`, "stroke-width": Math.min(6, 1.5 + n / 2), "marker-end": "url(#tip)" }),
      el("text", { x: (x1 + 2 * mx + x2) / 4, y: (y1 + 2 * my + y2) / 4 - 4, "text-anchor": "middle", class: "movecount" }, n));
  }
  for (const { z, x, y, r, hue } of places.values()) {
    const g = el("g", {}, el("title", {}, `${z.region} ${z.zone}: ${z.state}; ${z.live_nodes} nodes live, ${z.suspect_nodes} suspect, ${z.dead_nodes} dead, ${z.draining_nodes} draining; ${z.leaders} leaders of ${z.replicas} replicas, ${bytes(z.bytes)}; ${z.arriving} replicas come, ${z.leaving} go; epsilon ${z.epsilon_ms.toFixed(1)} ms`));
    g.append(el("circle", { cx: x, cy: y, r, style: `fill:color-mix(in srgb, ${hue} 30%, var(--panel));stroke:${colour(z.state)}`, "stroke-width": z.state === "live" ? 2 : 4, "stroke-dasharray": z.state === "dead" || z.state === "suspect" ? "5 4" : undefined }),
      el("path", { d: arc(x, y, r - 2, z.replicas ? z.leaders / z.replicas : 0), style: `fill:${hue}` }));
    z.nodes.forEach((n, i) => g.append(el("circle", { cx: x + (i - (z.nodes.length - 1) / 2) * 11, cy: y + r + 9, r: 4, style: `fill:${colour(state.get(n))}` }, el("title", {}, `n${n}: ${state.get(n)}`))));
    g.append(el("text", { x, y: y + r + 27, "text-anchor": "middle" }, `${nameOf(z)} · ${z.leaders}/${z.replicas}`));
    svg.append(g);
  }
  box.replaceChildren(svg);
  byId("maplegend").replaceChildren(...["live", "degraded", "suspect", "dead", "draining"].map(s => {
    const n = c.zones.filter(z => z.state === s).length;
    return el("span", {}, el("i", { style: `background:${colour(s)}` }), s + " ", el("b", {}, n));
  }), el("span", {}, "moves ", el("b", {}, c.moving.length)));
}

// drawLeaders draws the leaders of each zone over time: what they do when a zone fails or is drained is Spanner's figure 5.
function drawLeaders(c) {
  const box = byId("leaderchart"), w = Math.max(box.clientWidth, 200), h = 190, left = 40, iw = w - left - 4, ih = h - 28, hue = regionHues(c);
  const top = Math.max(1, ...samples.flatMap(s => [...s.values()])), step = iw / (history - 1), x0 = left + iw - step * (samples.length - 1);
  const svg = el("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": "leaders by zone" });
  for (const f of [0, .5, 1]) svg.append(el("line", { class: "grid", x1: left, x2: w - 4, y1: 8 + ih - f * ih, y2: 8 + ih - f * ih }), el("text", { x: left - 7, y: 12 + ih - f * ih, "text-anchor": "end" }, number(top * f)));
  const nth = new Map();
  for (const z of c.zones) {
    const i = nth.get(z.region) || 0;
    nth.set(z.region, i + 1);
    const d = samples.map((s, k) => `${k ? "L" : "M"}${(x0 + k * step).toFixed(1)},${(8 + ih - ih * (s.get(keyOf(z)) || 0) / top).toFixed(1)}`).join("");
    svg.append(el("path", { d: samples.length > 1 ? d : "", fill: "none", style: `stroke:${css(hue.get(z.region) || "--track")}`, "stroke-width": 2, "stroke-dasharray": ["", "6 3", "2 3", "8 3 2 3"][i % 4] || undefined, "stroke-linejoin": "round" }, el("title", {}, nameOf(z))));
  }
  box.replaceChildren(svg);
  byId("leaderlegend").replaceChildren(...c.zones.map(z => el("span", {}, el("i", { style: `background:${css(hue.get(z.region) || "--track")}` }), nameOf(z) + " ", el("b", {}, z.leaders))));
}

// drawEpsilon draws the interval of each node's clock around true time.
function drawEpsilon(c) {
  const box = byId("epsilon"), nodes = [...c.nodes].sort((a, b) => a.id - b.id), w = Math.max(box.clientWidth, 200), row = 17, h = nodes.length * row + 26, left = 46, mid = left + (w - left - 50) / 2;
  const top = Math.max(.001, ...nodes.map(n => n.epsilon_ms)), half = (w - left - 60) / 2, hue = regionHues(c);
  const svg = el("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": "epsilon of each node" }, el("line", { class: "grid", x1: mid, x2: mid, y1: 4, y2: h - 20 }));
  nodes.forEach((n, i) => {
    const y = 12 + i * row, e = half * n.epsilon_ms / top;
    svg.append(el("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, "n" + n.id), el("line", { x1: mid - e, x2: mid + e, y1: y, y2: y, style: `stroke:${n.live ? css(hue.get(n.region) || "--track") : css("--bad")}`, "stroke-width": 5, "stroke-linecap": "round", "stroke-dasharray": n.live ? undefined : "3 5" }),
      el("text", { x: mid + e + 8, y: y + 4 }, n.epsilon_ms.toFixed(n.epsilon_ms < 10 ? 2 : 0)));
  });
  svg.append(el("text", { x: mid, y: h - 4, "text-anchor": "middle" }, "true time"));
  box.replaceChildren(svg);
  byId("epsilonnote").replaceChildren(el("span", {}, "greatest ", el("b", {}, top.toFixed(1) + " ms")), el("span", {}, "two clocks differ by at most ", el("b", {}, c.max_offset_ms.toFixed(0) + " ms")));
}

function drawMoves(c) {
  byId("movesection").hidden = !c.moving.length;
  byId("movenote").textContent = c.moving.length ? `${c.moving.length} ranges` : "";
  byId("moves").replaceChildren(...c.moving.slice(0, 50).map(r => el("div", { class: "moverow" }, el("b", {}, "r" + r.id), el("span", { class: "key", title: r.start }, r.start),
    ...r.replicas.map(n => el("span", { class: "chip " + (r.coming.includes(n) ? "comes" : r.leaving.includes(n) ? "goes" : "") }, (r.coming.includes(n) ? "+" : r.leaving.includes(n) ? "−" : "") + "n" + n)), el("span", { class: "quiet" }, r.change))));
}

// drawDirectories has a bar for each directory: how many of its ranges are where its placement wants them.
function drawDirectories(c) {
  const hidden = c.directory_count - c.directories.length, away = c.directories.filter(d => d.moving).length;
  byId("directorynote").textContent = !c.directory_count ? "none has a placement: CREATE PLACEMENT, ALTER TABLE ... SET PLACEMENT ... FOR VALUES (...)" : `${c.directory_count} with a placement, ${away} not there yet` + (hidden ? `; ${hidden} are not shown` : "");
  byId("directories").replaceChildren(...c.directories.map(d => {
    const state = d.stuck ? "stuck" : d.moving ? "moving" : "settled", part = d.ranges ? (d.ranges - d.moving) / d.ranges : 0;
    return el("div", { class: "directory " + state }, el("span", { class: "key" }, `${d.database}.${d.table}` + (d.prefix ? ` (${d.prefix})` : "")), el("span", { class: "chip" }, d.placement),
      el("div", { class: "bar" }, el("i", { style: `width:${100 * part}%` })), el("span", { class: "num" }, `${d.ranges - d.moving} of ${d.ranges}`), el("span", { class: "state" }, state), el("span", { class: "quiet" }, d.reason || d.places));
  }));
}

function drawStatus(c) {
  const down = c.zones.filter(z => z.state === "dead" || z.state === "suspect").length, part = c.zones.filter(z => z.state === "degraded").length, stuck = c.directories.filter(d => d.stuck).length;
  const text = [down && `${down} zone${down > 1 ? "s" : ""} down`, part && `${part} degraded`, stuck && `${stuck} directories stuck`].filter(Boolean).join(", ");
  byId("status").className = "pill " + (down ? "bad" : text ? "warn" : "good");
  byId("status").textContent = text || `${c.zones.length} zones live`;
  byId("cluster").textContent = `cluster ${c.name} · seen from n${c.node}`;
  byId("trouble").hidden = !c.error;
  byId("trouble").textContent = c.error || "";
}

function draw() {
  if (!latest) return;
  drawStatus(latest); drawMap(latest); drawLeaders(latest); drawEpsilon(latest); drawMoves(latest); drawDirectories(latest);
}

async function poll() {
  try {
    const answer = await fetch("/api/v1/cluster", { signal: AbortSignal.timeout(5000), cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status + " " + (await answer.text()).slice(0, 200));
    const c = await answer.json();
    c.nodes ||= []; c.zones ||= []; c.moving ||= []; c.round_trips ||= []; c.directories ||= [];
    for (const r of c.moving) { r.coming ||= []; r.leaving ||= []; r.replicas ||= []; }
    latest = c;
    samples.push(new Map(c.zones.map(z => [keyOf(z), z.leaders])));
    if (samples.length > history) samples.shift();
    draw();
  } catch (e) {
    byId("status").className = "pill bad";
    byId("status").textContent = "no answer";
    byId("trouble").hidden = false;
    byId("trouble").textContent = "This node does not answer: " + e.message;
  }
  setTimeout(poll, period);
}

addEventListener("resize", draw);
poll();
