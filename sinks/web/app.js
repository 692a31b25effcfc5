'use strict';
/* The live page: records come as server-sent events, and everything is drawn from them. */

const $ = (id) => document.getElementById(id);
const svgNS = 'http://www.w3.org/2000/svg';
const steps = new Map();   // step -> record, so that what comes twice counts once
const valid = new Map();
const test = new Map();
const evaluations = new Map([['valid', valid], ['test', test]]); // input -> step -> record
const metrics = new Map(); // name -> {unit, help, role}, as the run has declared them
const newest = new Map(); // name -> the last number told; some are measured once a second alone
let samplesDirty = false; // drawn at the next tick: what a page is told on opening holds pictures that are gone
let classes = [], wrong = [], samples = [], run = null, over = false, dirty = true;
let overlay = null;        // step -> record of another run
let drawAt = 0;            // not before then, by performance.now()
let shown = null;          // [from, to] of the curves, null: all

function el(name, text, attributes) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  for (const k in attributes || {}) e.setAttribute(k, attributes[k]);
  return e;
}

function svg(name, attributes, text) {
  const e = document.createElementNS(svgNS, name);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  return e;
}

/* ---- what arrives ---- */

/* JSON has no NaN: it comes as null. */
const four = (v) => (typeof v === 'number' ? v.toFixed(4) : v === undefined ? '-' : 'nan');
const valueIn = (r, name) => (Object.hasOwn(r, name) ? r[name] : undefined); /* a metric may be called constructor */
const isJudged = (name) => name !== 'loss' && metrics.get(name)?.role === 'judged';
const judgedBy = new Map(); /* what the model is judged by in the records so far -> its tile; each has a chart too */
const judgedIn = (r) => Object.keys(r).filter(isJudged);
const isValid = (kind) => kind === 'valid' || kind.startsWith('valid.');
/* "test", "validation", "validation dogs" */
const evaluationText = (kind) => (kind === 'test' ? 'test' : `validation ${kind.slice('valid.'.length)}`.trim());
const titleOf = (name) => name[0].toUpperCase() + name.slice(1).replaceAll('_', ' ');
const judged = (r) => judgedIn(r).map((name) => `, ${titleOf(name)}: ${four(valueIn(r, name))}`).join(''); /* ", Accuracy: 0.4100" */

/* The tile and the chart of a number that the model is judged by. */
function showJudged(name) {
  const tile = el('div', undefined, { title: metrics.get(name).help }), chart = `judged-${name}`;
  const title = el('h3', titleOf(name) + ' ', { title: metrics.get(name).help });
  const number = el('b', '-', { id: $(`now-${name}`) ? `now-judged-${name}` : `now-${name}` });
  judgedBy.set(name, number);
  tile.append(number, name.replaceAll('_', ' '));
  $('now-rate').parentElement.before(tile);
  title.append(el('span', undefined, { id: `${chart}-legend`, class: 'legend' }));
  $('judged').append(title, el('div', undefined, { id: chart, class: 'chart' }));
  valueOf[chart] = name;
  makeChart(chart);
}

function say(line) {
  const log = $('log-tail'), low = log.scrollTop + log.clientHeight > log.scrollHeight - 20;
  log.append(line + '\n');
  while (log.childNodes.length > 400) log.firstChild.remove();
  if (low) log.scrollTop = log.scrollHeight;
}

function take(r) {
  const evaluates = r.kind === 'test' || isValid(r.kind);
  if (r.kind === 'step' || evaluates)
    for (const name of judgedIn(r)) if (!judgedBy.has(name)) showJudged(name);
  if (r.kind === 'step') {
    if (!steps.has(r.step) && r.step % 20 === 0)
      say(r.skipped ? `Step ${r.step}, left out` : `Step ${r.step}, Loss: ${four(r.loss)}${judged(r)}`);
    steps.set(r.step, r);
    if (r.step >= (Number($('now-step').textContent) || 0)) showNow(r);
  } else if (evaluates) {
    if (!evaluations.has(r.kind)) addEvaluation(r.kind);
    evaluations.get(r.kind).set(r.step, r);
    say(`${titleOf(evaluationText(r.kind))} at step ${r.step}, Loss: ${four(r.loss)}${judged(r)}`);
    if (r.confusion || r.confusion_cells) drawConfusion(r);
  } else if (r.kind === 'sample') {
    if (samples.length && samples[0].step !== r.step) samples = [];
    samples.push(r);
    samplesDirty = true;
  } else if (r.kind === 'wrong') {
    if (wrong.length && wrong[0].step !== r.step) wrong = []; /* of all inputs that are evaluated at this step */
    wrong.push(r);
  } else if (r.kind === 'final') {
    over = true;
    tellState(r.note || 'finished');
    say(`Done: ${r.step} steps, ledger ${r.ledger}`);
  }
  dirty = true;
}

