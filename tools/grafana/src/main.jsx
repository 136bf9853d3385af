// Draws the dashboard of view.json, with the answers to its queries, as large as it is.
import { createTheme, dateTime, ThemeContext } from '@grafana/data';
import { GlobalStyles, PanelChrome } from '@grafana/ui';
import { Component, useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';

import { isEmpty, panelFrames, registerSettings } from './frames.js';
import { COMPONENTS } from './panels.jsx';

const WIDTH = 1440;
const MARGIN = 8;
// Grafana's grid: 24 columns, rows of 30 pixels, 8 between panels.
const COLUMN = (WIDTH - 2 * MARGIN + 8) / 24;
const ROW = 38;

const query = new URLSearchParams(location.search);
const theme = createTheme({ colors: { mode: query.get('mode') ?? 'dark' } });
const view = await (await fetch(`/view.json`)).json();
registerSettings(view.dashboard);
const range = { from: dateTime(view.from * 1000), to: dateTime(view.to * 1000), raw: { from: 'now-1h', to: 'now' } };
const annotations = view.annotations.map(({ time, color }) => ({ time: time * 1000, color }));

class Guard extends Component {
  state = {};

  static getDerivedStateFromError(error) {
    return { error };
  }

  render() {
    return this.state.error ? <pre data-problem>{String(this.state.error.stack).slice(0, 500)}</pre> : this.props.children;
  }
}

function Panel({ panel, width, height }) {
  const [frames, setFrames] = useState(null);
  useEffect(() => {
    panelFrames(panel, view.answers, theme).then(setFrames, (error) => {
      console.error(panel.title, error);
      setFrames([]);
    });
  }, [panel]);
  const Drawn = COMPONENTS[panel.type];
  if (!frames) {
    return null;
  }
  if (!Drawn) {
    return <Words>{`A panel of type ${panel.type}, which only Grafana itself draws.`}</Words>;
  }
  if (panel.type !== 'text' && isEmpty(frames)) {
    return <Words empty>{panel.fieldConfig.defaults.noValue ?? 'No data'}</Words>;
  }
  return (
    <Drawn panel={panel} frames={frames} range={range} step={stepOf(frames)} annotations={annotations} theme={theme} width={width} height={height} />
  );
}

// Milliseconds between points.
function stepOf(frames) {
  const times = frames.map((frame) => frame.fields[0]?.values ?? []).find((values) => values.length > 1);
  const gaps = times?.slice(1).map((time, index) => time - times[index]);
  return gaps ? Math.min(...gaps) : view.step * 1000;
}

function Words({ children, empty }) {
  const style = { color: theme.colors.text.secondary, display: 'grid', height: '100%', padding: 8, placeItems: 'center', textAlign: 'center' };
  return (
    <div style={style} data-empty={empty}>
      {children}
    </div>
  );
}

function choice(variable) {
  const begins = variable.type === 'datasource' ? 'Prometheus' : (variable.current?.text ?? variable.query);
  return view.chosen[variable.name] ?? (variable.includeAll ? 'All' : String(begins));
}

function Variables() {
  const shown = view.dashboard.templating.list.filter((variable) => variable.hide !== 2);
  return (
    <div style={{ display: 'flex', flexWrap: 'wrap', gap: 8, padding: `4px ${MARGIN}px 8px` }}>
      {shown.map((variable) => (
        <span key={variable.name} style={{ background: theme.colors.background.primary, border: `1px solid ${theme.colors.border.medium}`, borderRadius: 2, fontSize: 12 }}>
          <span style={{ background: theme.colors.background.secondary, display: 'inline-block', fontWeight: 500, padding: '6px 8px' }}>{variable.label ?? variable.name}</span>
          <span style={{ display: 'inline-block', padding: '6px 8px' }}>{choice(variable)}</span>
        </span>
      ))}
      <span style={{ flex: 1 }} />
      {view.dashboard.links?.map((link) => (
        <span key={link.title} style={{ color: theme.colors.text.secondary, fontSize: 12, padding: '7px 4px' }}>
          {link.title}
        </span>
      ))}
    </div>
  );
}

function Placed({ panel }) {
  const { x, y, w, h } = panel.gridPos;
  const box = { position: 'absolute', left: MARGIN + x * COLUMN, top: y * ROW, width: w * COLUMN - 8, height: h * ROW - 8 };
  if (panel.type === 'row') {
    return (
      <div style={{ ...box, fontSize: 16, fontWeight: 500, paddingTop: 4 }}>
        {panel.collapsed ? '▸' : '▾'} {panel.title}
      </div>
    );
  }
  return (
    <div style={box} data-panel={panel.title}>
      <PanelChrome title={panel.title} description={panel.description} width={box.width} height={box.height} displayMode={panel.transparent ? 'transparent' : 'default'}>
        {(width, height) => (
          <Guard>
            <Panel panel={panel} width={width} height={height} />
          </Guard>
        )}
      </PanelChrome>
    </div>
  );
}

function App() {
  const bottom = Math.max(...view.dashboard.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  useEffect(() => {
    document.body.style.background = theme.colors.background.canvas;
    document.body.style.color = theme.colors.text.primary;
  }, []);
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={{ width: WIDTH }} id="dashboard">
        <div style={{ fontSize: 18, fontWeight: 500, padding: '10px 8px 4px' }}>{view.dashboard.title}</div>
        <Variables />
        <div style={{ position: 'relative', height: bottom * ROW }}>
          {view.dashboard.panels.map((panel) => (
            <Placed key={panel.id} panel={panel} />
          ))}
        </div>
      </div>
    </ThemeContext.Provider>
  );
}

createRoot(document.getElementById('root')).render(<App />);
