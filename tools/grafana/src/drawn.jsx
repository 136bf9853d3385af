// Panels whose components Grafana keeps to itself: the same data, colours and words, drawn in a simple way.
import { FieldType, formattedValueToString, getFieldDisplayName } from '@grafana/data';
import * as schemes from 'd3-scale-chromatic';

// Room for the names of lanes, and for the times.
const LANES = 230;
const ROWS = 90;
const FOOT = 22;

const values = (frame) => frame.fields.find((field) => field.type === FieldType.number);
const times = (frame) => frame.fields.find((field) => field.type === FieldType.time).values;
const cut = (text, longest) => (text.length > longest ? `${text.slice(0, longest - 1)}…` : text);

function TimeAxis({ range, x, y, theme }) {
  const [from, to] = [range.from.valueOf(), range.to.valueOf()];
  const marks = [0, 0.25, 0.5, 0.75, 1].map((share) => from + share * (to - from));
  return marks.map((time, index) => (
    <text key={index} x={x(time)} y={y} fontSize={11} fill={theme.colors.text.secondary} textAnchor={['start', 'middle', 'middle', 'middle', 'end'][index]}>
      {new Date(time).toISOString().slice(11, 16)}
    </text>
  ));
}

function along({ range, width }, names) {
  const [from, to] = [range.from.valueOf(), range.to.valueOf()];
  return (time) => names + ((time - from) / (to - from)) * (width - names - 8);
}

// One rectangle a run of equal states.
export function StateTimeline(props) {
  const { frames, range, width, height, theme, step } = props;
  const x = along(props, LANES);
  const laneHeight = Math.min(36, (height - FOOT) / frames.length);
  return (
    <svg width={width} height={height}>
      {frames.map((frame, row) => {
        const field = values(frame);
        const name = getFieldDisplayName(field, frame, frames);
        const y = row * laneHeight;
        return (
          <g key={row}>
            <text x={LANES - 6} y={y + laneHeight / 2 + 4} fontSize={Math.min(12, laneHeight)} textAnchor="end" fill={theme.colors.text.primary}>
              {cut(name, 36)}
            </text>
            {runs(field, times(frame), step).map(({ from, to, value }, index) => (
              <rect key={index} x={x(from)} y={y + 1} width={Math.max(1, x(to) - x(from))} height={Math.max(1, laneHeight - 2)} fill={field.display(value).color} opacity={0.85} />
            ))}
          </g>
        );
      })}
      <TimeAxis range={range} x={x} y={height - 6} theme={theme} />
    </svg>
  );
}

function runs(field, moments, step) {
  const found = [];
  moments.forEach((time, index) => {
    const value = field.values[index];
    const last = found.at(-1);
    if (last && last.value === value && time - last.to <= step) {
      last.to = time + step;
    } else {
      found.push({ from: time, to: time + step, value });
    }
  });
  return found;
}

export function Heatmap(props) {
  const { panel, frames, range, width, height, theme, step } = props;
  const { color, yAxis } = panel.options;
  const shown = yAxis?.reverse ? frames : [...frames].reverse();
  const x = along(props, ROWS);
  const rowHeight = (height - FOOT) / shown.length;
  const scheme = schemes[`interpolate${color.scheme}`] ?? schemes.interpolateViridis;
  const numbers = frames.flatMap((frame) => values(frame).values);
  const [low, high] = [color.min ?? Math.min(...numbers), color.max ?? Math.max(...numbers)];
  const shade = (value) => scheme(color.reverse ? 1 - (value - low) / (high - low) : (value - low) / (high - low));
  return (
    <svg width={width} height={height}>
      {shown.map((frame, row) => {
        const field = values(frame);
        return (
          <g key={row}>
            <text x={ROWS - 6} y={(row + 0.5) * rowHeight + 4} fontSize={12} textAnchor="end" fill={theme.colors.text.primary}>
              {cut(getFieldDisplayName(field, frame, frames), 14)}
            </text>
            {times(frame).map((time, index) => (
              <rect key={index} x={x(time)} y={row * rowHeight + 0.5} width={Math.max(1, x(time + step) - x(time))} height={rowHeight - 1} fill={shade(field.values[index])} shapeRendering="crispEdges" />
            ))}
          </g>
        );
      })}
      <TimeAxis range={range} x={x} y={height - 6} theme={theme} />
    </svg>
  );
}

export function XYChart({ panel, frames, width, height, theme }) {
  const series = panel.options.series.map((entry) => pairs(entry, frames)).filter((entry) => entry.points.length);
  const all = series.flatMap((entry) => entry.points);
  if (!all.length) {
    return null;
  }
  const [right, top] = [Math.max(...all.map(([x]) => x)) * 1.05 || 1, Math.max(...all.map(([, y]) => y)) * 1.1 || 1];
  const [left, bottom] = [46, height - 40];
  const px = (value) => left + (value / right) * (width - left - 10);
  const py = (value) => bottom - (value / top) * (bottom - 8);
  const thresholds = (panel.fieldConfig.defaults.thresholds?.steps ?? []).filter((entry) => entry.value !== null && entry.value <= top);
  return (
    <svg width={width} height={height}>
      {[0, 0.25, 0.5, 0.75, 1].map((share) => (
        <g key={share} fontSize={11} fill={theme.colors.text.secondary} stroke="none">
          <line x1={left} x2={width - 10} y1={py(share * top)} y2={py(share * top)} stroke={theme.colors.border.weak} />
          <text x={left - 6} y={py(share * top) + 4} textAnchor="end">{label(series[0].field, share * top)}</text>
          <text x={px(share * right)} y={bottom + 14} textAnchor="middle">{(share * right).toFixed(0)}</text>
        </g>
      ))}
      {thresholds.map((entry) => (
        <line key={entry.value} x1={left} x2={width - 10} y1={py(entry.value)} y2={py(entry.value)} stroke={theme.visualization.getColorByName(entry.color)} strokeDasharray="10 10" />
      ))}
      {series.map((entry, index) => {
        const color = theme.visualization.getColorByName(entry.color ?? theme.visualization.palette[index]);
        const points = [...entry.points].sort(([a], [b]) => a - b);
        return (
          <g key={index} fill={color}>
            {entry.lines && <polyline points={points.map(([x, y]) => `${px(x)},${py(y)}`).join(' ')} fill="none" stroke={color} strokeWidth={2} />}
            {entry.dots && points.map(([x, y], spot) => <circle key={spot} cx={px(x)} cy={py(y)} r={4} fillOpacity={0.7} />)}
            <text x={left + index * 190} y={height - 6} fontSize={12}>● {cut(entry.name, 28)}</text>
          </g>
        );
      })}
    </svg>
  );
}

function pairs(entry, frames) {
  const matched = entry.frame?.matcher.options ?? 0;
  const frame = frames[matched];
  const find = (dimension) => frame?.fields.find((field) => getFieldDisplayName(field, frame, frames) === dimension.matcher.options || field.name === dimension.matcher.options);
  const [x, y] = [find(entry.x), find(entry.y)];
  const show = y?.config.custom?.show ?? 'points';
  return {
    name: entry.name?.fixed ?? y?.name ?? '',
    field: y,
    color: y?.config.color?.mode === 'fixed' ? y.config.color.fixedColor : undefined,
    lines: show.includes('lines'),
    dots: show.includes('points'),
    points: x && y ? x.values.map((value, index) => [Number(value), y.values[index]]).filter((pair) => pair.every(Number.isFinite)) : [],
  };
}

const label = (field, value) => (field?.display ? formattedValueToString(field.display(value)) : value.toPrecision(2));