function showNow(r) {
  const put = (id, text) => { $(id).textContent = text; };
  put('now-step', r.step);
  $('numbers').dataset.step = r.step; /* every digit, for programs that read the page */
  if (r.skipped) return;              /* a step that was left out has no numbers */
  put('now-loss', four(r.loss));
  for (const [name, number] of judgedBy) number.textContent = four(valueIn(r, name));
  put('now-rate', r.images_per_s ? r.images_per_s.toFixed(1) : '-');
  if (r.total_steps && r.step_s) put('now-eta', duration((r.total_steps - r.step) * (newest.get('step_p50_s') || r.step_s)));
  for (const k in r) if (typeof r[k] === 'number' || r[k] === null) newest.set(k, r[k]);
  for (const st of run.stages)
    for (const m of st.metrics) {
      const v = valueIn(valueIn(r.stages || {}, st.name) || {}, m.name);
      if (v !== undefined) newest.set(`${st.name}.${m.name}`, v);
    }
  if (!r.total_steps) newest.delete('total_steps'); /* unknown */
  $('numbers').dataset.loss = r.loss;
  $('numbers').dataset.judged = JSON.stringify(Object.fromEntries(judgedIn(r).map((name) => [name, r[name]])));
}

function duration(s) {
  const t = Math.round(s);
  if (t >= 3600) return `${Math.floor(t / 3600)}h${String(Math.floor(t % 3600 / 60)).padStart(2, '0')}m`;
  return t >= 60 ? `${Math.floor(t / 60)}m${String(t % 60).padStart(2, '0')}s` : `${t}s`;
}

/* ---- curves ---- */

const charts = {};
const valueOf = { loss: 'loss', rate: 'images_per_s' };
const curvesOf = (id) => ['train', ...(id === 'rate' ? [] : evaluations.keys()), 'other run'];
const colours = { train: '#1f6feb', valid: '#e0731d', test: '#a04fd0', 'other run': '#9aa3af' };
const moreColours = ['#2a9d4a', '#c2378f', '#0f8f9e', '#8a6d1f', '#d64545', '#5d5fc7'];

/* Another input of held-back records: each chart gets a curve of it. */
function addEvaluation(kind) {
  colours[kind] = moreColours[(evaluations.size - 2) % moreColours.length];
  evaluations.set(kind, new Map());
  for (const id in charts) {
    charts[id].destroy();
    $(id).replaceChildren();
    makeChart(id);
  }
}
let curveSteps = [];       // the steps of the charts' rows, in order: the same in all charts
let exact = {};            // chart -> series -> step -> value before smoothing
let hovered = null;        // the step under the cursor, in all charts

/* A finger that moves over a chart scrolls the page, one that taps it shows a step: dragging zooms
   with a mouse, and the buttons do on a phone. */
const { touchstart, touchmove, touchend, ...byMouse } = Dygraph.defaultInteractionModel;

function makeChart(id) {
  const labels = ['step', ...curvesOf(id)];
  const dot = { drawPoints: true, pointSize: 3 };
  charts[id] = new Dygraph($(id), [labels.map((_, i) => (i ? null : 0))], {
    labels, connectSeparatedPoints: true, legend: 'always', labelsDiv: $(id + '-legend'), legendFormatter: (data) => legend(id, data), strokeWidth: 1.4,
    axisLineColor: '#8888', gridLineColor: '#8883', colors: curvesOf(id).map((name) => colours[name]),
    interactionModel: byMouse, dateWindow: shown,
    series: id === 'rate' ? {} : Object.fromEntries([...evaluations.keys()].map((name) => [name, dot])),
    highlightCallback: (event, step) => { hovered = step; showCursor(id); },
    unhighlightCallback: () => { hovered = null; showCursor(); },
    zoomCallback: (from, to) => { shown = charts[id].isZoomed('x') ? [from, to] : null; applyZoom(id); },
  });
  $(id).append(el('div', '', { class: 'cursor', hidden: '' }));
}

