"use strict";
// One request every two seconds; everything shown is drawn from its answer and from the answers before it.
const period = 2000, history = 150, shownRanges = 500;
const kinds = [["selects", "SELECT", "--s1"], ["inserts", "INSERT", "--s2"], ["updates", "UPDATE", "--s3"], ["deletes", "DELETE", "--s4"], ["other", "other", "--s5"]];
const samples = []; // {t, connections, selects, ..., errors, retries}: rates per second
const speeds = []; // of each answer: Map of region to {statements, p50_ms, p99_ms}
let before = null, latest = null;

function linePath(values, w, h, top) {
  if (values.length < 2) return "";
  const step = w / (history - 1), x0 = w - step * (values.length - 1);
  return values.map((v, i) => `${i ? "L" : "M"}${(x0 + i * step).toFixed(1)},${(h - (top ? v / top : 0) * h).toFixed(1)}`).join("");
}

function spark(values, color) {
  const top = Math.max(...values, 1), d = linePath(values, 200, 24, top);
  return el("svg", { viewBox: "0 -1 200 26", preserveAspectRatio: "none", "aria-hidden": "true" },
    el("path", { d, fill: "none", style: `stroke:${css(color)}`, "stroke-width": 1.5, "vector-effect": "non-scaling-stroke" }));
}

function tile(name, value, note, level, series, color) {
  return el("div", { class: "tile" }, el("span", { class: "name" }, name), el("span", { class: "value" }, value),
    note ? el("span", { class: "note " + (level || "") }, note) : null, series && series.length > 1 ? spark(series, color) : null);
}

const statements = s => kinds.reduce((sum, [k]) => sum + s[k], 0);
const few = r => r.state !== "ok" || r.violation;

// trouble says what is wrong with the ranges, in words; empty: nothing. Liveness is the server's, by each voter's node.
function trouble(c) {
  const parts = [];
  if (c.unavailable) parts.push(`${c.unavailable} unavailable`);
  if (c.underreplicated) parts.push(`${c.underreplicated} under-replicated`);
  if (c.violating) parts.push(`${c.violating} where a constraint forbids it`);
  return parts.join(", ");
}

function drawTiles(c) {
  const live = c.nodes.filter(n => n.live).length, last = samples[samples.length - 1];
  const orphan = c.ranges.filter(r => !r.leaseholder).length;
  const note = trouble(c) || (c.error ? "not all could be looked at" : orphan ? `${orphan} without a known lease` : "all replicated");
  const size = c.nodes.reduce((sum, n) => sum + n.bytes, 0);
  byId("tiles").replaceChildren(
    tile("nodes alive", `${live} of ${c.nodes.length}`, new Set(c.nodes.map(n => n.region)).size + " regions", live < c.nodes.length ? "bad" : ""),
    tile("ranges", number(c.range_count), note, c.unavailable || c.error ? "bad" : c.underreplicated || c.violating ? "warn" : ""),
    tile("stored, all replicas", bytes(size), ""),
    tile("connections here", number(c.sql.connections), "", "", samples.map(s => s.connections), "--s5"),
    tile("statements/s here", last ? number(statements(last)) : "–", "", "", samples.map(statements), "--s1"),
    tile("errors/s here", last ? number(last.errors) : "–", last ? `${number(last.retries)} retries/s` : "", "", samples.map(s => s.errors), "--s6"));
}

function drawChart() {
  const box = byId("chart"), w = Math.max(box.clientWidth, 200), h = 190, left = 46, bottom = 20, iw = w - left - 4, ih = h - bottom - 8;
  let top = Math.max(1, ...samples.flatMap(s => kinds.map(([k]) => s[k])));
  const unit = 10 ** Math.floor(Math.log10(top));
  top = [1, 2, 5, 10].map(m => m * unit).find(v => v >= top);
  const svg = el("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": "statements per second by kind" });
  for (const f of [0, .5, 1]) {
    const y = 8 + ih - f * ih;
    svg.append(el("line", { class: "grid", x1: left, x2: w - 4, y1: y, y2: y }), el("text", { x: left - 7, y: y + 4, "text-anchor": "end" }, number(top * f)));
  }
  for (const [m, label] of [[0, "5 min ago"], [.5, "2.5"], [1, "now"]]) svg.append(el("text", { x: left + m * iw, y: h - 4, "text-anchor": ["start", "middle", "end"][m * 2] }, label));
  for (const [k, , color] of kinds) {
    svg.append(el("path", { d: linePath(samples.map(s => s[k]), iw, ih, top), transform: `translate(${left},8)`, fill: "none", style: `stroke:${css(color)}`, "stroke-width": 2, "stroke-linejoin": "round" }));
  }
  box.replaceChildren(svg);
  const last = samples[samples.length - 1];
  byId("legend").replaceChildren(...kinds.map(([k, label, color]) => el("span", {}, el("i", { style: `background:${css(color)}` }), label + " ", el("b", {}, last ? number(last[k]) : "–"))));
}

