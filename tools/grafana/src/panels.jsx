// A component a panel type. Those of @grafana/ui draw as Grafana does; the others are drawn here, and say so.
import { getDisplayValueAlignmentFactors, getFieldDisplayValues, VizOrientation } from '@grafana/data';
import { BarGauge, BigValue, TimeSeries, VizRepeater } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { useLayoutEffect } from 'react';

import { Heatmap, StateTimeline, XYChart } from './drawn.jsx';

const reducing = (panel) => panel.options?.reduceOptions ?? { calcs: ['lastNotNull'], values: false };

function figures({ panel, frames, theme }, sparkline) {
  return getFieldDisplayValues({
    data: frames,
    fieldConfig: panel.fieldConfig,
    reduceOptions: reducing(panel),
    replaceVariables: (text) => text,
    sparkline,
    theme,
    timeZone: 'utc',
  });
}

function Stat(props) {
  const { panel, theme, width, height } = props;
  const { orientation, graphMode, colorMode, justifyMode, textMode, wideLayout, text } = panel.options;
  return (
    <VizRepeater
      source={props}
      getValues={() => figures(props, graphMode !== 'none')}
      orientation={orientation === 'auto' || !orientation ? VizOrientation.Auto : orientation}
      width={width}
      height={height}
      itemSpacing={3}
      renderCounter={0}
      autoGrid
      renderValue={({ value, width, height, count }) => (
        <BigValue
          value={value.display}
          count={count}
          sparkline={value.sparkline}
          colorMode={colorMode}
          graphMode={graphMode}
          justifyMode={justifyMode}
          textMode={textMode}
          wideLayout={wideLayout}
          text={text}
          theme={theme}
          width={width}
          height={height}
        />
      )}
    />
  );
}

function Bars(props) {
  const { panel, theme, width, height } = props;
  const { orientation, displayMode, showUnfilled, valueMode, namePlacement, text } = panel.options;
  return (
    <VizRepeater
      source={props}
      getValues={() => figures(props, false)}
      orientation={orientation === 'vertical' ? VizOrientation.Vertical : VizOrientation.Horizontal}
      width={width}
      height={height}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      itemSpacing={8}
      minVizHeight={16}
      maxVizHeight={300}
      renderCounter={0}
      renderValue={({ value, width, height, orientation, alignmentFactors }) => (
        <BarGauge
          value={value.display}
          field={value.field}
          display={value.view?.getFieldDisplayProcessor(value.colIndex)}
          alignmentFactors={alignmentFactors}
          orientation={orientation}
          displayMode={displayMode}
          showUnfilled={showUnfilled}
          valueDisplayMode={valueMode}
          namePlacement={namePlacement}
          text={text}
          theme={theme}
          width={width}
          height={height}
        />
      )}
    />
  );
}

function Lines({ panel, frames, range, annotations, width, height }) {
  return (
    <TimeSeries
      frames={frames}
      structureRev={1}
      width={width}
      height={height}
      timeRange={range}
      timeZone="utc"
      legend={panel.options.legend}
      options={{}}
    >
      {(config) => <Marks config={config} annotations={annotations} />}
    </TimeSeries>
  );
}

function Marks({ config, annotations }) {
  useLayoutEffect(() => {
    config.addHook('draw', (plot) => {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.setLineDash([4, 4]);
      for (const { time, color } of annotations) {
        const x = Math.round(plot.valToPos(time, 'x', true));
        if (x >= bbox.left && x <= bbox.left + bbox.width) {
          ctx.strokeStyle = color;
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
        }
      }
      ctx.restore();
    });
  }, [config, annotations]);
  return null;
}

function Rows({ panel, frames, range, width, height }) {
  return (
    <TableNG
      data={frames[0]}
      width={width}
      height={height}
      sortBy={panel.options.sortBy}
      sortByBehavior="initial"
      initialSortBy={panel.options.sortBy}
      cellHeight={panel.options.cellHeight}
      noHeader={panel.options.showHeader === false}
      timeRange={range}
      fieldConfig={panel.fieldConfig}
      structureRev={1}
    />
  );
}

function Text({ panel }) {
  return <div style={{ whiteSpace: 'pre-wrap' }}>{panel.options.content}</div>;
}

export const COMPONENTS = {
  stat: Stat,
  bargauge: Bars,
  timeseries: Lines,
  table: Rows,
  text: Text,
  'state-timeline': StateTimeline,
  heatmap: Heatmap,
  xychart: XYChart,
};