const escaped = (text) => { const e = el('span', text); return e.innerHTML; };

/* What a curve shows at the cursor's step; where it is smoothed, the exact value too. */
function legend(id, data) {
  const values = exact[id] || {};
  const parts = data.series.filter((s) => values[s.label] && values[s.label].size).map((s) => {
    const v = values[s.label].get(data.x), smoothed = Number($('smooth').value) > 1;
    const text = data.x === undefined || s.y === undefined || s.y === null ? '' : ` ${metricText(valueOf[id], s.y)}${smoothed ? ` (exact: ${metricText(valueOf[id], v)})` : ''}`;
    const name = s.label === 'other run' ? escaped($('overlay').value) : s.label;
    return `<span style="color:${s.color}">${name}${text}</span>`;
  });
  return (data.x === undefined ? '' : `step ${data.x} `) + parts.join(' ');
}

/* The cursor at the hovered step in every chart; the chart `except` has drawn its points already. */
function showCursor(except) {
  const row = hovered === null ? -1 : curveSteps.indexOf(hovered);
  for (const id in charts) {
    if (id !== except && row >= 0) charts[id].setSelection(row);
    if (id !== except && row < 0) charts[id].clearSelection();
    const line = $(id).querySelector('.cursor'), [from, to] = charts[id].xAxisRange();
    line.hidden = row < 0 || hovered < from || hovered > to;
    if (!line.hidden) line.style.left = charts[id].toDomXCoord(hovered) + 'px';
  }
}

/* An exponential mean over about n steps of the series' own points: one k steps back weighs
   (1 - 1/n)^k.  There is a value where the series has a point, and nowhere else; a number that is
   none leaves a gap. */
function smooth(series, n) {
  const out = new Map();
  let sum = 0, weight = 0, last = null;
  for (const [step, v] of series) {
    if (typeof v === 'number') {
      const kept = last === null ? 0 : (1 - 1 / n) ** (step - last);
      sum = v + kept * sum; weight = 1 + kept * weight; last = step;
    }
    out.set(step, typeof v === 'number' ? sum / weight : NaN);
  }
  return out;
}

/* step -> value of the records that tell it, by rising step. */
function seriesOf(records, value) {
  const told = [...(records || [])].filter(([, r]) => valueIn(r, value) !== undefined && !r.skipped);
  return new Map(told.map(([step, r]) => [step, r[value]]).sort((a, b) => a[0] - b[0]));
}

function drawCurves() {
  const records = { train: steps, 'other run': overlay, ...Object.fromEntries(evaluations) };
  const all = new Set(Object.values(records).flatMap((m) => [...(m || new Map()).keys()]));
  curveSteps = [...all].sort((a, b) => a - b);
  document.body.dataset.points = steps.size;
  if (!curveSteps.length) return;
  for (const id in charts) {
    exact[id] = Object.fromEntries(curvesOf(id).map((name) => [name, seriesOf(records[name], valueOf[id])]));
    const column = curvesOf(id).map((name) => smooth(exact[id][name], Number($('smooth').value)));
    const rows = curveSteps.map((step) => [step, ...column.map((c) => (c.has(step) ? c.get(step) : null))]);
    charts[id].updateOptions({ file: rows, logscale: id === 'loss' && $('log').checked });
  }
  showCursor();
}

function applyZoom(except) {
  for (const id in charts)
    if (id !== except) charts[id].updateOptions({ dateWindow: shown, valueRange: null });
  showCursor();
}

function move(by, scale) {
  const [a, b] = charts.loss.xAxisRange(), mid = (a + b) / 2 + by * (b - a), half = (b - a) / 2 * scale;
  shown = [mid - half, mid + half];
  applyZoom();
}

function stepsOf(text) {
  const found = new Map();
  for (const line of text.split('\n')) {
    try {
      const r = line ? JSON.parse(line) : {};
      if (r.kind === 'step') found.set(r.step, r);
    } catch (e) { /* a line that is being written */ }
  }
  return found;
}

async function chooseOverlay(name) {
  let found = null;
  if (name) {
    const answer = await fetch('/runs/' + encodeURIComponent(name)).catch(() => ({ ok: false }));
    found = answer.ok ? stepsOf(await answer.text()) : null;
    if ($('overlay').value !== name) return; /* another one was chosen meanwhile */
    if (!found) { say(`${name}: its metrics cannot be read, or have more than 64 MiB`); $('overlay').value = ''; }
  }
  overlay = found;
  dirty = true;
  drawAt = 0;
}

