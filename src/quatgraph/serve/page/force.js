// A force layout that is finished before it is shown: springs along edges, repulsion between nodes, the nearest ring
// of nodes first. It is deterministic, so a page that is opened again looks the same.

const STEPS = 260;

/** Places nodes `{id, hop}` in a box; returns `[x, y]` for each. */
export function layout(nodes, edges, width, height) {
  const place = new Map(nodes.map((node, index) => [node.id, index]));
  const ends = edges.map((edge) => [place.get(edge.source), place.get(edge.target)]).filter(([a, b]) => a !== b);
  const n = nodes.length;
  const x = new Float64Array(n);
  const y = new Float64Array(n);
  nodes.forEach((node, index) => {
    const angle = index * 2.399963; // the golden angle: no two nodes start at one place
    const radius = node.hop === 0 ? 0 : 0.6 * Math.sqrt(index + 1);
    x[index] = radius * Math.cos(angle);
    y[index] = radius * Math.sin(angle);
  });
  const degree = new Float64Array(n).fill(1);
  ends.forEach(([a, b]) => { degree[a] += 1; degree[b] += 1; });
  const [dx, dy] = [new Float64Array(n), new Float64Array(n)];
  for (let step = 0; step < STEPS; step += 1) {
    dx.fill(0);
    dy.fill(0);
    for (let a = 0; a < n; a += 1) {
      for (let b = a + 1; b < n; b += 1) {
        const [u, v] = [x[a] - x[b], y[a] - y[b]];
        const push = 1 / (u * u + v * v + 0.01);
        dx[a] += u * push; dy[a] += v * push;
        dx[b] -= u * push; dy[b] -= v * push;
      }
      dx[a] -= 0.08 * x[a];
      dy[a] -= 0.08 * y[a];
    }
    for (const [a, b] of ends) {
      const [u, v] = [x[a] - x[b], y[a] - y[b]];
      const pull = (0.9 * Math.hypot(u, v)) / Math.min(degree[a], degree[b]);
      dx[a] -= u * pull; dy[a] -= v * pull;
      dx[b] += u * pull; dy[b] += v * pull;
    }
    const most = 0.35 * (1 - step / STEPS) + 0.005;
    for (let a = 0; a < n; a += 1) {
      const length = Math.hypot(dx[a], dy[a]) || 1;
      const move = Math.min(length * 0.1, most) / length;
      x[a] += dx[a] * move;
      y[a] += dy[a] * move;
    }
  }
  turn(x, y, width > height);
  return stretch(x, y, width, height);
}

/** Turns the points so that their long axis lies along that of the box. */
function turn(x, y, wide) {
  const n = x.length || 1;
  const [mx, my] = [x.reduce((a, b) => a + b, 0) / n, y.reduce((a, b) => a + b, 0) / n];
  let [xx, xy, yy] = [0, 0, 0];
  x.forEach((value, at) => {
    const [u, v] = [value - mx, y[at] - my];
    xx += u * u; xy += u * v; yy += v * v;
  });
  const angle = 0.5 * Math.atan2(2 * xy, xx - yy) + (wide ? 0 : Math.PI / 2);
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  x.forEach((value, at) => {
    const [u, v] = [value, y[at]];
    x[at] = c * u + s * v;
    y[at] = c * v - s * u;
  });
}

/** Fits the points into the box, with room for labels. */
function stretch(x, y, width, height) {
  const [left, right, top, bottom] = [Math.min(...x), Math.max(...x), Math.min(...y), Math.max(...y)];
  const [marginX, above, below] = [Math.min(56, width / 6), 30, 32];
  const scaleX = (width - 2 * marginX) / (right - left || 1);
  const scaleY = (height - above - below) / (bottom - top || 1);
  const lower = Math.min(scaleX, scaleY);
  const [sx, sy] = [Math.min(scaleX, 1.7 * lower), Math.min(scaleY, 1.7 * lower)];
  return Array.from(x, (value, place) => [
    width / 2 + sx * (value - (left + right) / 2),
    (height + above - below) / 2 + sy * (y[place] - (top + bottom) / 2),
  ]);
}
