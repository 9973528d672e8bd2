// The report page: shows the document embedded in it, of `donmaz lab run` or `donmaz load`.
import 'uplot/dist/uPlot.min.css';
import './report/page.css';
import './report/report.css';
import uPlot from 'uplot';
import { el } from './report/dom.js';
import { showLab } from './report/lab.js';
import { showLoad } from './report/load.js';

const { kind, document: doc } = JSON.parse(document.getElementById('data').textContent);
const page = document.getElementById('page');
const show = { lab: showLab, load: showLoad }[kind];
if (show) show(page, doc, uPlot);
else page.append(el('p', {}, `This page does not know how to show '${kind}'.`));