/* ---- the graph: layers by the longest way from a source ---- */

const box = { w: 132, h: 46, dx: 34, dy: 26 };
let drawn = null;

function layers(r) {
  const depth = r.stages.map(() => 0);
  for (let again = true, n = 0; again && n <= depth.length; n++) {
    again = false;
    for (const e of r.edges)
      if (depth[e.to] < depth[e.from] + 1) { depth[e.to] = depth[e.from] + 1; again = true; }
  }
  return depth;
}

/* A stage stands in the row of the stage before it where that is free. */
function place(r) {
  const depth = layers(r), taken = new Set(), at = [];
  const order = r.stages.map((_, i) => i).sort((a, b) => depth[a] - depth[b] || a - b);
  for (const i of order) {
    const before = r.edges.filter((e) => e.to === i && at[e.from]).map((e) => at[e.from].row);
    let row = before.length ? Math.min(...before) : 0;
    while (taken.has(depth[i] + ':' + row)) row++;
    taken.add(depth[i] + ':' + row);
    at[i] = { row, x: depth[i] * (box.w + box.dx) + 4, y: row * (box.h + box.dy) + 4 };
  }
  return at;
}

function drawGraph(r) {
  const at = place(r);
  const w = Math.max(...at.map((p) => p.x)) + box.w + 8, h = Math.max(...at.map((p) => p.y)) + box.h + 8;
  const s = svg('svg', { class: 'graph', viewBox: `0 0 ${w} ${h}`, role: 'img', 'aria-label': 'Stages and edges' });
  s.style.minWidth = Math.min(w, 1050) + 'px'; /* smaller could not be read: one scrolls */
  s.style.maxWidth = w + 'px';
  drawn = { boxes: [], edges: [] };
  for (const e of r.edges) {
    const a = at[e.from], b = at[e.to], x1 = a.x + box.w, y1 = a.y + box.h / 2, x2 = b.x, y2 = b.y + box.h / 2;
    s.append(svg('path', { class: 'edge', d: `M${x1} ${y1} C${x1 + 20} ${y1} ${x2 - 20} ${y2} ${x2} ${y2}`, 'stroke-dasharray': e.lossy ? '4 3' : 'none' }));
    const fan = r.edges.filter((o) => o.from === e.from).length > 1; /* the number stands where edges are apart */
    const t = svg('text', { class: 'soft', x: fan ? x2 - 14 : x1 + 14, y: (fan ? y2 : y1) - 5, 'text-anchor': 'middle' });
    s.append(t);
    drawn.edges.push(t);
  }
  r.stages.forEach((st, i) => {
    const g = svg('g', { transform: `translate(${at[i].x} ${at[i].y})`, tabindex: 0 });
    const frame = svg('rect', { class: 'box', width: box.w, height: box.h, rx: 6 });
    const kind = svg('text', { class: 'soft', x: 8, y: 33 }, st.def === st.name ? '' : st.def);
    g.append(frame, svg('text', { x: 8, y: 18 }, st.name), kind, svg('title', {}, `${st.def}: ${st.help}`));
    const bars = ['busy', 'starved', 'blocked'].map((c) => svg('rect', { class: c, x: 0, y: box.h - 8, width: 0, height: 5 }));
    g.append(...bars);
    const tell = () => { $('stage-note').textContent = `${st.name} (${st.def}): ${st.help}${drawn.boxes[i].link}`; };
    g.addEventListener('focus', tell);
    g.addEventListener('click', tell);
    s.append(g);
    drawn.boxes.push({ frame, bars, kind, link: '' });
  });
  $('graph').replaceChildren(s);
}

/* A link is an edge that leaves the process: its numbers stand in the box of the end that is here. */
function showLink(b, st, released, committed) {
  if (released === undefined) return;
  const numbers = `${released} (${committed})`;
  b.kind.textContent = numbers.length > 12 ? numbers : `${st.def} ${numbers}`; /* as the box has room */
  b.link = ` Released up to ${released}, committed up to ${committed}.`;
}

/* live: [[busy, starved, blocked], ...] in thousandths, with released and committed of a link's end,
   [[waiting, lost], ...], number of a stage */