function meter(name, value, most, color, text) {
  return el("div", { class: "meter" }, el("span", {}, name), el("div", {}, el("i", { style: `width:${most ? 100 * value / most : 0}%;background:${css(color)}` })), el("span", {}, text));
}

function drawRegions(c) {
  const hue = regionHues(c), mostRanges = Math.max(1, ...c.nodes.map(n => n.ranges)), mostLeases = Math.max(1, ...c.nodes.map(n => n.leases));
  byId("regions").replaceChildren(...[...hue].map(([region, color]) => {
    const nodes = c.nodes.filter(n => n.region === region).sort((a, b) => a.id - b.id);
    const leases = nodes.reduce((s, n) => s + n.leases, 0);
    return el("div", { class: "region" }, el("h3", {}, el("i", { style: `background:${css(color)}` }), region || "no region", el("span", { class: "quiet" }, `${nodes.length} nodes, ${leases} leases`)),
      ...nodes.map(n => el("div", { class: "node" + (n.live ? "" : " dead") + (n.draining ? " draining" : ""), style: `border-left-color:${css(color)}` },
        el("div", { class: "top" }, el("b", {}, "n" + n.id), el("span", { class: "quiet" }, n.zone),
          el("span", { class: "state" }, !n.live ? "dead" : n.draining ? "draining" : n.id === c.node ? "this node" : n.latency_ms ? `${n.latency_ms.toFixed(n.latency_ms < 10 ? 1 : 0)} ms away` : "alive")),
        meter("ranges", n.ranges, mostRanges, color, n.ranges), meter("leases", n.leases, mostLeases, color, n.leases),
        el("div", { class: "addr" }, `SQL ${n.sql_addr || "–"} · binary ${n.binary || "–"} · ${bytes(n.bytes)}${n.live ? ` · up ${span(n.uptime_seconds)}` : ""}`))));
  }));
}

// drawMatrix shows the round trips between regions; the longer, the darker.
function drawMatrix(c) {
  const names = [...new Set(c.round_trips.flatMap(r => [r.from, r.to]))].sort(), hue = regionHues(c);
  const ms = new Map(c.round_trips.map(r => [r.from + "\n" + r.to, r.ms])), most = Math.max(1, ...ms.values());
  const head = r => el("th", { style: `color:${css(hue.get(r) || "--track")}` }, r || "no region");
  byId("distances").hidden = names.length < 2;
  byId("matrix").replaceChildren(el("tr", {}, el("th"), ...names.map(head)), ...names.map(from => el("tr", {}, head(from), ...names.map(to => {
    const v = ms.get(from + "\n" + to);
    return v === undefined ? el("td", { class: "num quiet" }, "–") :
      el("td", { class: "num", style: `background:color-mix(in srgb, var(--s6) ${Math.round(45 * v / most)}%, transparent)` }, v.toFixed(v < 10 ? 1 : 0));
  }))));
}

const millis = v => v >= 100 ? v.toFixed(0) + " ms" : v >= 1 ? v.toFixed(1) + " ms" : (v * 1000).toFixed(0) + " µs";

