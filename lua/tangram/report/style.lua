--- The page's style: light and dark by the reader's setting, plain on paper. Colours are apart for colour-blind eyes, and
--- forward and backward differ in lightness too.
return [[
:root { color-scheme: light dark; --page: #fff; --text: #1c2127; --soft: #5b6570; --rule: #d5dae0; --lane: #edf0f3; --tile: #f5f7f9;
  --forward: #3b6fa0; --forward-text: #fff; --backward: #f0b04f; --backward-text: #2a1c00; --sync: #228833; --sync-text: #fff;
  --note: #fff6df; --even: #d9e6f2; --odd: #b4cfe6; --gpu-text: #10222f;
  --k1: #4477aa; --k2: #66ccee; --k3: #228833; --k4: #ee6677; --k5: #ccbb44; --k6: #aa3377; --k7: #a9afb6; --k8: #332288; --k9: #999933;
  --k10: #882255; }
@media (prefers-color-scheme: dark) { :root { --page: #14181d; --text: #e4e8ec; --soft: #9aa5b1; --rule: #38414b; --lane: #222932;
  --tile: #1c2229; --forward: #5b93c7; --forward-text: #06121d; --sync: #3fa653; --sync-text: #04140a; --note: #3a3117; --even: #2b4560;
  --odd: #3d6288; --gpu-text: #eef4fa; --k8: #8f86e0; --k10: #c9588f; --k3: #3fa653; --k6: #d065a2; } }
body { background: var(--page); color: var(--text); font: 15px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif;
  max-width: 1100px; margin: 0 auto; padding: 24px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0; }
h2 { font-size: 19px; margin: 38px 0 8px; border-top: 1px solid var(--rule); padding-top: 16px; }
h3 { font-size: 15px; margin: 18px 0 4px; }
p { margin: 6px 0; max-width: 80ch; }
.soft, caption { color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(165px, 1fr)); gap: 12px; margin: 18px 0; padding: 0;
  list-style: none; }
.tiles li { background: var(--tile); border: 1px solid var(--rule); border-radius: 8px; padding: 10px 14px; }
.tiles b { display: block; font-size: 22px; line-height: 1.25; }
.tiles span { color: var(--soft); font-size: 13px; }
.notes { background: var(--note); border: 1px solid var(--rule); border-radius: 8px; padding: 8px 14px 8px 32px; margin: 12px 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; margin: 8px 0; }
caption { text-align: left; padding: 2px 0; }
th, td { text-align: left; padding: 4px 14px 4px 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
th { font-weight: 600; color: var(--soft); }
.dense td { white-space: nowrap; }
.right { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.islands { display: grid; grid-template-columns: repeat(auto-fill, minmax(240px, 1fr)); gap: 12px; }
.island { border: 1px solid var(--rule); border-radius: 8px; padding: 10px 14px; break-inside: avoid; }
.island.unused { border-style: dashed; }
.island h3 { margin: 0; }
.nodes { display: flex; flex-wrap: wrap; gap: 10px 18px; margin-top: 8px; }
.node { font-size: 13px; }
.gpus { display: flex; gap: 3px; }
.gpu { min-width: 25px; height: 25px; line-height: 25px; text-align: center; border-radius: 4px; font-size: 12px; background: var(--lane);
  color: var(--soft); }
.gpu.even { background: var(--even); color: var(--gpu-text); }
.gpu.odd { background: var(--odd); color: var(--gpu-text); }
details { margin: 12px 0; font-size: 13.5px; } summary { color: var(--soft); cursor: pointer; } details ul { margin: 4px 0; }
svg { display: block; width: 100%; min-width: 760px; height: auto; margin: 4px 0; break-inside: avoid; }
svg text { font-size: 12px; fill: var(--text); }
svg .label { text-anchor: end; }
svg .small { font-size: 9px; }
svg .tick { text-anchor: middle; fill: var(--soft); font-size: 11px; }
svg .tick.left { text-anchor: start; }
svg .axis { text-anchor: middle; fill: var(--soft); }
svg .grid { stroke: var(--rule); fill: none; }
svg g text { text-anchor: middle; font-size: 11px; }
svg .tear { stroke: var(--soft); fill: none; stroke-width: 1.5; }
svg .limit { stroke: var(--text); fill: none; stroke-width: 2; }
svg rect.part, svg g rect, path.forward, path.backward { stroke: var(--page); stroke-width: .7; }
.lane { fill: var(--lane); background: var(--lane); }
.busy { fill: var(--k7); background: var(--k7); }
.forward { fill: var(--forward); background: var(--forward); } .forward text { fill: var(--forward-text); }
.backward { fill: var(--backward); background: var(--backward); } .backward text { fill: var(--backward-text); }
.sync { fill: var(--sync); background: var(--sync); } .sync text { fill: var(--sync-text); }
.even rect { fill: var(--even); } .odd rect { fill: var(--odd); } .even text, .odd text { fill: var(--gpu-text); }
.k1 { fill: var(--k1); background: var(--k1); } .k2 { fill: var(--k2); background: var(--k2); }
.k3 { fill: var(--k3); background: var(--k3); } .k4 { fill: var(--k4); background: var(--k4); }
.k5 { fill: var(--k5); background: var(--k5); } .k6 { fill: var(--k6); background: var(--k6); }
.k7 { fill: var(--k7); background: var(--k7); } .k8 { fill: var(--k8); background: var(--k8); }
.k9 { fill: var(--k9); background: var(--k9); } .k10 { fill: var(--k10); background: var(--k10); }
.legend { font-size: 13px; max-width: none; }
.item { white-space: nowrap; margin-right: 12px; }
.key { display: inline-block; width: 13px; height: 13px; border-radius: 3px; vertical-align: -2px; margin-right: 5px; }
.key.line { width: 2px; background: var(--text); border-radius: 0; }
@media print { :root { color-scheme: light; --page: #fff; --text: #000; --soft: #444; --lane: #edf0f3; --tile: #fff; --forward: #3b6fa0;
  --forward-text: #fff; --sync: #228833; --sync-text: #fff; --note: #fff; --even: #d9e6f2; --odd: #b4cfe6; --gpu-text: #000; --rule: #ccc;
  --k3: #228833; --k6: #aa3377; --k8: #332288; --k10: #882255; }
  body { padding: 0; max-width: none; font-size: 12px; } svg { min-width: 0; } h2, h3 { break-after: avoid; } tr { break-inside: avoid; }
  .dense td { white-space: normal; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } .wide { overflow: visible; } }
]]
