// From Prometheus' answers to what a panel is drawn from, as Grafana's Prometheus data source and panels do it.
import {
  applyFieldOverrides,
  FieldType,
  getFieldDisplayName,
  standardFieldConfigEditorRegistry,
  standardTransformers,
  standardTransformersRegistry,
  toDataFrame,
  transformDataFrame,
} from '@grafana/data';
import { firstValueFrom } from 'rxjs';

standardTransformersRegistry.setInit(() =>
  // Some are listed under two names.
  [...new Map(Object.values(standardTransformers).map((entry) => [entry.id, entry])).values()].map((transformation) => ({
    id: transformation.id,
    name: transformation.name,
    transformation: () => Promise.resolve(transformation),
    editor: () => null,
  }))
);

// Grafana's panels register the settings of fields that they know; here those that a dashboard uses are known.
export function registerSettings(dashboard) {
  const ids = new Set(['unit', 'min', 'max', 'decimals', 'thresholds', 'mappings', 'color', 'noValue', 'displayName', 'links']);
  for (const panel of everyPanel(dashboard)) {
    Object.keys(panel.fieldConfig?.defaults?.custom ?? {}).forEach((key) => ids.add(`custom.${key}`));
    panel.fieldConfig?.overrides?.forEach((override) => override.properties.forEach(({ id }) => ids.add(id)));
  }
  standardFieldConfigEditorRegistry.setInit(() =>
    [...ids].map((id) => ({
      id,
      path: id.replace('custom.', ''),
      isCustom: id.startsWith('custom.'),
      name: id,
      process: (value) => value,
      shouldApply: () => true,
      override: () => null,
      editor: () => null,
    }))
  );
}

export function everyPanel(dashboard) {
  return dashboard.panels.flatMap((panel) => [panel, ...(panel.panels ?? [])]);
}

const number = (text) => ({ '+Inf': Infinity, '-Inf': -Infinity })[text] ?? Number(text);

function legend(format, labels) {
  if (!format || format === '__auto') {
    const words = Object.entries(labels).filter(([key]) => key !== '__name__');
    return words.length ? `{${words.map(([key, value]) => `${key}="${value}"`).join(', ')}}` : 'Value';
  }
  return format.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, key) => labels[key] ?? '').trim();
}

function seriesFrame(target, series) {
  const points = series.values ?? [series.value];
  const name = legend(target.legendFormat, series.metric);
  return toDataFrame({
    refId: target.refId,
    name,
    fields: [
      { name: 'Time', type: FieldType.time, values: points.map(([time]) => time * 1000) },
      {
        name: 'Value',
        type: FieldType.number,
        labels: series.metric,
        config: { displayNameFromDS: name },
        values: points.map(([, value]) => number(value)),
      },
    ],
  });
}

function tableFrame(target, result, isOneOfSeveral) {
  const keys = [...new Set(result.flatMap((series) => Object.keys(series.metric)))].sort();
  const last = (series) => series.value ?? series.values.at(-1);
  return toDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: result.map((series) => last(series)[0] * 1000) },
      ...keys.map((key) => ({ name: key, type: FieldType.string, values: result.map((series) => series.metric[key] ?? '') })),
      {
        name: isOneOfSeveral ? `Value #${target.refId}` : 'Value',
        type: FieldType.number,
        values: result.map((series) => number(last(series)[1])),
      },
    ],
  });
}

// Frames of one panel: answers, then its transformations, then its fields' settings.
export async function panelFrames(panel, answers, theme) {
  const targets = (panel.targets ?? []).filter((target) => !target.hide);
  const raw = targets.flatMap((target) => {
    const result = answers[`${panel.id}${target.refId}`] ?? [];
    if (target.format === 'table') {
      return result.length ? [tableFrame(target, result, targets.length > 1)] : [];
    }
    return result.map((series) => seriesFrame(target, series));
  });
  const frames = panel.transformations?.length
    ? await firstValueFrom(transformDataFrame(panel.transformations, raw, { interpolate: (text) => text }))
    : raw;
  const drawn = applyFieldOverrides({
    data: frames,
    fieldConfig: structuredClone(panel.fieldConfig ?? { defaults: {}, overrides: [] }),
    replaceVariables: (text) => text,
    theme,
    timeZone: 'utc',
    fieldConfigRegistry: standardFieldConfigEditorRegistry,
  });
  // Colours that go by name are chosen by the name that is kept here.
  drawn.forEach((frame) => frame.fields.forEach((field) => getFieldDisplayName(field, frame, drawn)));
  return drawn;
}

export const isEmpty = (frames) => frames.every((frame) => frame.length === 0);
