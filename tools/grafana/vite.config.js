import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// Grafana's packages ask for a Node's globals when they are loaded.
export default defineConfig({
  plugins: [react()],
  define: { 'process.env.NODE_ENV': '"production"', 'process.env': '{}', global: 'globalThis' },
  build: { outDir: process.env.PANELS_BUILD || 'dist', emptyOutDir: true, chunkSizeWarningLimit: 20000 },
});
