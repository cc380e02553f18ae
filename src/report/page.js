// SPDX-License-Identifier: Apache-2.0
'use strict';
(() => {
  const config = JSON.parse(document.getElementById('theme').textContent);
  const narrow = matchMedia('(max-width: 640px)');
  const views = new Map();
  const draw = async (figure) => {
    const spec = JSON.parse(figure.querySelector('script').textContent);
    const chart = figure.querySelector('.chart');
    const labels = {axisY: {labelLimit: narrow.matches ? 120 : 280}, legend: {...config.legend, labelLimit: narrow.matches ? 280 : 600}};
    if (views.has(chart)) views.get(chart).finalize();
    // ast: expressions are interpreted, not compiled, so that the page needs no eval.
    views.set(chart, await vegaEmbed(chart, spec, {
      mode: 'vega-lite', renderer: 'svg', ast: true, actions: false, defaultStyle: false, config: {...config, ...labels},
      tooltip: {disableDefaultStyle: true, theme: 'page'},
    }));
    chart.dataset.drawn = 'yes';
  };
  const draw_all = () => {
    for (const figure of document.querySelectorAll('figure')) {
      draw(figure).catch((error) => {
        console.error(error);
        figure.querySelector('.chart').textContent = 'This picture could not be drawn; the table below has its numbers. ' + error.message;
      });
    }
  };
  draw_all();
  narrow.addEventListener('change', draw_all);
})();
