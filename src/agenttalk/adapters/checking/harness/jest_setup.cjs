// jest loads this into the process of the tests, before each file of tests and after the setup of the project.
'use strict';

/** Return what tests import from jest; an older one has it in globals only. */
function load() {
  try {
    return require('@jest/globals');
  } catch (error) {
    return globalThis;
  }
}

const { expect, afterAll } = load();
const canaries = require('./c.cjs');

/** Keep the assertions that jest and the project's setup have: nothing can take their place any more. */
function lock() {
  const { matchers } = globalThis[Symbol.for('$$jest-matchers-object')] || { matchers: {} };
  for (const name of Object.keys(matchers)) {
    Object.defineProperty(matchers, name, { writable: false, configurable: false });
  }
}

let current = expect;
let swapped = false;
lock();
canaries(() => (swapped && current === expect ? undefined : current), afterAll);
if ('expect' in globalThis) {
  Object.defineProperty(globalThis, 'expect', {
    configurable: true,
    enumerable: true,
    get: () => current,
    set: (value) => {
      swapped = swapped || value !== current;
      current = value;
    },
  });
}
