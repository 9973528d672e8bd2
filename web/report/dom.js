// Building elements. Text is always set as text: nothing measured is ever read as markup.
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'style') Object.assign(element.style, value);
    else if (value !== undefined && value !== null && value !== false)
      element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function section(title, ...children) {
  const id = title.toLowerCase().replace(/\W+/g, '-');
  return el('section', { 'aria-labelledby': id }, el('h2', { id }, title), ...children);
}