function takeLive(live) {
  if (!drawn) return;
  live.stages.forEach((shares, i) => {
    let x = 8;
    const b = drawn.boxes[i], room = box.w - 16;
    b.bars.forEach((bar, k) => {
      const w = (shares[k] || 0) / 1000 * room;
      bar.setAttribute('x', x);
      bar.setAttribute('width', w);
      x += w;
    });
    b.frame.classList.toggle('limiting', i === live.limiting);
    showLink(b, run.stages[i], shares[3], shares[4]);
  });
  live.edges.forEach(([waiting, lost], i) => {
    drawn.edges[i].textContent = run.edges[i].room ? waiting + (lost ? ` (−${lost})` : '') : '';
  });
  $('now-limiting').textContent = live.limiting >= 0 ? run.stages[live.limiting].name : '-';
}

/* ---- the rest ---- */

function drawTimes() {
  const t = [...steps.values()].slice(-2000).map((r) => r.step_s).filter((v) => v > 0);
  if (!t.length) return;
  /* a few steps that took many times as long would push all others into one bar */
  const sorted = [...t].sort((a, b) => a - b), most = sorted[Math.ceil(0.99 * t.length) - 1], longest = sorted.at(-1);
  const cut = longest > 2 * most, lo = sorted[0], hi = cut ? most : longest, n = 30, bins = Array(n).fill(0);
  for (const v of t) bins[Math.min(n - 1, Math.floor((v - lo) / (hi - lo || 1) * n))]++;
  const top = Math.max(...bins), s = svg('svg', { class: 'times', viewBox: '0 0 460 130', role: 'img', 'aria-label': 'Histogram of step times' });
  bins.forEach((c, i) => s.append(svg('rect', { class: 'bar', x: 5 + i * 15, y: 105 - 95 * c / top, width: 13, height: 95 * c / top })));
  const end = cut ? `${hi.toPrecision(3)} s and more, up to ${longest.toPrecision(3)} s` : hi.toPrecision(3) + ' s';
  s.append(svg('text', { class: 'soft', x: 5, y: 122 }, lo.toPrecision(3) + ' s'), svg('text', { class: 'soft', x: 455, y: 122, 'text-anchor': 'end' }, end));
  $('times').replaceChildren(s);
}

function metricText(name, v) {
  if (v === null || Number.isNaN(v)) return 'nan';
  const unit = metrics.get(name)?.unit || (name === 'elapsed_s' ? 's' : '');
  if (name === 'loss' || isJudged(name)) return four(v);
  if (unit === 'bytes') return v < 1e9 ? `${Number((v / 1e6).toPrecision(4))} MB` : `${(v / 1e9).toPrecision(4)} GB`;
  if (name === 'elapsed_s') return duration(v);
  return Number.isInteger(v) ? String(v) : Number(v.toPrecision(5)) + (unit === 's' ? ' s' : '');
}

function drawNumbers() {
  $('all-numbers').replaceChildren(...[...newest].map(([name, v]) => {
    const tr = el('tr');
    tr.append(el('th', name.replaceAll('_', ' '), { scope: 'row', title: metrics.get(name)?.help || '' }), el('td', metricText(name, v)));
    return tr;
  }));
}

function drawPictures(where, list) {
  where.replaceChildren(...list.map((p) => {
    const f = el('figure'), name = p.truth < 0 ? `record ${p.key}` : classes[p.truth] || p.truth;
    const text = p.guess >= 0 ? `${name}, taken for ${classes[p.guess] || p.guess}` : name;
    f.append(el('img', undefined, { src: '/picture/' + p.picture, alt: text }), el('figcaption', text));
    return f;
  }));
}

/* A large matrix comes as the cells that are not 0. */
const mostRows = 32, mostMistakes = 50;
let matrixOf = ''; /* the input whose matrix is there */
function drawConfusion(r) {
  const n = r.confusion ? r.confusion.length : r.n_classes;
  const nameOf = (i) => (r.classes || [])[i] ?? classes[i] ?? String(i);
  $('confusion').closest('section').hidden = false;
  matrixOf = r.kind;
  $('confusion-of').textContent = `(${evaluationText(r.kind)}, step ${r.step})`;
  if (r.confusion && n <= mostRows) drawRows(r, Array.from({ length: n }, (_, i) => nameOf(i)));
  else drawMistakes(r.confusion_cells || r.confusion.flatMap((row, t) => row.flatMap((k, g) => (k ? [[t, g, k]] : []))), n, nameOf);
}

