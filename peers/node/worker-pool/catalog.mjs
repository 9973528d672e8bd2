// Checks a catalogue as examples/bookstore does: the same rules, the same errors. This file runs on
// the main thread or, through Piscina, on a worker.
//
// The bytes become one string, lines are found by indexOf, and a line without quotes is split at
// once; that is what makes it fast. Only a line with a quote is read character by character.
import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { workerData } from 'piscina';

const HEADER = 'isbn;title;author;price;stock';
const MAX_ERRORS = 20;
const MAX_TEXT = 500;
export const PROGRESS_EVERY = 100_000;
const PRICE = /^\d{1,5}\.\d\d$/;
const STOCK = /^\d{1,7}$/;

function isbnProblem(isbn) {
  if (isbn.length !== 13) return 'isbn has not 13 digits';
  let sum = 0;
  for (let i = 0; i < 13; i++) {
    const digit = isbn.charCodeAt(i) - 48;
    if (digit < 0 || digit > 9) return 'isbn has not 13 digits';
    sum += i & 1 ? digit * 3 : digit;
  }
  if (sum % 10 !== 0) return 'isbn has a wrong check digit';
  if (isbn.charCodeAt(0) !== 57 || isbn.charCodeAt(1) !== 55 || (isbn.charCodeAt(2) & ~1) !== 56)
    return 'isbn starts with neither 978 nor 979';
  return null;
}

// Fields of a row that holds quotes, from `at`. Quoted fields may hold line ends, so this also finds
// where the row ends. Returns { fields, end, problem }.
function readQuotedRow(text, at) {
  const fields = [];
  let problem = null;
  for (;;) {
    let value;
    const start = at;
    if (text[at] === '"') {
      value = '';
      for (;;) {
        const quote = text.indexOf('"', at + 1);
        if (quote < 0) return { fields, end: text.length, problem: 'quote is never closed' };
        value += text.slice(at + 1, quote);
        at = quote + 1;
        if (text[at] !== '"') break;
        value += '"';
      }
      if (at < text.length && text[at] !== ';' && text[at] !== '\n' && text[at] !== '\r')
        problem ??= 'text after a closing quote';
    }
    const from = value === undefined ? start : at;
    while (at < text.length && text[at] !== ';' && text[at] !== '\n') at++;
    const rest = text.slice(from, at);
    if (value === undefined && rest.includes('"')) problem ??= 'quote inside an unquoted field';
    fields.push(value === undefined ? rest : value);
    if (at >= text.length || text[at] === '\n') return { fields, end: at, problem };
    at++;
  }
}

function bookProblem([isbn, title, author, price, stock], seen) {
  const problem = isbnProblem(isbn);
  if (problem) return problem;
  if (title === '') return 'title is empty';
  if (title.length > MAX_TEXT) return 'title is longer than 500 bytes';
  if (author === '') return 'author is empty';
  if (author.length > MAX_TEXT) return 'author is longer than 500 bytes';
  if (!PRICE.test(price)) return 'price is not a number like 12.99, at most 99999.99';
  if (!STOCK.test(stock)) return 'stock is not a whole number from 0 to 9999999';
  const key = Number(isbn); // a set of numbers is faster than one of strings
  if (seen.has(key)) return 'isbn occurred before';
  seen.add(key);
  return null;
}

// `bytes`: a Uint8Array. Results are data, also the failures, for between threads an error would
// lose its class and its properties. `collect` returns the books as well.
export function parseCatalogCsv(bytes, { onProgress, collect = false } = {}) {
  const started = performance.now();
  if (!isUtf8(bytes)) return { ok: false, reason: 'the file is not UTF-8' };
  const text = new TextDecoder().decode(bytes);
  let end = text.indexOf('\n');
  if (end < 0) end = text.length;
  if (text.slice(0, end).trimEnd() !== HEADER)
    return { ok: false, reason: `the first line must be ${HEADER}` };

  const seen = new Set();
  const errors = [];
  const books = collect ? [] : undefined;
  let imported = 0;
  let skipped = 0;
  let line = 2;
  for (let at = end + 1; at < text.length; at = end + 1, line++) {
    end = text.indexOf('\n', at);
    if (end < 0) end = text.length;
    let row = text.slice(at, text[end - 1] === '\r' ? end - 1 : end);
    if (row === '') continue;
    const rowLine = line;
    let fields;
    let problem = null;
    if (row.includes('"')) {
      ({ fields, end, problem } = readQuotedRow(text, at));
      row = text.slice(at, end);
      line += row.split('\n').length - 1;
    } else {
      fields = row.split(';');
    }
    if (!problem && fields.length !== 5)
      problem = "number of fields differs from the first row's";
    problem ??= bookProblem(fields, seen);
    if (problem) {
      skipped++;
      if (errors.length < MAX_ERRORS) errors.push({ line: rowLine, reason: problem });
    } else {
      imported++;
      if (collect)
        books.push({ isbn: fields[0], title: fields[1], author: fields[2],
          price: Number(fields[3]), stock: Number(fields[4]) });
    }
    if (onProgress && (imported + skipped) % PROGRESS_EVERY === 0) onProgress(imported + skipped);
  }
  const parseMs = performance.now() - started;
  return { ok: true, imported, skipped, errors, parseMs, ...(collect && { books }) };
}

let held; // the catalogue that this worker read itself

// The worker's entry: { bytes, port } where `port` takes progress reports.
export default function task({ bytes, held: useHeld, port, collect }) {
  if (useHeld) bytes = held ??= readFileSync(workerData.catalogue);
  return parseCatalogCsv(bytes, {
    collect,
    onProgress: port && ((rows) => port.postMessage({ rows })),
  });
}