// drawSpeeds draws the median and the p99 of each region's statements; the scale is logarithmic, since regions are a hundred times as far as zones. A region without
// statements, or whose nodes do not answer, has a gap.
function drawSpeeds(c) {
  const hue = regionHues(c), regions = [...new Set(speeds.flatMap(s => [...s.keys()]))].sort();
  const all = speeds.flatMap(s => [...s.values()]).filter(v => v.statements).flatMap(v => [v.p50_ms, v.p99_ms]);
  byId("speed").hidden = !all.length;
  if (!all.length) return;
  const box = byId("speedchart"), w = Math.max(box.clientWidth, 200), h = 190, left = 56, bottom = 20, iw = w - left - 4, ih = h - bottom - 8;
  const low = Math.floor(Math.log10(Math.max(.01, Math.min(...all)))), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...all, .1))));
  const y = v => 8 + ih - ih * (Math.log10(Math.max(v, 10 ** low)) - low) / (high - low), step = iw / (history - 1), x0 = left + iw - step * (speeds.length - 1);
  const svg = el("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": "times of statements by region" });
  for (let e = low; e <= high; e++) svg.append(el("line", { class: "grid", x1: left, x2: w - 4, y1: y(10 ** e), y2: y(10 ** e) }), el("text", { x: left - 7, y: y(10 ** e) + 4, "text-anchor": "end" }, millis(10 ** e)));
  for (const [m, label] of [[0, "5 min ago"], [.5, "2.5"], [1, "now"]]) svg.append(el("text", { x: left + m * iw, y: h - 4, "text-anchor": ["start", "middle", "end"][m * 2] }, label));
  for (const region of regions) for (const [k, dashes] of [["p50_ms", false], ["p99_ms", "4 3"]]) {
    let d = "", down = false;
    speeds.forEach((s, i) => {
      const v = s.get(region);
      if (!v || !v.statements) { down = false; return; }
      d += `${down ? "L" : "M"}${(x0 + i * step).toFixed(1)},${y(v[k]).toFixed(1)}`;
      down = true;
    });
    svg.append(el("path", { d, fill: "none", style: `stroke:${css(hue.get(region) || "--track")}`, "stroke-width": dashes ? 1.2 : 2, "stroke-dasharray": dashes, "stroke-linejoin": "round", "stroke-linecap": "round" }));
  }
  box.replaceChildren(svg);
  const last = speeds[speeds.length - 1];
  byId("speedlegend").replaceChildren(...regions.map(r => {
    const v = last.get(r);
    return el("span", {}, el("i", { style: `background:${css(hue.get(r) || "--track")}` }), (r || "no region") + " ", el("b", {}, v && v.statements ? `${millis(v.p50_ms)}, p99 ${millis(v.p99_ms)}` : v ? "no statements" : "no answer"));
  }));
}

// role says in a word that a replica votes and has no rows.
const role = (r, id) => r.witnesses.includes(id) ? " (witness)" : "";

// drawMoves lists the ranges whose replicas are being changed.
function drawMoves(c) {
  byId("moves").hidden = !c.moving.length;
  byId("movenote").textContent = c.moving.length ? `${c.moving.length}` : "";
  byId("moving").replaceChildren(...c.moving.slice(0, 50).map(r => el("tr", {}, el("td", { class: "num" }, r.id), el("td", { class: "key", title: r.start }, r.start),
    el("td", {}, r.replicas.map(id => "n" + id + role(r, id)).join(" ")), el("td", {}, r.change))));
}

// drawTables shows where each table's replicas and leases are.
function drawTables(c) {
  const hue = regionHues(c);
  byId("placement").hidden = !c.tables.length;
  byId("tablenote").textContent = "where their replicas are, by region" + (c.tables.length < c.table_count ? `; ${c.tables.length} of ${c.table_count} shown` : "");
  const chips = (t, of) => el("td", {}, ...t.places.filter(of).map(p => el("span", { class: "chip" }, el("i", { style: `background:${css(hue.get(p.region) || "--track")}` }), `${p.region || "no region"} ${of(p)}`)));
  byId("tables").replaceChildren(...c.tables.map(t => el("tr", {}, el("td", { class: "key" }, `${t.database}.${t.schema === "public" ? "" : t.schema + "."}${t.name}`),
    el("td", { class: "quiet" }, t.locality || ""), chips(t, p => p.leases), chips(t, p => p.voters), chips(t, p => p.witnesses), chips(t, p => p.non_voters),
    el("td", { class: "num" }, t.moves || ""), el("td", { class: "bad", title: t.violation || "" }, t.violations ? `${t.violations}: ${t.violation}` : ""))));
}

function matches(r, q) {
  if (!q) return true;
  if (q === "few") return few(r);
  const node = /^n(\d+)$/.exec(q);
  if (node) return r.replicas.includes(+node[1]);
  return String(r.id) === q || r.start.toLowerCase().includes(q) || r.end.toLowerCase().includes(q);
}