/* The most frequent mistakes of a matrix that is too large to be seen. */
function drawMistakes(cells, n, nameOf) {
  const mistakes = cells.filter(([t, g]) => t !== g).sort((a, b) => b[2] - a[2]);
  const list = el('ol', undefined, { class: 'mistakes' });
  list.append(...mistakes.slice(0, mostMistakes).map(([t, g, count]) => {
    const item = el('li'), b = el('button', `${nameOf(t)} taken for ${nameOf(g)}: ${count}`, { type: 'button' });
    b.addEventListener('click', () => showMistake(t, g));
    item.append(b);
    return item;
  }));
  const left = mistakes.length - mostMistakes;
  $('confusion').replaceChildren(el('p', `${n} classes; the most frequent mistakes${left > 0 ? `, and ${left} others` : ''}:`, { class: 'note' }), list);
}

function showMistake(t, g) {
  const found = wrong.filter((p) => p.of === matrixOf && p.truth === t && p.guess === g);
  drawPictures($('wrong'), found);
  if (!found.length) $('wrong').textContent = t === g ? 'These are right.' : 'No picture of this mistake was kept.';
}

/* The buttons stay while the numbers change, and with them the focus of the keyboard. */
function drawRows(r, names) {
  if ($('confusion').querySelectorAll('td button').length !== names.length ** 2) makeConfusion(names);
  const buttons = $('confusion').querySelectorAll('button');
  r.confusion.forEach((row, t) => {
    const sum = row.reduce((a, b) => a + b, 0) || 1;
    row.forEach((n, g) => {
      const b = buttons[t * row.length + g];
      b.textContent = n;
      b.setAttribute('aria-label', `${names[t]} taken for ${names[g]}: ${n}`);
      b.style.setProperty('--share', (n / sum * 0.8).toFixed(3));
    });
  });
}

function makeConfusion(names) {
  const table = el('table'), head = el('tr');
  head.append(el('th'), ...names.map((n) => el('th', n.slice(0, 7), { title: n, scope: 'col' })));
  table.append(head);
  names.forEach((truth, t) => {
    const tr = el('tr');
    tr.append(el('th', truth, { scope: 'row' }));
    names.forEach((_, g) => {
      const b = el('button', '', { type: 'button' }), td = el('td');
      b.addEventListener('click', () => showMistake(t, g));
      td.append(b);
      tr.append(td);
    });
    table.append(tr);
  });
  $('confusion').replaceChildren(table);
}

function drawSettings(r) {
  $('settings').replaceChildren(...r.stages.map((st, i) => {
    const d = el('details'), table = el('table');
    d.append(el('summary', `${st.name} (${st.def})`), table);
    for (const k in st.settings) {
      const tr = el('tr');
      tr.append(el('td', k), el('td', st.settings[k]));
      table.append(tr);
    }
    const gives = r.edges.find((e) => e.from === i && e.fields);
    if (gives) {
      const tr = el('tr');
      tr.append(el('td', 'gives'), el('td', gives.fields.join(', ')));
      table.append(tr);
    }
    return d;
  }));
}

/* Where ranks have parts of parameters: each with its shape, that of a rank's part, and how it lies. */
function drawArrays(r) {
  $('arrays').closest('section').hidden = !r.lies;
  if (!r.lies) return;
  const table = el('table'), head = el('tr');
  head.append(...['parameter', 'shape', 'of a rank', 'lies'].map((text) => el('th', text, { scope: 'col' })));
  table.append(head, ...r.lies.arrays.map((a) => {
    const tr = el('tr'), name = el('td'), b = el('button', a.name, { type: 'button' });
    b.addEventListener('click', () => showArray(a));
    name.append(b);
    tr.append(name, el('td', a.shape), el('td', a.part), el('td', a.lies));
    return tr;
  }));
  $('mesh').textContent = `(${r.lies.mesh})`;
  $('arrays').replaceChildren(table);
  const first = r.lies.arrays.find((a) => a.ranks.length > 1);
  if (first) showArray(first);
}

/* A box for each part with the ranks that hold it, as `explain --array` draws it. */
function showArray(a) {
  const table = el('table', undefined, { class: 'boxes' });
  table.append(el('caption', `${a.name}: ${a.shape} as ${a.lies}`));
  const head = el('tr');
  head.append(el('td'), ...a.columns.map((text) => el('th', text, { scope: 'col' })));
  if (a.columns.some((text) => text)) table.append(head);
  a.rows.forEach((text, i) => {
    const tr = el('tr');
    tr.append(el('th', text, { scope: 'row' }));
    a.columns.forEach((_, k) => tr.append(el('td', a.ranks[i * a.columns.length + k])));
    table.append(tr);
  });
  $('array').replaceChildren(a.rows.length ? table : el('p', `${a.name}: ${a.shape} as ${a.lies} has more parts than can be drawn.`));
}

/* Until pictures come, and where no field is one: what the batches of the training step hold. */
function drawFields(r) {
  const e = r.edges.find((x) => x.fields && r.stages[x.to].thread && !x.lossy && /step$/.test(r.stages[x.to].def));
  if (e && !samples.length) $('samples').textContent = `Batches of ${e.fields.join(', ')}.`;
}

/* ---- the connection ---- */

const tellState = (text) => { $('state').textContent = text; };

/* A resumed run tells its records again from its beginning, without those that it makes anew. */
function forget() {
  for (const m of [steps, newest, ...evaluations.values()]) m.clear();
  wrong = []; samples = []; over = false;
  for (const number of $('numbers').querySelectorAll('b')) number.textContent = '-';
  $('log-tail').replaceChildren();
}

function showRun(r) {
  run = r;
  classes = r.classes;
  metrics.clear();
  for (const m of r.metrics) metrics.set(m.name, m);
  for (const st of r.stages) for (const m of st.metrics) metrics.set(`${st.name}.${m.name}`, m);
  $('confusion').closest('section').hidden = !classes.length; /* a model of numbers guesses no class */
  $('run').textContent = r.run;
  document.title = `${r.name} · millrace`;
  drawGraph(r);
  drawSettings(r);
  drawArrays(r);
  drawFields(r);
}

async function listRuns() {
  const had = $('overlay').value, names = (await (await fetch('/runs.json')).json()).filter((name) => name !== run.name).sort();
  $('overlay').replaceChildren(el('option', 'no other run', { value: '' }), ...names.map((name) => el('option', name, { value: name })));
  $('overlay').value = names.includes(had) ? had : '';
}

/* Until the run is there: it may have ended, and be resumed. */
async function connect() {
  const again = () => setTimeout(connect, 2000);
  let r;
  try {
    const answer = await fetch('/run.json');
    if (answer.status === 401) return tellState('the token has changed: open the address that the run printed');
    if (!answer.ok) return again();
    r = await answer.json();
  } catch (e) {
    return again();
  }
  if (run && r.folder !== run.folder) return tellState('another run has this address now: reload the page to see it');
  forget();
  showRun(r);
  await listRuns().catch(() => {}); /* without them the page still shows its own */
  const source = new EventSource('/events');
  source.onopen = () => tellState('live');
  source.onmessage = (e) => take(JSON.parse(e.data));
  source.addEventListener('live', (e) => takeLive(JSON.parse(e.data)));
  source.onerror = () => {
    source.close();
    if (!over) tellState('no connection; trying again');
    again();
  };
}

for (const id in valueOf) makeChart(id);
/* A page of a long run, on a machine that trains, leaves most of its processor's time to others. */
setInterval(() => {
  if (!dirty || performance.now() < drawAt) return;
  const begun = performance.now();
  dirty = false;
  drawCurves(); drawTimes(); drawNumbers();
  drawAt = performance.now() + 4 * (performance.now() - begun);
}, 250);
/* Pictures are asked for one by one: not more of them than an eye can follow. */
setInterval(() => { if (samplesDirty) { samplesDirty = false; drawPictures($('samples'), samples); } }, 2000);

$('smooth').addEventListener('input', () => { $('smooth-n').textContent = $('smooth').value; dirty = true; drawAt = 0; });
$('log').addEventListener('change', () => { dirty = true; drawAt = 0; });
$('overlay').addEventListener('change', () => chooseOverlay($('overlay').value));
$('zoom-in').addEventListener('click', () => move(0, 0.5));
$('zoom-out').addEventListener('click', () => move(0, 2));
$('left').addEventListener('click', () => move(-0.25, 1));
$('right').addEventListener('click', () => move(0.25, 1));
$('reset').addEventListener('click', () => { shown = null; applyZoom(); });
connect();