function drawRanges(c) {
  const hue = regionHues(c), node = new Map(c.nodes.map(n => [n.id, n])), q = byId("filter").value.trim().toLowerCase();
  const color = id => css(node.has(id) ? hue.get(node.get(id).region) : "--track");
  const found = (q === "few" ? c.troubled : c.ranges).filter(r => matches(r, q)), shown = found.slice(0, shownRanges);
  const hit = new Set(found.map(r => r.id));
  byId("strip").replaceChildren(...c.ranges.map(r => el("i", { class: (hit.has(r.id) ? "" : "off ") + (few(r) ? "few" : ""),
    style: `background:${color(r.leaseholder)}`, title: `range ${r.id}: ${r.start} – ${r.end}, lease ${r.leaseholder ? "n" + r.leaseholder : "unknown"}, ${r.live_voters} live voters of ${r.wanted_voters}, ${r.state}` })));
  const chip = (id, r) => el("span", { class: "chip" + (node.has(id) && !node.get(id).live ? " dead" : "") }, el("i", { style: `background:${color(id)}` }), "n" + id + role(r, id));
  byId("ranges").replaceChildren(...shown.map(r => el("tr", {}, el("td", { class: "num" }, r.id), el("td", { class: "key", title: r.start }, r.start), el("td", { class: "key", title: r.end }, r.end),
    el("td", {}, r.leaseholder ? chip(r.leaseholder, r) : el("span", { class: "quiet" }, "none known")), el("td", {}, ...r.replicas.map(id => chip(id, r))))));
  byId("rangenote").textContent = "in key order, coloured by the leaseholder's region" + (shown.length < c.range_count ? `; ${shown.length} of ${c.range_count} shown` : "");
}

function drawStatus(c) {
  const dead = c.nodes.filter(n => !n.live).length, ranges = trouble(c);
  const [level, text] = dead ? ["bad", `${dead} node${dead > 1 ? "s" : ""} dead` + (ranges && `, ranges: ${ranges}`)] :
    ranges ? [c.unavailable ? "bad" : "warn", `ranges: ${ranges}`] : c.error ? ["warn", "not all is known"] : ["good", "healthy"];
  byId("status").className = "pill " + level;
  byId("status").textContent = text;
  byId("cluster").textContent = `cluster ${c.name} · acts by ${c.acting} · ${c.version} · seen from n${c.node}`;
  byId("upgrade").hidden = !c.upgrade;
  byId("upgrade").textContent = c.upgrade || "";
  byId("trouble").hidden = !c.error;
  byId("trouble").textContent = c.error || "";
}

function draw() {
  if (!latest) return;
  drawStatus(latest); drawTiles(latest); drawChart(); drawRegions(latest); drawMatrix(latest); drawSpeeds(latest); drawMoves(latest); drawTables(latest); drawRanges(latest);
}

// rates turns two readings of the counters into a sample; a counter that went back means that the node was started anew.
function rates(c) {
  const now = Date.parse(c.now), names = [...kinds.map(([k]) => k), "errors", "retries"];
  if (before && now > before.now) {
    const s = { connections: c.sql.connections }, seconds = (now - before.now) / 1000;
    for (const k of names) s[k] = Math.max(0, c.sql[k] - before.sql[k]) / seconds;
    samples.push(s);
    if (samples.length > history) samples.shift();
  }
  before = { now, sql: c.sql };
}

async function poll() {
  try {
    const answer = await fetch("/api/v1/cluster", { signal: AbortSignal.timeout(5000), cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status + " " + (await answer.text()).slice(0, 200));
    const c = await answer.json();
    c.nodes ||= []; c.ranges ||= []; c.troubled ||= []; c.round_trips ||= []; c.tables ||= [];
    c.moving ||= []; c.latencies ||= [];
    for (const t of c.tables) t.places ||= [];
    for (const r of [...c.ranges, ...c.troubled, ...c.moving]) { r.replicas ||= []; r.witnesses ||= []; }
    latest = c;
    speeds.push(new Map(c.latencies.map(l => [l.region, l])));
    if (speeds.length > history) speeds.shift();
    rates(c);
    draw();
  } catch (e) {
    byId("status").className = "pill bad";
    byId("status").textContent = "no answer";
    byId("trouble").hidden = false;
    byId("trouble").textContent = "This node does not answer: " + e.message;
  }
  setTimeout(poll, period);
}

byId("filter").oninput = draw;
addEventListener("resize", draw);
poll();
